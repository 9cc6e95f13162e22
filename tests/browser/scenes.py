"""Fleets to look at: busy ones, odd ones, empty ones."""

from __future__ import annotations

from agents import events
from agents.events import Kind
from agents.models import Event, Mysis
from bench.pages.scenes import TICK as TICK
from bench.pages.scenes import add_account as add_account
from bench.pages.scenes import add_conversation as add_conversation
from bench.pages.scenes import add_turns as add_turns
from bench.pages.scenes import call_stats as call_stats
from tests.factories import make_memory, make_mysis

RTL = "سفينة الاستكشاف البعيد"
CJK = "深空探索者一号・長い名前の採掘船団を率いる艦"
LONG = (
    "Mnemosyne-of-the-extraordinarily-long-and-unbroken-name-without-any-space-at-all"
)
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>"


def busy_fleet() -> dict[str, Mysis]:
    """Myses in every state, with names that break careless layouts."""
    kinds = [
        ("Ada", "running", "calling mine", 0.22, 128_411),
        ("Brahe", "running", "waiting for tick 481520", 0.48, 902),
        (CJK, "running", "thinking", 0.81, 5_431_077),
        (RTL, "idle", "", 0.35, 77),
        (LONG, "running", "calling travel", 0.98, 12),
        ("Draper", "stopped", "", 0.1, 4_500),
        ("Eratosthenes", "errored", "", 0.55, 31),
    ]
    fleet = {}
    for name, state, activity, share, held in kinds:
        mysis = make_mysis(name=name, state=state, activity=activity)
        add_account(mysis, credits=held, stale=share > 0.4)
        add_conversation(mysis)
        add_turns(mysis, share=share)
        fleet[name] = mysis
    broken = fleet["Eratosthenes"]
    broken.last_error = (
        "openai:gpt-9 is unknown to the provider: choose another model, "
        "for example openai:gpt-5-nano."
    )
    broken.last_error_code = "provider"
    broken.save()
    make_memory(
        fleet[RTL], role="assistant", content="وصلت إلى المحطة وأنتظر الأوامر التالية."
    )
    make_memory(
        fleet[CJK],
        role="assistant",
        content="小惑星帯で鉄鉱石を採掘中です。燃料は半分残っています。",
    )
    make_memory(
        fleet["Draper"], role="assistant", content=f"They said {HOSTILE} again."
    )
    happenings(fleet)
    return fleet


def happenings(fleet: dict[str, Mysis]) -> None:
    """Events of every kind that the feed shows."""
    ada, odd = fleet["Ada"], fleet[CJK]
    for mysis in (ada, odd, fleet[LONG]):
        data = {"tool": "mine", "arguments": {"poi": "belt"}, "ok": True, "ms": 31}
        events.append(Kind.TOOL_CALLED, mysis_id=mysis.pk, data=data)
    for tool in ("get_status", "get_ship", "get_cargo"):
        data = {"tool": tool, "reason": "mine", "tick": TICK, "fields": []}
        events.append(Kind.SNAPSHOT_STALE, mysis_id=ada.pk, data=data)
    text = "All ships: sell your ore at Earth before tick 481600."
    data = {"id": 1, "text": text, "recipients": 5}
    events.append(Kind.BROADCAST_SENT, data=data)
    broken = fleet["Eratosthenes"]
    data = {"name": broken.name, "state": "errored", "error": broken.last_error}
    events.append(Kind.MYSIS_STATE, mysis_id=broken.pk, data=data)
    data = {"tool": "travel", "arguments": {"to": HOSTILE}, "ok": False, "ms": 8}
    events.append(Kind.TOOL_CALLED, mysis_id=odd.pk, data=data)
    assert Event.objects.count() >= 8
