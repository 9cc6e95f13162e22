"""Snapshots taken while a queued action has still to take effect (era A)."""

from __future__ import annotations

import json

import pytest

from memory import state
from memory.gamestate.extract import read_result

pytestmark = pytest.mark.django_db


def capture(tool, content):
    text = json.dumps(content)
    return state.capture(
        username="Ada", tool=tool, args={}, text=text, result=read_result(text)
    )


def test_a_first_snapshot_is_doubted_like_the_older_ones():
    state.note_tick(username="Ada", result=read_result({"current_tick": 100}))
    capture("get_status", {"player": {"credits": 5}})
    answer = {"queued": True, "ticks": 5, "arrival_tick": 105}
    state.invalidate(username="Ada", tool="travel", args={}, result=read_result(answer))
    here = capture("get_poi", {"poi": {"id": "sol_belt"}})
    hold = capture("get_cargo", {"cargo": []})
    assert (here.stale_reason, here.stale_tick) == ("travel", 105)
    assert hold.stale_reason == ""


def test_an_action_under_way_keeps_no_older_doubt_alive():
    """Who acts every tick must not doubt for ever where it flew long ago."""
    state.note_tick(username="Ada", result=read_result({"current_tick": 100}))
    answer = {
        "player": {"credits": 5, "current_poi": "sol_belt"},
        "ship": {"fuel": 9, "cargo_used": 5},
    }
    capture("get_status", answer)
    flown = read_result({"queued": True, "ticks": 1, "arrival_tick": 101})
    state.invalidate(username="Ada", tool="travel", args={}, result=flown)
    state.note_tick(username="Ada", result=read_result({"current_tick": 102}))
    mined = read_result({"queued": True})
    state.invalidate(username="Ada", tool="mine", args={}, result=mined)
    status = capture("get_status", answer)
    assert status.stale_reason == "mine"
    assert "ship.cargo_used" in status.stale_fields
    assert not {"player.current_poi", "ship.fuel"} & set(status.stale_fields)
