"""Snapshots taken while a queued action has still to take effect (era A)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from memory.gamestate.confidence import Confidence
from memory.gamestate.effects import LOST_EVENTS
from memory.gamestate.extract import read_result
from memory.gamestate.render import render_block
from memory.models import AccountClock, ActionUnderWay, GameSnapshot
from memory.snapshots import notifications, reads, under_way, writes
from tests.memory.capturing import LOST, act, at_tick, capture, row

pytestmark = pytest.mark.django_db

STATUS: dict[str, Any] = {
    "player": {"username": "Ada", "credits": 5, "current_poi": "sol_belt"},
    "ship": {"fuel": 9, "cargo_used": 5},
}
BELT = {"poi": {"id": "sol_belt"}}
ORE = {"resource_id": "ore_iron", "quantity": 5, "remaining": 90}


def test_a_first_snapshot_is_doubted_like_the_older_ones():
    at_tick(100)
    capture("get_status", {"player": {"credits": 5}})
    answer = {"queued": True, "ticks": 5, "arrival_tick": 105}
    act("travel", answer)
    here = capture("get_poi", {"poi": {"id": "sol_belt"}})
    hold = capture("get_cargo", {"cargo": []})
    assert (here.stale_reason, here.stale_tick) == ("travel", 105)
    assert hold.stale_reason == ""


def test_an_action_under_way_keeps_no_older_doubt_alive():
    """Who acts every tick must not doubt for ever where it flew long ago."""
    at_tick(100)
    answer = {
        "player": {"credits": 5, "current_poi": "sol_belt"},
        "ship": {"fuel": 9, "cargo_used": 5},
    }
    capture("get_status", answer)
    flown = read_result({"queued": True, "ticks": 1, "arrival_tick": 101})
    act("travel", flown)
    at_tick(102)
    mined = read_result({"queued": True})
    act("mine", mined)
    status = capture("get_status", answer)
    assert status.stale_reason == "mine"
    assert "ship.cargo_used" in status.stale_fields
    assert not {"player.current_poi", "ship.fuel"} & set(status.stale_fields)


def lately(seconds):
    """The newest tick was seen so many seconds ago."""
    seen = timezone.now() - timedelta(seconds=seconds)
    AccountClock.objects.update(seen_at=seen)


def test_an_estimate_lifts_no_doubt_where_the_server_may_have_paused():
    at_tick(100)
    capture("get_status", STATUS, ago=0)
    act("sell", {"queued": True})
    lately(25)
    assert reads.read_tick("Ada") == 102
    assert not known(ago=0)
    block = render_block(reads.read_account_state("Ada")).text
    assert "before sell at tick 102; call get_notifications, then get_status)" in block
    # It had paused indeed.
    at_tick(101)
    assert not known(ago=0)
    at_tick(102)
    assert known(ago=0)


def test_a_first_answer_waits_for_a_tick_as_well():
    at_tick(100)
    act("sell", {"queued": True})
    late = timezone.now() - timedelta(seconds=40)
    until = timezone.now() - timedelta(seconds=10)
    ActionUnderWay.objects.update(asked_at=late, done_at=late, until=until)
    lately(25)
    assert not known(ago=0)
    at_tick(102)
    assert known(ago=0)


def test_an_estimate_counts_where_a_tick_was_seen_lately():
    at_tick(100)
    act("sell", {"queued": True})
    lately(12)
    assert not known(ago=0)
    ActionUnderWay.objects.update(tick=101)
    GameSnapshot.objects.update(marks=[])
    assert known(ago=0)


def test_nothing_stays_in_doubt_for_ever():
    """A server that tells no tick any more: ten minutes later the clock does."""
    at_tick(100)
    capture("get_status", STATUS, ago=0)
    act("sell", {"queued": True})
    lately(610)
    assert not known(ago=0)
    lately(620)
    assert known(ago=0)


# -- what overtakes a first answer ------------------------------------------------


@pytest.mark.parametrize("answer", [{"action": "sell"}, {"queued": True}])
def test_a_first_answer_that_an_action_overtook_is_doubted(answer):
    """No row was there that could have been marked."""
    at_tick(100)
    act("sell", answer)
    capture("get_status", STATUS, ago=5)
    assert row("get_status").fields["player.credits"] is Confidence.INVALIDATED
    assert row("get_status").fields["player.current_poi"] is Confidence.FRESH
    at_tick(104)
    capture("get_status", STATUS, ago=0)
    assert row("get_status").confidence is Confidence.FRESH


def test_a_first_answer_that_lost_events_overtook_is_doubted():
    at_tick(100)
    writes.mark_lost_events("Ada", LOST_EVENTS)
    capture("get_cargo", {"cargo": []}, ago=5)
    assert row("get_cargo").reason == "lost events"
    capture("get_map", {"systems": []}, ago=5)
    assert row("get_map").confidence is Confidence.FRESH


def test_an_answer_that_its_events_overtook_is_not_believed():
    """The yield was told while the hold was on its way: it may hold it, or not."""
    at_tick(100)
    tell = {"current_tick": 101, "timestamp": timezone.now().timestamp(),
            "notifications": [{"id": "a", "msg_type": "mining_yield", "data": ORE,
                               "timestamp": timezone.now().isoformat()}]}  # fmt: skip
    notifications.merge_notifications(
        username="Ada", result=read_result(tell), asked_at=timezone.now()
    )
    hold = {"cargo": [{"item_id": "ore_iron", "quantity": 2}], "used": 2}
    capture("get_cargo", hold, ago=20)
    assert row("get_cargo").fields["used"] is Confidence.INVALIDATED
    capture("get_cargo", hold, ago=0)
    assert row("get_cargo").fields["used"] is Confidence.FRESH


def test_an_action_that_two_answers_saw_is_one_mark():
    """Else the one event that tells its outcome would answer half of it."""
    at_tick(100)
    capture("get_cargo", {"cargo": [], "used": 0})
    act("mine", {"queued": True})
    again = capture("get_cargo", {"cargo": [], "used": 0})
    assert len(again.marks) == 1
    late = capture("get_cargo", {"cargo": [], "used": 0}, ago=5)
    assert len(late.marks) == 1


def test_what_is_over_is_forgotten():
    at_tick(100)
    for answer in ({"action": "sell"}, {"queued": True}, LOST):
        act("sell", answer)
    assert ActionUnderWay.objects.count() == 3
    assert not under_way.find_finished(["Ada"], timezone.now())
    later = timezone.now() + timedelta(minutes=11)
    assert under_way.find_finished(["Ada"], later).delete()[0] == 3
    act("travel", LOST)
    assert not under_way.find_finished(["Ada"], later)


# -- flights of unknown outcome ---------------------------------------------------


def fly():
    """A flight to Mars whose answer was lost, and some ticks later a status."""
    at_tick(100)
    capture("get_status", STATUS)
    act("travel", LOST, {"target_poi": "mars"})
    at_tick(110)
    capture("get_status", STATUS)
    assert row("get_status").confidence is Confidence.INVALIDATED


def known(tool="get_status", content=STATUS, ago=None):
    capture(tool, content, ago=ago)
    return row(tool).confidence is Confidence.FRESH


def test_a_status_at_the_goal_settles_a_flight():
    fly()
    there = {**STATUS, "player": {**STATUS["player"], "current_poi": "mars"}}
    assert known(content=there)
    assert known(content=STATUS)


def test_a_status_at_a_dock_settles_a_flight():
    fly()
    docked = {**STATUS, "player": {**STATUS["player"], "docked_at_base": "sol_base"}}
    assert known(content=docked)


@pytest.mark.parametrize(
    ("tool", "content"),
    [("get_poi", BELT), ("get_nearby", {"nearby": [], "poi_id": "sol_belt"}),
     ("get_base", {"base": {"id": "b"}}), ("get_location", {"in_transit": False})],
)  # fmt: skip
def test_whatever_shows_a_place_settles_a_flight(tool, content):
    fly()
    capture(tool, content)
    assert known()


@pytest.mark.parametrize(
    ("tool", "content"),
    [("get_poi", {"in_transit": True}), ("get_nearby", {"nearby": [], "poi_id": ""}),
     ("get_base", {"base": None}), ("get_status", STATUS), ("get_cargo", {"cargo": []})],
)  # fmt: skip
def test_what_shows_none_does_not(tool, content):
    fly()
    capture(tool, content)
    assert not known()


@pytest.mark.parametrize(
    ("answer", "settled"),
    [({"queued": True, "resource_id": "x"}, True), ("Error: in_transit: Wait", False)],
)
def test_who_can_act_is_not_in_flight(answer, settled):
    fly()
    act("mine", answer)
    at_tick(120)
    assert known() is settled


def test_an_action_that_may_stand_before_the_flight_settles_nothing():
    at_tick(100)
    act("travel", LOST)
    act("mine", {"queued": True})
    at_tick(110)
    assert not known()


def test_a_flight_that_says_how_long_it_lasts_is_over_then():
    fly()
    capture("get_system", {"in_transit": True, "ticks_remaining": 7})
    at_tick(116)
    assert not known()
    at_tick(119)
    assert known()


def test_the_block_says_which_tool_settles_it():
    fly()
    block = render_block(reads.read_account_state("Ada")).text
    assert "before travel at tick 102; call get_system, then get_status)" in block
    assert "- call get_system, then get_status." in block
    capture("get_system", {"system": {"id": "sol", "name": "Sol"}})
    block = render_block(reads.read_account_state("Ada")).text
    assert "call get_system" not in block
    assert "before travel at tick 102; call get_status)" in block
