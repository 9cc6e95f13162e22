"""Ticks against the wall clock, and the words for an age (G7, A20, A21)."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.gamestate.clock import (
    Sighting,
    choose_tick,
    estimate_tick,
    is_reachable,
    is_reset,
    keep_newest_sighting,
    measure_recency,
)
from memory.gamestate.types import Moment, Snapshot
from tests.gamestate.builders import NOW


def ago(seconds):
    return NOW - timedelta(seconds=seconds)


def recency(tick, captured_at, current, now, pace=10.0):
    found = Snapshot("get_ship", {}, None, tick, captured_at)
    return measure_recency(found, Moment(current, now, pace))


@pytest.mark.parametrize(
    ("tick", "current", "long", "short", "skew"),
    [
        (105, 107, "2 ticks ago (20 seconds)", "2 ticks ago", False),
        (107, 107, "just now", "just now", False),
        (108, 107, "just now", "just now", True),
        (207, 107, "just now", "just now", True),
        (208, 107, "65 seconds ago", "65 seconds ago", False),
    ],
)
def test_recency_by_ticks(tick, current, long, short, skew):
    # 65 s is "1 minutes": the last row must come from the clock, not from ticks.
    age = recency(tick, ago(65), current, NOW)
    if tick == 208:
        long = short = "1 minutes ago"
    assert (age.long, age.short, age.skew) == (long, short, skew)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 seconds ago"),
        (-30, "0 seconds ago"),
        (59.4, "59 seconds ago"),
        (60, "1 minutes ago"),
        (300, "5 minutes ago"),
        (3600, "1 h 0 min ago"),
        (7_830, "2 h 10 min ago"),
    ],
)
@pytest.mark.parametrize(("tick", "current"), [(None, 107), (105, None), (0, 107)])
def test_recency_by_the_clock(seconds, words, tick, current):
    age = recency(tick, ago(seconds), current, NOW)
    assert (age.long, age.short, age.ticks) == (words, words, None)


@pytest.mark.parametrize(
    ("one", "same", "rough"),
    [(5, 7, "4 ticks ago"), (9, 12, "8 ticks ago"), (64, 127, "64 ticks ago")],
)
def test_a_rough_age_in_ticks_changes_when_it_has_doubled(one, same, rough):
    ages = [recency(100, NOW, 100 + ticks, NOW, 2.5) for ticks in (one, same)]
    assert [age.rough for age in ages] == [rough, rough]
    assert recency(100, NOW, 100 + 2 * one, NOW).rough != rough


@pytest.mark.parametrize(
    ("one", "same", "rough"),
    [
        (33, 40, "32 seconds ago"),
        (60 * 5, 60 * 7, "4 minutes ago"),
        (7_260, 14_340, "2 h ago"),
        (0, 0, "0 seconds ago"),
    ],
)
def test_a_rough_age_by_the_clock(one, same, rough):
    ages = [recency(None, ago(seconds), 107, NOW) for seconds in (one, same)]
    assert [age.rough for age in ages] == [rough, rough]
    assert recency(None, ago(2 * one + 60), 107, NOW).rough != rough


def test_the_seconds_follow_the_length_of_a_tick():
    assert recency(100, NOW, 103, NOW, 2).long == "3 ticks ago (6 seconds)"
    assert recency(100, NOW, 103, NOW, 2.5).long == "3 ticks ago (7.5 seconds)"


@pytest.mark.parametrize(
    ("seconds", "tick"), [(0, 100), (9, 100), (10, 101), (95, 109)]
)
def test_the_current_tick_goes_on_by_the_clock(seconds, tick):
    assert estimate_tick(Sighting(100, ago(seconds)), NOW) == tick


def test_without_a_sighting_there_is_no_tick():
    assert estimate_tick(None, NOW) is None
    assert choose_tick(None, None, NOW) is None


@pytest.mark.parametrize(
    ("own", "seconds", "stamped"),
    [(50, 5, 50), (None, 5, 100), (None, 20, 102), (None, 21, None), (None, -1, None)],
)
def test_a_result_without_tick_is_stamped_only_while_the_tick_is_known(
    own, seconds, stamped
):
    assert choose_tick(own, Sighting(100, ago(seconds)), NOW) == stamped


def test_the_newest_sighting_wins():
    seen = Sighting(100, ago(30))
    assert keep_newest_sighting(seen, None, NOW) == seen
    assert keep_newest_sighting(None, 5, NOW) == Sighting(5, NOW)
    assert keep_newest_sighting(seen, 103, NOW) == Sighting(103, NOW)
    assert keep_newest_sighting(seen, 99, ago(40)) == seen


def test_only_a_current_tick_turns_time_back():
    seen = Sighting(5000, ago(30))
    assert keep_newest_sighting(seen, 12, NOW) == Sighting(12, NOW)
    assert keep_newest_sighting(seen, 12, NOW, is_current=False) == seen


def test_a_tick_out_of_reach_is_noted_only_where_it_is_the_current_one():
    seen = Sighting(100, ago(30))
    assert keep_newest_sighting(seen, 203, NOW, is_current=False) == Sighting(203, NOW)
    assert keep_newest_sighting(seen, 204, NOW, is_current=False) == seen
    assert keep_newest_sighting(seen, 204, NOW) == Sighting(204, NOW)
    # An hour at ten seconds, and a tenth more: a server may be faster than it says.
    long_ago = Sighting(100, ago(3600))
    assert keep_newest_sighting(long_ago, 596, NOW, is_current=False) == Sighting(
        596, NOW
    )
    assert keep_newest_sighting(long_ago, 597, NOW, is_current=False) == long_ago
    assert is_reachable(None, 999_999, NOW)


def test_reset():
    assert is_reset(5000, 12)
    assert not is_reset(200, 100)
    assert is_reset(201, 100)
    assert not is_reset(None, 12)


@given(
    st.integers(0, 10**6),
    st.integers(0, 9_900),
    st.integers(0, 5_000_000),
    st.integers(0, 5_000_000),
)
def test_the_estimate_is_never_ahead_of_a_server_that_keeps_its_pace(
    tick, phase, seen_after, asked_after
):
    """Ticks begin every 10 s; the sighting falls anywhere within one.

    In whole milliseconds, since a time delta rounds what is finer.
    """
    moments = (seen_after, seen_after + asked_after)
    true = [tick + (phase + moment) // 10_000 for moment in moments]
    seen = Sighting(true[0], ago(asked_after / 1000))
    estimate = estimate_tick(seen, NOW)
    assert true[1] - 1 <= estimate <= true[1]
