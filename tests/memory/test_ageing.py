"""Ages that are told once, however often and by whomever they are looked for."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from django.utils import timezone

from memory import state
from memory.ageing import crossings
from memory.gamestate.extract import read_result

pytestmark = pytest.mark.django_db


def capture(tool):
    state.capture(
        username="Ada",
        tool=tool,
        args={},
        text="{}",
        result=read_result(json.dumps({})),
    )


def told(ticks):
    now = timezone.now() + timedelta(seconds=ticks * 10 + 1)
    return [(c.tool, c.confidence, c.reason, c.tick) for c in crossings(["Ada"], now)]


@pytest.fixture(autouse=True)
def clock():
    state.note_tick(username="Ada", result=read_result({"current_tick": 100}))


def test_each_limit_is_told_once():
    capture("get_nearby")
    capture("get_map")
    assert told(1) == []
    assert told(2) == [("get_nearby", "ageing", "2 ticks old", 102)]
    assert told(3) == []
    assert told(6) == [("get_nearby", "stale", "6 ticks old", 106)]
    assert told(7) == []
    capture("get_nearby")
    assert told(50) == [
        ("get_nearby", "stale", "50 ticks old", 150),
        ("get_map", "stale", "50 ticks old", 150),
    ]


def test_what_an_action_made_untrue_is_told_already():
    capture("get_nearby")
    answer = read_result({"action": "arrived"})
    state.invalidate(
        username="Ada", tool="travel", args={}, result=answer, mutation=True
    )
    assert told(9) == []


def test_what_was_captured_before_a_logout_is_told_after_the_login():
    capture("get_nearby")
    state.logout("Ada")
    assert told(9) == []
    state.revive("Ada")
    assert told(0) == [("get_nearby", "stale", "captured before logout", 100)]
    assert told(9) == []


def test_a_clock_that_goes_back_tells_nothing_twice():
    capture("get_nearby")
    assert len(told(9)) == 1
    assert told(-500) == told(2) == []
    assert crossings([]) == []
