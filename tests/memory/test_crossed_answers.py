"""Answers that cross others on their way, are lost, or come from another time."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db.models import F
from django.utils import timezone

from memory.gamestate.confidence import Confidence
from memory.gamestate.extract import read_result
from memory.models import AccountClock, ActionUnderWay, GameSnapshot
from memory.snapshots import notifications, reads, under_way
from memory.snapshots.rows import open_account
from tests.memory.capturing import (
    LOST,
    act,
    at_tick,
    capture,
    levels,
    read_state_rows,
)

pytestmark = pytest.mark.django_db


# -- what crosses on its way ----------------------------------------------------


def asked(seconds, tool="get_status"):
    """A status that was asked for so many seconds ago and comes only now."""
    return capture(tool, ago=seconds)


@pytest.mark.parametrize("tick", [None, 100])
def test_an_answer_that_an_action_overtook_is_doubted(tick):
    if tick:
        at_tick(tick)
    asked(20)
    act("sell", {"action": "sell"})
    asked(5)
    [row] = read_state_rows("Ada")
    assert row.fields["player.credits"] is Confidence.INVALIDATED
    # Asked for after the action was over.
    asked(0)
    assert levels() == {"get_status": Confidence.FRESH}


def test_an_older_answer_never_takes_the_place_of_a_newer_one():
    newer = asked(5)
    assert asked(20) is None
    assert GameSnapshot.objects.get().captured_at == newer.captured_at
    assert asked(20, "get_ship") is not None


# -- answers that are lost --------------------------------------------------------


def lose(tool):
    return act(tool, LOST)


@pytest.mark.parametrize("era", ["A", "C"])
def test_a_lost_answer_teaches_no_era(era):
    at_tick(100)
    capture("get_status")
    act("mine", {"queued": True} if era == "A" else {"resource_id": "x"})
    lose("mine")
    assert GameSnapshot.objects.get().stale_reason == "mine"
    assert AccountClock.objects.get().era == era
    assert ActionUnderWay.objects.filter(tool="mine").exists()


@pytest.mark.parametrize("tool", ["travel", "jump"])
def test_a_flight_whose_answer_was_lost_lasts_until_the_ship_is_seen(tool):
    at_tick(100)
    lose(tool)
    capture("get_system", {"system": {"id": "sol"}, "pois": []})
    for tick in (103, 140):
        at_tick(tick)
        capture("get_system", {"action": "get_system", "in_transit": True})
        capture("get_status")
        [status] = [r for r in read_state_rows("Ada") if r.tool == "get_status"]
        assert status.confidence is Confidence.INVALIDATED
    capture("get_system", {"system": {"id": "sol"}, "pois": []})
    capture("get_status")
    assert levels()["get_status"] == levels()["get_system"] == Confidence.FRESH
    assert under_way.select_waiting(open_account("Ada", timezone.now())) == []


def test_a_lost_flight_is_over_when_its_end_is_told():
    at_tick(100)
    lose("travel")
    told = {"current_tick": 120, "notifications": [
        {"msg_type": "ok", "data": {"action": "arrived"},
         "timestamp": (timezone.now() + timedelta(seconds=3)).isoformat()}],
        "timestamp": (timezone.now() + timedelta(seconds=3)).timestamp()}  # fmt: skip
    notifications.merge_notifications(username="Ada", result=read_result(told))
    capture("get_status")
    assert levels() == {"get_status": Confidence.FRESH}


# -- our clock goes back ----------------------------------------------------------


def set_back(hours=1):
    """Our clock goes back: what is stored is from the future now."""
    ahead = timedelta(hours=hours)
    for model, columns in (
        (GameSnapshot, ("captured_at", "asked_at")),
        (ActionUnderWay, ("asked_at", "done_at", "until")),
        (AccountClock, ("seen_at",)),
    ):
        model.objects.update(**{name: F(name) + ahead for name in columns})


def test_after_our_clock_went_back_answers_are_stored_and_believed():
    at_tick(100)
    asked(1)
    act("sell", {"action": "sell"})
    set_back()
    assert asked(0) is not None
    assert levels() == {"get_status": Confidence.FRESH}
    at_tick(101)
    assert reads.read_tick("Ada") == 101


def test_after_our_clock_went_back_events_doubt_what_is_from_the_future():
    at_tick(100)
    capture("get_ship", {"ship": {"hull": 90}})
    capture("get_trades", {"incoming": []})
    set_back()
    told = {"current_tick": 101, "notifications": [
        {"msg_type": "pirate_combat", "data": {"player_hull": 5, "tick": 101}}]}  # fmt: skip
    notifications.merge_notifications(username="Ada", result=read_result(told))
    assert levels()["get_ship"] is Confidence.INVALIDATED
    assert levels()["get_trades"] is not Confidence.INVALIDATED
    capture("get_ship", {"ship": {"hull": 5}})
    assert levels()["get_ship"] is Confidence.FRESH
