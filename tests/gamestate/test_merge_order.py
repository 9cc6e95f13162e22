"""Which events count, once and in any order."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.gamestate.confidence import Confidence, judge_confidence
from memory.gamestate.merge import EventOrder, compare_event, learn_account
from memory.gamestate.notices import Notice
from memory.gamestate.render import render_block
from memory.gamestate.types import Moment, Snapshot, Stale
from tests.gamestate.builders import NOW, PACE, TICK, snapshot, state
from tests.gamestate.merging import (
    CARGO,
    CONTENTS,
    ME,
    YIELD,
    believed,
    merge_events,
    merged,
    notice,
    notices,
    value,
)


def test_a_count_applies_only_to_what_is_older():
    for tick in (90, 104, 105):
        found = merged("get_cargo", notice("mining_yield", tick, **YIELD))
        assert found.shown is None
        assert found.field_ticks == {}
    late = merged("get_cargo", notice("mining_yield", 107, **YIELD))
    assert late.field_ticks == {
        "cargo": 107,
        "used": 107,
        "available": 107,
    } | dict.fromkeys(late.field_ticks, 107)


def test_an_event_told_while_a_snapshot_was_taken_is_a_doubt():
    """Its tick is one later, yet the answer may hold it: neither is sure."""
    asked = NOW - timedelta(seconds=3)
    event = Notice("a", "mining_yield", YIELD, tick=106, exact=True,
                   at=NOW - timedelta(seconds=1))  # fmt: skip
    row = Snapshot("get_cargo", {}, CARGO, 105, NOW, asked_at=asked)
    found = merge_events(row, [event], learn_account(ME, [row]), 107)
    assert value(found, "used") == 12
    assert believed(found, "used") is Confidence.INVALIDATED
    before = Notice(
        "b", "mining_yield", YIELD, tick=106, at=asked - timedelta(seconds=1)
    )
    assert merge_events(row, [before], learn_account(ME, [row]), 107).stale is None


def test_an_outcome_answers_the_mark_of_its_action():
    """Mined twice and told twice: what is shown is right, and no longer in doubt."""
    early, later = NOW - timedelta(seconds=15), NOW - timedelta(seconds=5)
    whole = [Stale("mine", 107, (), early), Stale("mine", 108, (), later)]
    first = Notice("1", "mining_yield", YIELD, tick=106, at=NOW - timedelta(seconds=9))
    second = Notice("2", "mining_yield", YIELD, tick=107, at=NOW - timedelta(seconds=1))
    one = merged("get_cargo", first, marks=tuple(whole), stale=whole[-1])
    assert (value(one, "used"), one.stale) == (17, whole[-1])
    assert believed(one, "used") is Confidence.INVALIDATED
    both = merged("get_cargo", second, first, marks=tuple(whole), stale=whole[-1])
    assert (value(both, "used"), both.stale) == (22, None)
    assert believed(both, "used") is Confidence.MERGED


def test_a_yield_that_is_told_twice_counts_once():
    """Era C tells it by itself and as the action's result, under two ids."""
    told = [notice("mining_yield", tick, **YIELD) for tick in (106, 107)] + [
        notice("action_result", tick, command="mine", result=YIELD)
        for tick in (106, 107)
    ]
    assert value(merged("get_cargo", *told), "used") == 22
    assert value(merged("get_cargo", *told[::-1]), "used") == 22
    assert value(merged("get_cargo", *told[1:]), "used") == 22
    assert value(merged("get_cargo", *told[:2]), "used") == 22


def test_a_count_never_lifts_the_doubt_of_another_action():
    bought = Stale("buy", 103, ("ship.cargo", "ship.cargo_used", "player.credits"))
    found = merged("get_status", notice("mining_yield", **YIELD), marks=(bought,))
    assert believed(found, "ship.cargo_used") is Confidence.INVALIDATED
    assert believed(found, "player.credits") is Confidence.INVALIDATED
    paid = merged(
        "get_status", notice("trade_complete", your_credits=9), marks=(bought,)
    )
    assert believed(paid, "player.credits") is Confidence.MERGED


def test_the_block_says_where_a_value_comes_from():
    text = render_block(
        state(merged("get_cargo", notice("mining_yield", **YIELD)))
    ).text
    assert "- Cargo: 17/50 (from an event at tick 106)\n  - Iron Ore x17\n" in text


def test_a_count_is_no_younger_than_what_it_began_with():
    """The others at a place are known no better because one more came."""
    came = notice("poi_arrival", username="Cleo", poi_id="sol_belt")
    found = merged("get_nearby", came, age=9)
    assert found.counted == ("nearby", "count")
    assert believed(found, "nearby") is Confidence.STALE
    told = merged("get_ship", notice("pirate_combat", player_hull=3), age=200)
    assert believed(told, "ship.hull") is Confidence.MERGED
    assert believed(told, "ship.fuel") is Confidence.STALE


@pytest.mark.parametrize(
    ("ahead", "seconds", "expected"),
    [(5, -30, EventOrder.UNSURE), (-5, 30, EventOrder.UNSURE), (5, 30, EventOrder.AFTER),
     (-5, -30, EventOrder.BEFORE), (5, None, EventOrder.AFTER)],
)  # fmt: skip
def test_a_tick_by_the_clock_never_stands_against_the_clock(ahead, seconds, expected):
    own = snapshot("get_cargo", CARGO)
    at = None if seconds is None else own.captured_at + timedelta(seconds=seconds)
    event = Notice("x", "ok", tick=own.tick + ahead, exact=True, at=at)
    assert compare_event(own, event) is expected
    sure = EventOrder.AFTER if ahead > 0 else EventOrder.BEFORE
    assert compare_event(own, event, own_tick=True) is sure


@given(st.sampled_from(sorted(CONTENTS)), notices(), st.randoms(use_true_random=False))
def test_order_and_repetition_make_no_difference(tool, events, chance):
    mark = Stale("mine", 107, ("ship.cargo",), NOW - timedelta(seconds=16))
    row = snapshot(tool, CONTENTS[tool], marks=(mark,), stale=mark)
    around = learn_account(
        ME, [snapshot(name, each) for name, each in CONTENTS.items()]
    )
    whole = merge_events(row, events, around, TICK)
    shuffled = [*events, *events[:2]]
    chance.shuffle(shuffled)
    assert merge_events(row, shuffled, around, TICK) == whole
    cut = chance.randint(0, len(events))
    step = merge_events(row, shuffled[:cut], around, TICK)
    assert merge_events(step, shuffled, around, TICK) == whole
    assert row.content == CONTENTS[tool]


@given(notices())
def test_what_is_merged_is_never_called_fresh(events):
    around = learn_account(
        ME, [snapshot(name, each) for name, each in CONTENTS.items()]
    )
    for tool, content in CONTENTS.items():
        found = merge_events(snapshot(tool, content), events, around, TICK)
        for path in found.field_ticks:
            assert found.field_ticks[path] >= 105
            assert believed(found, path) in (Confidence.MERGED, Confidence.AGEING)
        if found.shown is not None and found.shown != content:
            assert (
                judge_confidence(found, Moment(TICK, NOW, PACE)) is not Confidence.FRESH
            )
