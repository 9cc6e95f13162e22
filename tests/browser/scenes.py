"""Fleets to look at: busy ones, odd ones, empty ones."""

from __future__ import annotations

import json
from datetime import timedelta
from decimal import Decimal
from typing import Any

from django.utils import timezone

from agents import events
from agents.events import Kind
from agents.models import Event, ModelCall, Mysis, Turn
from memory.models import AccountClock, GameSnapshot, Memory, SentContext
from tests.factories import make_account, make_memory, make_mysis, make_turn

TICK = 481_516
RTL = "سفينة الاستكشاف البعيد"
CJK = "深空探索者一号・長い名前の採掘船団を率いる艦"
LONG = (
    "Mnemosyne-of-the-extraordinarily-long-and-unbroken-name-without-any-space-at-all"
)
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>"

STATUS: dict[str, Any] = {
    "player": {
        "username": "Pilot",
        "empire": "solarian",
        "credits": 11153,
        "current_system": "sol",
        "current_poi": "sol_belt",
    },
    "ship": {
        "name": "Drillship",
        "hull": 120,
        "max_hull": 140,
        "shield": 55,
        "max_shield": 55,
        "fuel": 45,
        "max_fuel": 130,
        "cargo_used": 57,
        "cargo_capacity": 100,
    },
}
SYSTEM = {
    "system": {"id": "sol", "name": "Sol", "empire": "solarian"},
    "pois": [
        {"id": "sol_belt", "name": "Asteroid Belt Alpha"},
        {"id": "earth", "name": "Earth"},
        {"id": "mars", "name": "Mars"},
    ],
}


def stats(share: float, budget: int = 128_000) -> dict[str, Any]:
    """Statistics of a call that fills so much of its budget."""
    used = int(share * (budget - 8000))
    parts = {"system": 0.12, "tools": 0.18, "pins": 0.02, "summary": 0.08}
    parts |= {"state": 0.06, "user": 0.05, "assistant": 0.14, "tool": 0.35}
    return {
        "strategy": "snapshot-window",
        "status": "reduced",
        "budget": budget,
        "reserve": 8000,
        "tokens_by_category": {k: int(used * v) for k, v in parts.items()},
    }


def play(mysis: Mysis, *, credits: int = 11_153, stale: bool = False) -> None:
    """Give a Mysis an account with a cached state."""
    account = make_account()
    mysis.account = account
    mysis.tick = TICK
    mysis.save()
    now = timezone.now()
    AccountClock.objects.create(username=account.username, tick=TICK, seen_at=now)
    status = json.loads(json.dumps(STATUS))
    status["player"] |= {"credits": credits, "username": account.username}
    for tool, content in (("get_status", status), ("get_system", SYSTEM)):
        GameSnapshot.objects.create(
            username=account.username,
            tool_name=tool,
            content=json.dumps(content),
            game_tick=TICK - 2,
            captured_at=now - timedelta(seconds=20),
            stale_reason="mine" if stale and tool == "get_status" else "",
            stale_tick=TICK - 1 if stale else None,
        )
    GameSnapshot.objects.create(
        username=account.username,
        tool_name="get_map",
        content=json.dumps({"systems": [{"id": f"s{n}"} for n in range(60)]}),
        game_tick=TICK - 90,
        captured_at=now - timedelta(seconds=900),
    )


def talk(mysis: Mysis, exchanges: int = 3) -> list[Memory]:
    """A conversation with an order, calls, results and thoughts."""
    rows = [
        make_memory(
            mysis, content="Find out what sells best here.", sender="operator:ann"
        )
    ]
    turn = make_turn(mysis, outcome="done", iterations=2, latency_ms=2345)
    for number in range(exchanges):
        rows += _exchange(mysis, turn, number)
    mysis.last_memory_at = rows[-1].created_at
    mysis.save()
    return rows


def _exchange(mysis: Mysis, turn: Turn, number: int) -> list[Memory]:
    call = {
        "id": f"call_{number}",
        "type": "function",
        "function": {"name": "get_status", "arguments": json.dumps({"deep": number})},
    }
    asked = make_memory(
        mysis,
        role="assistant",
        turn=turn,
        content="I look around before I mine." if number % 2 else "",
        reasoning="The belt is rich, but the hold is nearly full.",
        tool_calls=[call],
        tick=TICK,
    )
    got = make_memory(
        mysis,
        role="tool",
        turn=turn,
        content=json.dumps(STATUS),
        tool_call_id=call["id"],
        tool_name="get_status",
        tick=TICK,
    )
    return [asked, got]


def work(
    mysis: Mysis, *, turns: int = 9, share: float = 0.4, cost: str = "0.004"
) -> None:
    """Turns over the last hour, and a context for the newest call."""
    now = timezone.now()
    for number in range(turns):
        turn = make_turn(
            mysis,
            outcome="errored" if number % 7 == 5 else "done",
            error="502 from the game server" if number % 7 == 5 else "",
            iterations=3,
            input_tokens=5200,
            output_tokens=240,
            cost=Decimal(cost),
            latency_ms=4321,
        )
        age = timedelta(minutes=(turns - number) * 55 / turns)
        Turn.objects.filter(pk=turn.pk).update(started_at=now - age)
    call = ModelCall.objects.create(turn=turn, number=1, model=mysis.model)
    SentContext.objects.create(
        mysis=mysis,
        call=call,
        strategy="snapshot-window",
        dialect="openai",
        view={"system": None, "sources": [], "synthetic": [], "messages": []},
        stats=stats(share),
        digest="0" * 64,
    )


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
        play(mysis, credits=held, stale=share > 0.4)
        talk(mysis)
        work(mysis, share=share)
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
