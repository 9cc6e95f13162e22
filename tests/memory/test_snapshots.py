"""The stores of game state: the life-cycle table of GAME_STATE.md row by row."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.db import connections
from django.utils import timezone

from memory.gamestate.confidence import Confidence
from memory.gamestate.extract import read_result
from memory.gamestate.render import render_block
from memory.gamestate.types import Thresholds
from memory.models import AccountClock, ActionUnderWay, GameEvent, GameSnapshot, Lexicon
from memory.snapshots import notifications
from memory.snapshots import reads as snapshots_reads
from memory.snapshots import writes as snapshots_writes
from tests.memory.capturing import (
    REFUSED,
    STATUS,
    act,
    at_tick,
    capture,
    levels,
    read_state_rows,
)
from tests.statements import record_statements

pytestmark = pytest.mark.django_db


# -- capture -------------------------------------------------------------------


def test_a_capture_is_one_upsert_and_resets_the_marks():
    at_tick(100)
    capture("get_status")
    act("buy", {"action": "buy"})
    assert levels() == {"get_status": Confidence.INVALIDATED}
    with record_statements() as texts:
        at_tick(101)
        capture("get_status")
    writes = [sql for sql in texts if 'memory_gamesnapshot" (' in sql]
    assert len(writes) == 1
    assert "ON CONFLICT" in writes[0]
    found = GameSnapshot.objects.get()
    assert (found.stale_reason, found.marks, found.field_ticks) == ("", [], {})
    assert levels() == {"get_status": Confidence.FRESH}


@pytest.mark.parametrize(
    "text",
    [
        REFUSED,
        '{"error": {"code": "x", "message": "m"}}',
        '{"throttled": true, "retry_after": 3}',
        '{"player": {"username": "Ben", "credits": 1}}',
    ],
)
def test_errors_and_other_accounts_are_kept_out(text):
    assert snapshots_writes.capture_snapshot(
        username="Ada", tool="get_status", args={}, text=text, result=read_result(text)
    ) is None  # fmt: skip
    assert not GameSnapshot.objects.exists()


def test_an_account_is_the_same_in_another_spelling():
    """The operator wrote ada, the game answers Ada."""
    capture("get_status", username="ada")
    assert levels("ada") == {"get_status": Confidence.FRESH}


def test_texts_are_stored_as_they_are():
    text = "Belt: 3 asteroids\nno JSON"
    snapshots_writes.capture_snapshot(
        username="Ada", tool="get_poi", args={}, text=text, result=read_result(text)
    )
    assert snapshots_reads.read_account_state("Ada").snapshots[0].content == text


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (json.dumps({"systems": [{"system_id": f"s{n}", "name": "x" * 90}
                                 for n in range(9_000)]}), "1 MB"),
        ("[" * 50_000 + "]" * 50_000, "deep"),
        ('{"player": {"credits": NaN, "x": 1e999}, "tick": "NaN"}', "no numbers"),
        ('{"tick": "107", "current_tick": -4, "a": "\\u0000\\ud800"}', "odd"),
        ('{"tick": 1e300}', "huge tick"),
        ("", "nothing"),
    ],
    ids=lambda value: value if len(value) < 12 else "text",
)  # fmt: skip
def test_bad_input_is_stored_and_the_block_stays_small(text, what):
    for tool in ("get_status", "get_map", "get_unheard_of"):
        result = read_result([{"type": "text", "text": text}])
        snapshots_writes.capture_snapshot(
            username="Ada", tool=tool, args={"n": 1}, text=text, result=result
        )
    block = render_block(snapshots_reads.read_account_state("Ada")).text
    assert 0 < len(block.encode()) <= 2048
    assert len(read_state_rows("Ada")) == 3


# -- ticks ---------------------------------------------------------------------


def test_a_reset_of_the_server_takes_the_old_ticks_away():
    at_tick(5_000)
    capture("get_status")
    at_tick(3)
    assert snapshots_reads.read_tick("Ada") == 3
    assert GameSnapshot.objects.get().game_tick is None
    assert levels() == {"get_status": Confidence.FRESH}


def test_a_clock_that_goes_backwards_is_no_reason_to_believe():
    at_tick(100)
    capture("get_status")
    early = timezone.now() - timedelta(hours=1)
    found = snapshots_reads.read_account_state("Ada", now=early)
    assert "just now" in render_block(found).text
    assert found.moment.current_tick == 100


FOREIGN = {"log": [{"tick": 999_999, "text": "soon"}]}


@pytest.mark.parametrize("way", ["read", "action", "other"])
def test_a_tick_of_some_entry_never_moves_the_clock_far(way):
    at_tick(100)
    capture("get_status")
    act("buy", {"queued": True})
    if way == "read":
        found = capture("captains_log_list", FOREIGN)
        assert (found.game_tick, found.stale_reason) == (100, "")
        assert capture("get_status", {**STATUS, **FOREIGN}).stale_reason == "buy"
    elif way == "action":
        act("captains_log_add", FOREIGN)
    else:
        snapshots_writes.note_tick(username="Ada", result=read_result(FOREIGN))
    assert snapshots_reads.read_tick("Ada") == 100
    at_tick(999_999)
    assert snapshots_reads.read_tick("Ada") == 999_999


# -- actions -------------------------------------------------------------------


def test_a_refused_action_changes_nothing_while_actions_are_queued():
    at_tick(100)
    capture("get_status")
    assert act("mine", REFUSED) == []
    act("travel", {"queued": True, "arrival_tick": 102})
    at_tick(103)
    capture("get_status")
    assert act("mine", REFUSED) == []


def test_a_refused_action_may_have_moved_the_dock_where_actions_block():
    at_tick(100)
    act("undock", {"action": "undock"})
    capture("get_status")
    [touched] = act("mine", REFUSED)
    assert touched.tool == "get_status"
    assert "player.docked_at_base" in touched.mark.fields
    assert "player.credits" not in touched.mark.fields
    # The era is the server's: another account of it knows as much.
    capture("get_status", {"player": {"username": "Ben"}}, username="Ben")
    assert act("mine", REFUSED, username="Ben") != []


def test_where_nothing_is_known_of_the_era_the_dock_tells():
    """A game that only refuses would have named the dock as the reason."""
    capture("get_status", {"player": {"username": "Ada", "docked_at_base": "b"}})
    assert act("sell", REFUSED) == []
    [touched] = act("mine", REFUSED)
    assert "player.docked_at_base" in touched.mark.fields
    capture("get_status")
    assert act("mine", REFUSED) == []
    assert act("sell", REFUSED) != []


def test_an_unknown_action_makes_everything_stale():
    at_tick(100)
    for tool in ("get_status", "get_map", "get_version"):
        capture(tool, {"a": 1})
    capture("get_status", {"a": 1}, username="Ben")
    act("terraform", {"ok": True})
    assert set(levels().values()) == {Confidence.INVALIDATED}
    assert levels("Ben") == {"get_status": Confidence.FRESH}


@pytest.mark.parametrize("tick", [None, 100])
def test_a_first_snapshot_after_a_queued_action_is_doubted(tick):
    """Nothing was kept that could have been marked, and perhaps no tick is known."""
    if tick:
        at_tick(tick)
    act("mine", {"queued": True})
    act("captains_log_add", {"index": 0})
    capture("get_cargo", {"cargo": []})
    capture("get_base", {"base": {}})
    assert levels() == {"get_cargo": "invalidated", "get_base": "fresh"}
    ActionUnderWay.objects.update(
        until=timezone.now() - timedelta(seconds=1), tick=tick
    )
    if tick:
        at_tick(tick + 3)
    capture("get_cargo", {"cargo": []})
    assert levels()["get_cargo"] == "fresh"


def test_one_action_is_one_mark_whatever_it_touches_twice():
    at_tick(100)
    capture("get_nearby", {"nearby": []})
    touched = act("mine", {"auto_undocked": True, "resource_id": "ore", "quantity": 1})
    assert [each.tool for each in touched] == ["get_nearby"]
    assert len(GameSnapshot.objects.get().marks) == 1


# -- login, logout, register ---------------------------------------------------


def test_a_logout_hides_the_rows_and_a_login_flags_them():
    capture("get_status")
    capture("get_status", {"credits": 1}, username="Ben")
    snapshots_writes.log_out_account("Ada")
    assert read_state_rows("Ada") == ()
    assert GameSnapshot.objects.filter(username="Ada").count() == 1
    snapshots_writes.revive_snapshots("Ada")
    [row] = read_state_rows("Ada")
    assert (row.confidence, row.reason) == ("stale", "captured before logout")
    assert levels("Ben") == {"get_status": Confidence.FRESH}
    capture("get_status")
    assert levels() == {"get_status": Confidence.FRESH}


def test_a_logout_may_delete(settings):
    settings.ZOEA_ON_LOGOUT = "delete"
    capture("get_status")
    snapshots_writes.log_out_account("Ada")
    assert not GameSnapshot.objects.exists()


def test_a_logout_may_preserve(settings):
    settings.ZOEA_ON_LOGOUT = "preserve"
    capture("get_status")
    snapshots_writes.log_out_account("Ada")
    snapshots_writes.revive_snapshots("Ada")
    assert levels() == {"get_status": Confidence.FRESH}


def test_a_registration_begins_empty():
    at_tick(900)
    capture("get_poi", {"poi": {"id": "belt", "name": "Belt"}})
    capture("get_status", {"credits": 1}, username="Ben")
    snapshots_writes.begin_account("Ada")
    assert read_state_rows("Ada") == ()
    snapshots_writes.revive_snapshots("Ada")
    assert read_state_rows("Ada") == ()
    assert snapshots_reads.read_tick("Ada") is None
    assert not Lexicon.objects.filter(pk="Ada").exists()
    assert levels("Ben") == {"get_status": Confidence.FRESH}


# -- names and limits ----------------------------------------------------------


def test_a_place_keeps_its_name_after_the_answer_that_told_it_is_gone():
    capture("get_poi", {"poi": {"id": "belt", "name": "Main Belt"}})
    capture("get_poi", {"poi": {"id": "moon", "name": "Moon"}})
    capture("get_status")
    assert (
        "- Location: Main Belt\n"
        in render_block(snapshots_reads.read_account_state("Ada")).text
    )
    capture("get_status", {"player": {"current_poi": "belt"}}, username="Ben")
    assert (
        "- Location: belt\n"
        in render_block(snapshots_reads.read_account_state("Ben")).text
    )


def test_an_operator_sets_the_limits(settings):
    settings.ZOEA_STATE_AGES = {"get_status": Thresholds(0, 0)}
    at_tick(100)
    capture("get_status")
    capture("get_ship")
    AccountClock.objects.update(seen_at=timezone.now() - timedelta(seconds=25))
    assert levels() == {"get_status": Confidence.STALE, "get_ship": Confidence.FRESH}


# -- many at once --------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
def test_accounts_do_not_meet_however_many_write_at_once():
    names = [f"Pilot {n}" for n in range(4)]

    def fly(name):
        try:
            for turn in range(6):
                at_tick(100 + turn, name)
                player = {"username": name, "credits": turn}
                capture("get_status", {"player": player}, username=name)
                act("buy" if turn % 2 else "travel", {"queued": True}, username=name)
                traded = {"tick": 101 + turn, "your_credits": 1000 + turn}
                told = {"id": str(turn), "msg_type": "trade_complete", "data": traded}
                answer = {"current_tick": 100 + turn, "notifications": [told]}
                notifications.merge_notifications(
                    username=name, result=read_result(answer)
                )
        finally:
            connections.close_all()

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(fly, names * 2))
    for name in names:
        assert GameSnapshot.objects.filter(username=name).count() == 1
        assert GameEvent.objects.filter(username=name).count() == 6
        [snapshot] = snapshots_reads.read_account_state(name).snapshots
        content: Any = snapshot.content
        assert content["player"]["username"] == name


def test_what_is_untrue_already_is_no_news():
    """A change of confidence is an event, once; new fields are a change too."""
    at_tick(100)
    capture("get_status")
    capture("get_ship")
    queued = json.dumps({"queued": True})
    first = act("mine", queued)
    assert {touched.tool for touched in first} == {"get_status", "get_ship"}
    assert act("mine", queued) == []
    assert {touched.tool for touched in act("travel", queued)} >= {"get_status"}
    assert act("something_new", queued)
    assert act("something_new", queued) == []


def test_an_action_over_many_rows_is_few_statements():
    at_tick(100)
    for number in range(40):
        capture("view_market", args={"item_id": number})
    with record_statements() as texts:
        assert len(act("something_new", json.dumps({"queued": True}))) == 40
    assert len(texts) < 20
    assert not any('"content"' in sql for sql in texts)
