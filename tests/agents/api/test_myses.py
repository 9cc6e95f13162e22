"""The REST routes of the fleet: shapes, states, and what follows from a write."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from agents.context_inputs import preview_context
from agents.models import ModelCall, Mysis
from memory.assembly.prepare import record_call
from memory.models import ContextPolicy
from tests.factories import make_memory, make_mysis, make_turn
from tests.programs import Program

pytestmark = pytest.mark.django_db

MYSIS_KEYS = {
    "id", "name", "state", "model", "policy", "effective_policy", "prompt", "account",
    "activity",
    "tick", "last_error", "idle", "nudges", "created_at",
}  # fmt: skip
TURN_KEYS = {
    "id", "number", "trigger", "outcome", "iterations", "tokens", "cost",
    "latency_ms", "error", "started_at", "finished_at",
}  # fmt: skip
HIT_KEYS = {
    "memory_id", "mysis", "role", "origin", "content", "reasoning", "snippet",
    "timestamp", "taken_back",
}  # fmt: skip


def test_a_mysis_is_made_read_changed_and_deleted(admin_program: Program) -> None:
    ContextPolicy.objects.create(name="short", strategy="window")
    admin_program.post("/prompts", {"name": "miner", "text": "Mine."})
    made = admin_program.post(
        "/myses",
        {
            "name": "Ada Lovelace",
            "model": "pilot",
            "policy": "short",
            "prompt": "miner",
            "pins": ["never attack miners"],
            "max_iterations": 1000,
            "messaging": True,
        },
    )
    assert made.status_code == 201
    item = made.json()
    assert set(item) == MYSIS_KEYS
    assert (item["state"], item["policy"], item["prompt"]) == ("idle", "short", "miner")
    assert (item["account"], item["tick"], item["last_error"]) == (None, None, None)
    row = Mysis.objects.get()
    assert (row.max_iterations, row.pins.get().text) == (1000, "never attack miners")
    assert row.messaging is True
    read = admin_program.get("/myses/Ada%20Lovelace").json()
    written = (read["pins"], read["max_iterations"], read["messaging"])
    assert written == (["never attack miners"], 1000, True)
    for reference in (str(row.pk), "Ada%20Lovelace"):
        assert admin_program.get(f"/myses/{reference}").json().items() >= item.items()
    changed = admin_program.patch(
        f"/myses/{row.pk}", {"name": "Ada", "policy": None, "pins": []}
    )
    assert changed.status_code == 200
    assert (changed.json()["name"], changed.json()["policy"]) == ("Ada", None)
    assert changed.json()["prompt"] == "miner"
    assert [pin.state for pin in row.pins.all()] == ["superseded"]
    assert admin_program.delete("/myses/Ada").status_code == 204
    assert admin_program.get(f"/myses/{row.pk}").status_code == 404


def test_a_bad_mysis_is_422_and_names_the_field(admin_program: Program) -> None:
    make_mysis(name="taken")
    for bad in (
        {"name": "17"},
        {"name": "taken"},
        {"name": None},
        {"model": "nowhere:gpt"},
        {"max_iterations": 1001},
        {"max_iterations": True},
        {"max_iterations": 10**400},
        {"messaging": None},
        {"policy": "none"},
        {"prompt": "none"},
        {"pins": [""]},
        {"colour": "red"},
    ):
        [field] = bad
        refused = admin_program.post("/myses", {"name": "n", "model": "pilot", **bad})
        assert refused.status_code == 422, bad
        assert refused.json()["detail"].startswith(field)
    assert Mysis.objects.count() == 1


def test_start_stop_and_message_follow_the_states(admin_program: Program) -> None:
    mysis = make_mysis(name="Ada")
    assert admin_program.post("/myses/Ada/start").json()["state"] == "running"
    again = admin_program.post("/myses/Ada/start")
    assert again.status_code == 409
    assert "running" in again.json()["detail"]
    for _ in range(2):
        stopped = admin_program.post("/myses/Ada/stop")
        assert (stopped.status_code, stopped.json()["state"]) == (200, "stopped")
    refused = admin_program.post("/myses/Ada/message", {"text": "hello"})
    assert refused.status_code == 409
    assert "stopped" in refused.json()["detail"]
    Mysis.objects.update(state="idle")
    sent = admin_program.post("/myses/Ada/message", {"text": "hello"})
    assert sent.status_code == 200
    assert sent.json()["sender"] == "token:test admin"
    assert (sent.json()["origin"], sent.json()["content"]) == ("human", "hello")
    mysis.refresh_from_db()
    assert mysis.state == "running"


def test_turns(admin_program: Program) -> None:
    mysis = make_mysis(name="Ada")
    turns = [make_turn(mysis) for _ in range(3)]
    done = turns[0]
    done.outcome = "done"
    done.input_tokens, done.output_tokens, done.cached_tokens = 100, 20, 80
    done.cost = Decimal("0.001234")
    done.save()
    make_turn(make_mysis())
    page = admin_program.get("/myses/Ada/turns?limit=2").json()
    assert [item["id"] for item in page["items"]] == [turns[0].pk, turns[1].pk]
    assert set(page["items"][0]) == TURN_KEYS
    rest = admin_program.get(f"/myses/Ada/turns?limit=2&cursor={page['next']}").json()
    assert [item["id"] for item in rest["items"]] == [turns[2].pk]
    assert rest["next"] is None
    item = admin_program.get(f"/turns/{done.pk}").json()
    assert item["tokens"] == {"input": 100, "output": 20, "cached": 80}
    assert item["cost"] == pytest.approx(0.001234)
    assert (item["outcome"], item["error"]) == ("done", None)
    assert page["items"][1]["outcome"] is None
    for bad in ("0", "x", "9" * 30, "-1"):
        assert admin_program.get(f"/turns/{bad}").status_code == 404


def test_a_turn_tells_its_calls_and_summaries_shift_no_number(
    admin_program: Program,
) -> None:
    """Calls that drive the turn count from 1, whatever stands between them."""
    mysis = make_mysis(name="Ada")
    make_memory(mysis, content="go to Sol")
    turn = make_turn(mysis)
    for kind, number in (("summary", 1), ("turn", 1), ("summary", 2), ("turn", 2)):
        call = ModelCall.objects.create(turn=turn, kind=kind, number=number, model="m")
        if kind == "turn":
            record_call(call_id=call.pk, prepared=preview_context(mysis))
    told = admin_program.get(f"/turns/{turn.pk}").json()["calls"]
    assert [(call["kind"], call["number"]) for call in told] == [
        ("summary", 1), ("turn", 1), ("summary", 2), ("turn", 2),
    ]  # fmt: skip
    assert told[0]["tokens"] == {"input": 0, "output": 0, "cached": 0}
    for number, status in ((1, 200), (2, 200), (3, 404)):
        shown = admin_program.get(f"/turns/{turn.pk}/calls/{number}/context")
        assert shown.status_code == status


def test_broadcasts_reach_idle_and_running_ones_and_are_found_once(
    admin_program: Program, django_capture_on_commit_callbacks: Any
) -> None:
    ada, bob = make_mysis(name="Ada"), make_mysis(name="Bob", state="running")
    make_mysis(name="Cat", state="stopped")
    with django_capture_on_commit_callbacks(execute=True):
        sent = admin_program.post(
            "/broadcasts", {"text": "the <b>meeting</b> is at Sol"}
        )
    assert sent.status_code == 201
    item = sent.json()
    assert (item["recipients"], item["mysis"]) == (2, None)
    assert item["sender"] == "token:test admin"
    assert admin_program.get("/broadcasts").json()["items"] == [item]
    for mode in ("fts", "exact"):
        found = admin_program.get(f"/search/broadcasts?q=meeting&mode={mode}").json()[
            "items"
        ]
        assert len(found) == 1
        assert set(found[0]) == HIT_KEYS
        assert "&lt;b&gt;<mark>meeting</mark>" in found[0]["snippet"]
        assert found[0]["memory_id"] == ada.memories.get().pk
    for name, count in (("Ada", 1), ("Bob", 1), ("Cat", 0)):
        found = admin_program.get(f"/search/broadcasts?q=meeting&mysis={name}").json()[
            "items"
        ]
        assert len(found) == count
    assert bob.memories.count() == 1


def test_the_search_in_broadcasts_goes_back_by_memory_id(
    admin_program: Program,
) -> None:
    make_mysis()
    for n in range(5):
        admin_program.post("/broadcasts", {"text": f"gather {n}"})
    seen: list[str] = []
    before = ""
    while True:
        page = admin_program.get(f"/search/broadcasts?q=gather&limit=2{before}").json()
        seen += [hit["content"] for hit in page["items"]]
        if page["next"] is None:
            break
        before = f"&before={page['next']}"
    assert seen == [f"gather {n}" for n in (4, 3, 2, 1, 0)]
