"""Events kept once and merged into the stored snapshots."""

from __future__ import annotations

import json
from datetime import timedelta
from functools import partial

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from hypothesis import example, given
from hypothesis import strategies as st

from memory.gamestate import merge as rules
from memory.gamestate.clock import Offset
from memory.gamestate.confidence import Confidence
from memory.gamestate.extract import read_result
from memory.gamestate.merge import compare_event
from memory.gamestate.render import render_block
from memory.gamestate.rows import build_rows
from memory.models import (
    AccountClock,
    ActionUnderWay,
    GameEvent,
    GameSnapshot,
    Lexicon,
)
from memory.snapshots import notifications, reads, writes
from tests.gamestate.merging import CONTENTS, DATA, ME
from tests.memory import capturing
from tests.memory.capturing import act, at_tick, read_state_rows, row
from tests.statements import record_statements

pytestmark = pytest.mark.django_db

CARGO = {
    "cargo": [{"item_id": "ore", "name": "Ore", "quantity": 3, "size": 1}],
    "used": 3, "capacity": 50, "available": 47,
}  # fmt: skip
YIELD = {"resource_id": "ore", "quantity": 5, "remaining": 90}


capture = partial(capturing.capture, ago=0)


def item(number, kind, data, at=None):
    moment = at or timezone.now()
    return {"id": f"e{number}", "type": "system", "msg_type": kind,
            "timestamp": moment.isoformat(), "data": data}  # fmt: skip


def tell(*items, tick=100, username="Ada"):
    now = int(timezone.now().timestamp())
    whole = {"count": len(items), "notifications": list(items), "remaining": 0,
             "current_tick": tick, "timestamp": now}  # fmt: skip
    return notifications.merge_notifications(
        username=username, result=read_result(whole)
    )


def shown(tool):
    [found] = [s for s in reads.read_account_state("Ada").snapshots if s.tool == tool]
    return found.current


@pytest.fixture(autouse=True)
def clock():
    at_tick(100)


def test_a_yield_is_merged_once_however_often_it_is_told():
    capture("get_cargo", CARGO)
    mined = item(1, "mining_yield", YIELD)
    [changed] = tell(mined)
    assert (changed.tool, changed.doubt) == ("get_cargo", None)
    assert tell(mined) == []
    tell(mined, item(2, "mining_yield", YIELD))
    assert shown("get_cargo")["used"] == 13
    assert GameEvent.objects.count() == 2
    stored = GameSnapshot.objects.get()
    assert json.loads(stored.content) == CARGO
    assert json.loads(stored.merged)["used"] == 13


def test_mining_and_being_told_leaves_no_doubt():
    capture("get_cargo", CARGO)
    asked = timezone.now()
    act("mine", {"queued": True, "resource_id": "ore"}, asked_at=asked)
    assert row("get_cargo").confidence is Confidence.INVALIDATED
    [changed] = tell(item(1, "mining_yield", YIELD), tick=101)
    assert set(changed.merged) == {"cargo", "used", "available"}
    assert (max(changed.merged.values()), changed.doubt) == (101, None)
    assert row("get_cargo").confidence is Confidence.MERGED
    assert row("get_cargo").reason is None
    block = render_block(reads.read_account_state("Ada")).text
    assert "- Cargo: 8/50 (from an event at tick 101)\n" in block


def test_a_later_action_doubts_what_was_merged():
    capture("get_cargo", CARGO)
    asked = timezone.now()
    mine = read_result({"queued": True})
    for number in (1, 2):
        act("mine", mine, asked_at=asked)
        if number == 1:
            tell(item(1, "mining_yield", YIELD), tick=101)
    assert row("get_cargo").fields["used"] is Confidence.INVALIDATED
    tell(item(2, "mining_yield", YIELD), tick=102)
    assert row("get_cargo").fields["used"] is Confidence.MERGED
    assert shown("get_cargo")["used"] == 13


def test_events_from_before_a_capture_are_in_it():
    early = timezone.now() - timedelta(seconds=5)
    tell(item(1, "mining_yield", YIELD, early))
    capture("get_cargo", {**CARGO, "used": 8})
    tell(item(2, "mining_yield", YIELD, early + timedelta(seconds=1)))
    assert shown("get_cargo")["used"] == 8
    assert row("get_cargo").confidence is Confidence.FRESH


def test_a_new_capture_begins_anew():
    capture("get_cargo", CARGO)
    tell(item(1, "mining_yield", YIELD))
    capture("get_cargo", {**CARGO, "used": 8})
    assert row("get_cargo").fields["used"] is Confidence.FRESH
    tell(item(2, "mining_yield", YIELD))
    assert shown("get_cargo")["used"] == 13


def test_a_death_makes_everything_stale_and_is_kept():
    for tool in ("get_cargo", "get_map", "get_skills"):
        capture(tool, {"a": 1})
    tell(item(1, "player_died", {"killer_name": "Rex", "clone_cost": 50}))
    assert {r.reason for r in read_state_rows("Ada")} == {"player_died"}
    kept = GameEvent.objects.get(username="Ada").to_notice()
    assert (kept.kind, kept.data["killer_name"]) == ("player_died", "Rex")


def test_hidden_and_flagged_rows_are_left_alone():
    capture("get_cargo", CARGO)
    writes.log_out_account("Ada")
    assert tell(item(1, "mining_yield", YIELD)) == []
    writes.revive_snapshots("Ada")
    assert tell(item(2, "mining_yield", YIELD)) == []
    assert shown("get_cargo") == CARGO
    assert GameEvent.objects.count() == 2


@pytest.mark.parametrize(
    "answer",
    ["No notifications.", "", {"throttled": True}, {"notifications": None}, [1, [2]],
     {"notifications": [None, 5, "x", {}, {"msg_type": 3}, {"type": "ok"}]},
     {"notifications": [{"msg_type": "ok", "data": {"\x00": "\ud800" * 9}}]},
     {"notifications": [{"msg_type": "a" * 9000, "id": "b" * 9000, "timestamp": "0001-01-01T00:00:00Z"}]},
     {"notifications": [{"msg_type": "ok", "data": {"x": "y" * 200_000}}]}],
)  # fmt: skip
def test_odd_answers_do_no_harm(answer):
    capture("get_cargo", CARGO)
    notifications.merge_notifications(username="Ada", result=read_result(answer))
    assert shown("get_cargo") == CARGO


def test_the_oldest_events_give_way(monkeypatch):
    monkeypatch.setattr(notifications, "KEPT_EVENTS", 5)
    for number in range(8):
        tell(item(number, "gameplay_tip", {"n": number}))
    assert [e.data["n"] for e in GameEvent.objects.order_by("-pk")] == [7, 6, 5, 4, 3]


FIRST = [("read", tool) for tool in ("get_status", "get_cargo", "get_nearby")]
COUNTED = ("mining_yield", {**YIELD, "quantity": 0, "remaining": 0})
HAPPENINGS = st.one_of(
    st.tuples(st.just("read"), st.sampled_from(sorted(CONTENTS))),
    st.tuples(st.just("act"), st.sampled_from(["mine", "travel", "sell_ore"])),
    *(st.tuples(st.just(kind), data) for kind, data in DATA.items()),
)


def replay(username):
    """Every snapshot, and what it is made anew out of all events since."""
    rows = GameSnapshot.objects.filter(username=username).order_by("pk")
    known = {row: row.to_snapshot() for row in rows}
    sizes = Lexicon.objects.get(username=username).sizes
    mergeable = [each for each in known.values() if each.tool in rules.MERGEABLE]
    me = rules.learn_account(username, mergeable, sizes)
    for stored, snapshot in known.items():
        since = GameEvent.objects.filter(
            username=username, received_at__gt=stored.asked_at or stored.captured_at
        )
        told = rules.arrange_events(each.to_notice() for each in since.order_by("pk"))
        tick = reads.read_tick(username)
        yield snapshot, rules.write_events(snapshot, told, me, tick)


def describe(snapshot):
    """What a row keeps of a snapshot that events may change.

    Of actions under way the newest: a row that stays names those that ended since.
    """
    kept = snapshot.current, snapshot.field_ticks, snapshot.counted
    if (stale := snapshot.stale) is None:
        return kept
    newest = stale.reason.rpartition(", ")[2]
    return *kept, newest, stale.tick, frozenset(stale.fields)


@given(st.lists(HAPPENINGS, min_size=4, max_size=20))
@example([COUNTED, ("act", "mine"), ("pirate_spawn", {})])
@example([("act", "mine"), ("act", "travel"), ("pirate_spawn", {"pirate_id": "x"})])
def test_what_is_written_is_what_a_replay_of_everything_gives(happenings):
    """Rows that an event does not concern stay, and what concerns none is not read."""
    writes.begin_account(ME)
    for number, (kind, what) in enumerate([*FIRST, *happenings]):
        if kind == "read":
            capturing.capture(what, CONTENTS[what], username=ME)
        elif kind == "act":
            capturing.act(what, {"queued": True}, username=ME)
        else:
            tick = 101 + number
            tell(item(number, kind, {"tick": tick} | what), tick=tick, username=ME)
            for written, anew in replay(ME):
                assert describe(written) == describe(anew)


# -- how much work it is --------------------------------------------------------


@pytest.fixture
def looks(monkeypatch):
    """How often an event was laid beside a snapshot."""
    counted = []
    real = compare_event

    def count(*args, **kwargs):
        counted.append(args)
        return real(*args, **kwargs)

    monkeypatch.setattr(rules, "compare_event", count)
    return counted


def test_an_event_that_changes_nothing_reads_no_content(looks):
    for tool in ("get_cargo", "get_ship", "view_market"):
        capture(tool, CARGO)
    tell(*[item(n, "mining_yield", YIELD) for n in range(9)])
    looks.clear()
    with record_statements() as queries:
        assert tell(item(10, "chat_message", {"text": "Hi"})) == []
    assert looks == []
    assert not [sql for sql in queries if '"content"' in sql]


def test_only_what_an_event_concerns_is_made_anew(looks):
    for number in range(5):
        capture(f"get_unheard_{number}", {"a": 1})
    capture("get_trades", {"incoming": []})
    [changed] = tell(item(1, "trade_declined", {}))
    assert (changed.tool, changed.doubt.mark.fields) == ("get_trades", ())
    assert len(looks) == 1


@pytest.mark.parametrize("count", [2, 40])
def test_an_event_that_concerns_many_rows_is_few_statements(count):
    for number in range(count):
        capture(f"get_unheard_{number}", {"a": number})
    with CaptureQueriesContext(connection) as queries:
        assert len(tell(item(1, "player_died", {}))) == count
    assert len(queries) < 30


@pytest.mark.parametrize("count", [2, 40])
def test_a_reset_of_many_marked_rows_is_few_statements(count):
    for number in range(count):
        capture(f"get_unheard_{number}", {"a": number})
    act("something_new", {"queued": True})
    at_tick(5000)
    with CaptureQueriesContext(connection) as queries:
        at_tick(3)
    assert len(queries) < 20
    ticks = {mark["tick"] for row in GameSnapshot.objects.all() for mark in row.marks}
    assert ticks == {None}


def test_events_that_have_given_way_leave_all_in_doubt(monkeypatch, looks):
    monkeypatch.setattr(notifications, "KEPT_EVENTS", 5)
    capture("get_cargo", CARGO)
    capture("get_trades", {"incoming": []})
    for number in range(7):
        tell(item(number, "mining_yield", YIELD))
    assert row("get_cargo").confidence is Confidence.INVALIDATED
    assert shown("get_cargo") == CARGO
    assert len(looks) == 1 + 2 + 3 + 4
    assert tell(item(8, "mining_yield", YIELD)) == []
    # Nothing that came could have touched these.
    assert row("get_trades").confidence is Confidence.FRESH
    capture("get_cargo", CARGO)
    tell(item(9, "mining_yield", YIELD))
    assert row("get_cargo").confidence is Confidence.MERGED


# -- ticks that do not fit ------------------------------------------------------

STATUS = {
    "player": {"username": "Ada"},
    "ship": {"hull": 100, "max_hull": 100, "fuel": 9},
}


def fight(number, hull, tick, ago=0.0):
    at = timezone.now() - timedelta(seconds=ago)
    return item(number, "pirate_combat",
                {"player_hull": hull, "player_shield": 0, "tick": tick}, at)  # fmt: skip


def test_what_came_before_a_reset_never_stands_over_what_came_after():
    at_tick(50_000)
    capture("get_ship", STATUS)
    GameSnapshot.objects.update(
        captured_at=timezone.now() - timedelta(seconds=60),
        asked_at=timezone.now() - timedelta(seconds=60),
    )
    tell(fight(1, 90, 50_001, ago=20), tick=50_001)
    assert shown("get_ship")["ship"]["hull"] == 90
    at_tick(100)
    tell(fight(2, 40, 101), tick=101)
    assert shown("get_ship")["ship"]["hull"] == 40
    assert row("get_ship").fields["ship.hull"] is Confidence.MERGED
    # The next one says nothing of it, and the mark of a repair stays.
    act("repair", {"action": "repair"})
    tell(item(3, "skill_level_up", {"skill_id": "x", "level": 2}), tick=101)
    assert row("get_ship").fields["ship.hull"] is Confidence.INVALIDATED


def test_after_a_reset_what_was_merged_ages_by_the_clock_and_marks_stay():
    at_tick(50_000)
    capture("get_ship", STATUS)
    early = timezone.now() - timedelta(seconds=3000)
    GameSnapshot.objects.update(captured_at=early, asked_at=early)
    act("refuel", {"queued": True})
    tell(fight(1, 90, 50_001, ago=2000), tick=50_001)
    at_tick(3)
    fields = row("get_ship").fields
    assert fields["ship.hull"] is Confidence.STALE
    assert fields["ship.fuel"] is Confidence.INVALIDATED
    assert set(GameEvent.objects.values_list("tick", "exact")) == {(None, False)}
    assert ActionUnderWay.objects.get().tick is None
    assert GameSnapshot.objects.get().marks[0]["tick"] is None


@pytest.mark.parametrize("current", [101, None])
def test_a_tick_that_has_not_come_is_no_tick(current):
    capture("get_ship", STATUS)
    tell(fight(1, 40, 2_147_483_000), tick=current)
    tell(fight(2, 70, 101), tick=current)
    assert shown("get_ship")["ship"]["hull"] == 70
    assert reads.read_tick("Ada") in (101, 102)
    first, second = GameEvent.objects.order_by("pk")
    assert (first.exact, second.exact) == (False, True)
    assert first.tick in (100, 101)
    late = timezone.now() + timedelta(hours=1)
    found = reads.read_account_state("Ada", now=late)
    [ship] = build_rows(found)
    assert ship.fields["ship.hull"] is Confidence.STALE


# -- a clock that is not ours ----------------------------------------------------


@pytest.mark.parametrize("ahead", [1.8, -2.2, 40.0, 0.3])
def test_a_yield_is_counted_by_another_clock_where_that_is_sure(ahead, settings):
    """Three are held, one mined half a second before that was told, one after."""
    settings.SPACEMOLT_MCP_URL = "https://game.example/mcp"
    apart = timedelta(seconds=ahead)
    early = capture("get_cargo", CARGO).captured_at - timedelta(seconds=10)
    GameSnapshot.objects.update(captured_at=early, asked_at=early)
    for number, (after, held) in enumerate([(-0.5, 3), (0.5, 8)]):
        at = early + timedelta(seconds=after) + apart
        tell_by(apart, item(number, "mining_yield", YIELD, at))
        if row("get_cargo").fields["used"] is not Confidence.INVALIDATED:
            assert shown("get_cargo")["used"] == held
    assert bound().holds(-ahead)
    tell_by(apart, item(9, "mining_yield", YIELD, early + timedelta(seconds=3) + apart))
    assert "cargo" in GameSnapshot.objects.get().merged


def bound():
    found = AccountClock.objects.get()
    assert found.offset_low is not None and found.offset_high is not None
    return Offset(found.offset_low, found.offset_high)


def tell_by(apart, *items):
    """An answer of a game whose clock is so far from ours."""
    asked = timezone.now()
    whole = {"notifications": list(items), "current_tick": 100,
             "timestamp": (timezone.now() + apart).timestamp() // 1}  # fmt: skip
    notifications.merge_notifications(
        username="Ada", result=read_result(whole), asked_at=asked
    )


def test_a_game_on_this_machine_has_one_clock_until_it_says_otherwise(settings):
    settings.SPACEMOLT_MCP_URL = "http://localhost:8765/mcp"
    capture("get_cargo", CARGO)
    tell_by(timedelta(), item(1, "mining_yield", YIELD))
    assert row("get_cargo").fields["used"] is Confidence.MERGED
    tell_by(timedelta(seconds=30))
    assert bound().holds(-30) and not bound().holds(-20)
    tell_by(timedelta(seconds=30))
    assert not bound().holds(-20)
