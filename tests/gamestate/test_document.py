"""A state out of JSON (CONTEXT.md section 2)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from memory.gamestate.document import read_state
from memory.gamestate.render import render_block
from memory.gamestate.types import AccountState, Stale
from tests.gamestate.builders import NOW
from tests.gamestate.test_extract import values

DOCUMENT: dict[str, Any] = {
    "username": "VoidWanderer",
    "current_tick": 107,
    "now": "2026-02-05T00:01:10Z",
    "seconds_per_tick": 10,
    "snapshots": [
        {
            "tool": "get_status",
            "args": {},
            "content": {"player": {"credits": 5000}},
            "tick": 105,
            "captured_at": "2026-02-05T00:00:50Z",
            "stale": {"reason": "buy", "tick": 106, "fields": ["player.credits"]},
        },
        {
            "tool": "get_ship",
            "content": '{"hull": 85}',
            "captured_at": "2026-02-05T00:00:50",
        },
    ],
}


def test_a_document_becomes_a_state():
    state = read_state(DOCUMENT)
    assert (state.username, state.moment.current_tick, state.moment.now) == (
        "VoidWanderer",
        107,
        NOW,
    )
    status, ship = state.snapshots
    assert status.stale == Stale("buy", 106, ("player.credits",))
    assert (ship.content, ship.tick, ship.stale) == ({"hull": 85}, None, None)
    text = render_block(state).text
    assert "- Credits: 5,000 (before buy at tick 106; call get_status)" in text
    assert "- Hull: 85\n" in text


def test_nobody_logged_in():
    assert read_state({"username": None, "now": "2026-02-05"}).username is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"now": "soon"}, "state.now: give a moment such as 2026-02-05T00:01:10Z."),
        ({"now": None}, "state.now: give a moment such as 2026-02-05T00:01:10Z."),
        ({"username": 5}, "state.username: give the account's name, or null."),
        ({"snapshots": {}}, None),
        ({"snapshots": 5}, "state.snapshots: give a list of snapshots."),
        ({"snapshots": [5]}, "state.snapshots[0]: give an object."),
        ({"snapshots": [{}]}, "state.snapshots[0].tool: give the name of the tool."),
        ({"current_tick": -1}, "state.current_tick: give a tick number of 0 or more, or null."),
        ({"seconds_per_tick": 0}, "state.seconds_per_tick: give the seconds of a tick, above 0 and below 86400."),
        ({"seconds_per_tick": 10**400}, "state.seconds_per_tick: give the seconds of a tick, above 0 and below 86400."),
        ({"tick": 5}, "state: unknown key 'tick'; known are ages, current_tick, now, seconds_per_tick, snapshots, username."),
    ],
)  # fmt: skip
def test_bad_documents_are_refused_by_field(change, message):
    if message is None:
        assert read_state({**DOCUMENT, **change}).snapshots == ()
        return
    with pytest.raises(ValueError) as refused:
        read_state({**DOCUMENT, **change})
    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"args": 5}, "args: give an object, {} for no arguments."),
        ({"stale": {"reason": ""}}, "stale.reason: give the tool that made it untrue."),
        ({"stale": {"reason": "buy", "fields": "x"}}, "stale.fields: give a list of JSON paths, or null."),
        ({"stale": {"why": 1}}, "stale: unknown key 'why'; known are fields, reason, tick."),
        ({"captured_at": 5}, "captured_at: give a moment such as 2026-02-05T00:01:10Z."),
    ],
)  # fmt: skip
def test_bad_snapshots_are_refused_by_field(change, message):
    bad = {**DOCUMENT["snapshots"][0], **change}
    with pytest.raises(ValueError, match=r"state\.snapshots\[0\]") as refused:
        read_state({**DOCUMENT, "snapshots": [bad]})
    assert str(refused.value).endswith(message)


@given(values)
def test_any_document_is_read_or_refused_in_one_line(document):
    for candidate in (
        document,
        {**DOCUMENT, "snapshots": document},
        {**DOCUMENT, "ages": document},
        {**DOCUMENT, "snapshots": [{**DOCUMENT["snapshots"][0], "content": document}]},
        {**DOCUMENT, "snapshots": [{**DOCUMENT["snapshots"][0], "stale": document}]},
    ):
        try:
            assert isinstance(read_state(candidate), AccountState)
        except ValueError as refused:
            assert "\n" not in str(refused)


def test_a_document_may_carry_its_own_ages():
    """In the words of the setting; whoever runs it has no say in them."""
    old = {"tool": "get_ship", "content": {"hull": 85}, "tick": 97}
    document = {**DOCUMENT, "snapshots": [{**old, "captured_at": DOCUMENT["now"]}]}
    assert "get_ship is 10 ticks old" not in render_block(read_state(document)).text
    strict = read_state({**document, "ages": "get_ship=1:2, *=5:20"})
    assert "get_ship is 10 ticks old - call get_ship." in render_block(strict).text
    with pytest.raises(ValueError, match=r"^state\.ages: 'x' is no age limit"):
        read_state({**document, "ages": "x"})
    with pytest.raises(ValueError, match=r"^state\.ages: give a text such as"):
        read_state({**document, "ages": {"get_ship": 5}})
