"""An audit that finds nothing wrong must be able to."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection

from agents import actions, events
from agents.events import Kind
from agents.models import Event, Mysis, Turn
from bench.faults import audit
from memory.models import Memory, Origin, Role
from sandbox.game.sessions import Write

pytestmark = pytest.mark.django_db
CALL = {"id": "c1", "type": "function", "function": {"name": "sell", "arguments": "{}"}}
SOLD = {"item_id": "ore_iron", "quantity": 2}


def query(text: str) -> list[tuple[Any, ...]]:
    """Ask the database of the test."""
    with connection.cursor() as cursor:
        cursor.execute(text)
        return list(cursor.fetchall())


@pytest.fixture
def mysis() -> Mysis:
    """One that has taken a sound turn: it sold something."""
    mysis = actions.create_mysis(name="cap-1", by="test")
    Mysis.objects.update(model="chaos:cap-1")
    turn = Turn.objects.create(
        mysis=mysis, number=1, trigger="start", outcome="done", iterations=0
    )
    Turn.objects.update(finished_at=turn.started_at)
    Mysis.objects.update(turn_count=1)
    for kind in (Kind.TURN_STARTED, Kind.TURN_FINISHED):
        events.append(kind, mysis_id=mysis.pk, data={"turn": turn.pk})
    said = {"mysis": mysis, "turn": turn}
    Memory.objects.create(
        **said, role=Role.ASSISTANT, origin=Origin.AGENT, tool_calls=[CALL]
    )
    Memory.objects.create(
        **said,
        role=Role.TOOL,
        origin=Origin.TOOL,
        tool_call_id="c1",
        tool_name="sell",
        args=SOLD,
        content="{}",
    )
    return mysis


def writes(count: int = 1) -> dict[str, list[Write]]:
    return {"Cap cap-1.7": [Write(5, "sell", SOLD)] * count}


def found(count: int = 1, promised: tuple[str, ...] = ()) -> str:
    """What is wrong, as one text."""
    return "; ".join(audit.find_faults(query, writes(count), promised))


def test_what_is_in_order_is_not_complained_of(mysis: Mysis) -> None:
    assert found() == ""


@pytest.mark.parametrize("count", [0, 2])
def test_an_action_that_was_lost_or_repeated(mysis: Mysis, count: int) -> None:
    assert f"happened {count} times, recorded 1 to 1: ['{{}}']" in found(count)


@pytest.mark.parametrize("words", audit.UNKNOWN)
def test_an_action_of_unknown_outcome_may_have_happened(
    mysis: Mysis, words: str
) -> None:
    rows = Memory.objects.filter(role=Role.TOOL)
    rows.update(is_error=True, content=f"{words} and so on")
    assert found(0) == found(1) == ""
    assert "happened 2 times, recorded 0 to 1" in found(2)
    rows.update(content="Error: not_docked: no")
    assert "recorded 0 to 0: ['Error: not_docked: no']" in found(1)


def test_messages_that_were_lost_or_doubled(mysis: Mysis) -> None:
    said = {"mysis": mysis, "role": Role.USER, "origin": Origin.HUMAN}
    for _ in range(2):
        Memory.objects.create(**said, content="twice")
    text = found(promised=("lost", "twice"))
    assert "promised and lost: ['lost']" in text
    assert "came twice: ['twice']" in text


@pytest.mark.parametrize(
    ("table", "change", "complaint"),
    [
        ("turn", {"outcome": None}, "turns without an outcome"),
        ("turn", {"number": 2}, "turns that are missing in a count"),
        ("turn", {"iterations": 1}, "calls of a model that are missing"),
        ("event", {"kind": "turn.started"}, "not told of once"),
        ("event", {"data": {"turn": 0}}, "events of no turn"),
        ("call", {"tool_calls": []}, "results without their call"),
        ("result", {"tool_call_id": "c2"}, "calls without exactly one result"),
        ("result", {"pending": True}, "calls that are still open"),
        ("result", {"turn": None}, "rows of no turn"),
    ],
)
def test_rows_that_do_not_belong(
    mysis: Mysis, table: str, change: dict[str, Any], complaint: str
) -> None:
    tables: dict[str, Any] = {
        "turn": Turn.objects.all(),
        "event": Event.objects.filter(kind=Kind.TURN_FINISHED),
        "call": Memory.objects.filter(role=Role.ASSISTANT),
        "result": Memory.objects.filter(role=Role.TOOL),
    }
    tables[table].update(**change)
    assert complaint in found()
