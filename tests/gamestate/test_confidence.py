"""How far facts are believed, by age, by mark, by merge (GAME_STATE.md section 2)."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.gamestate.confidence import (
    DEFAULT_THRESHOLDS,
    Confidence,
    choose_worst,
    count_age_in_ticks,
    find_stale_paths,
    judge_confidence,
)
from memory.gamestate.types import Moment, Snapshot, Stale, Thresholds
from memory.gamestate.values import applies_to, paths_overlap
from tests.gamestate.builders import NOW, TICK, payload, snapshot

HERE = Moment(TICK, NOW)
FRESH, AGEING = Confidence.FRESH, Confidence.AGEING
STATUS = {"player": {"credits": 5, "current_poi": "x"}, "ship": {"fuel": 9}}


def of(content=None, path=None, moment=HERE, **kwargs):
    return judge_confidence(
        snapshot("get_status", content or STATUS, **kwargs), moment, path
    )


@pytest.mark.parametrize(
    ("tool", "ages"),
    [
        ("get_nearby", (1, 5)),
        ("view_market", (1, 5)),
        ("get_status", (60, 180)),
        ("list_ships", (5, 20)),
        ("get_map", (24, 49)),
        ("get_version", (500, 2000)),
    ],
)
def test_each_tool_ages_at_its_own_pace(tool, ages):
    fresh, ageing = ages
    for age, expected in (
        (0, Confidence.FRESH),
        (fresh, Confidence.FRESH),
        (fresh + 1, Confidence.AGEING),
        (ageing, Confidence.AGEING),
        (ageing + 1, Confidence.STALE),
    ):
        found = snapshot(tool, {"x": 1}, age=age, tick=10_000 - age)
        assert judge_confidence(found, Moment(10_000, NOW)) is expected


def test_thresholds_can_be_replaced():
    moment = Moment(TICK, NOW, thresholds={"get_status": Thresholds(0, 1)})
    assert of(age=2, moment=moment) is Confidence.STALE


def test_without_ticks_the_clock_ages():
    assert of(tick=None, age=2) is Confidence.FRESH
    assert of(tick=None, age=200) is Confidence.STALE
    assert of(moment=Moment(None, NOW), age=200) is Confidence.STALE


def test_a_snapshot_from_the_future_is_as_old_as_the_clock_says():
    assert of(tick=TICK + 5, age=200) is Confidence.STALE
    assert of(tick=TICK + 500, age=200) is Confidence.STALE


def test_a_clock_that_went_backwards_leaves_no_freshness():
    found = Snapshot("get_status", {}, STATUS, None, NOW + timedelta(hours=1))
    assert count_age_in_ticks(found, HERE) is None
    assert judge_confidence(found, HERE) is Confidence.AGEING


def test_a_mark_reaches_its_fields_and_the_snapshot():
    mark = Stale("buy", 104, ("player.credits",))
    assert of(stale=mark) is Confidence.INVALIDATED
    assert of(path="player.credits", stale=mark) is Confidence.INVALIDATED
    assert of(path="player", stale=mark) is Confidence.INVALIDATED
    assert of(path="player.current_poi", stale=mark) is Confidence.FRESH
    assert of(path="player.credits_earned", stale=mark) is Confidence.FRESH


def test_a_mark_without_fields_reaches_everything():
    assert of(path="ship.fuel", stale=Stale("warp")) is Confidence.INVALIDATED


@pytest.mark.parametrize("content", ["Drift has 5 credits in Sol.", ["a"], {"cr": 5}])
def test_fields_of_another_shape_mean_the_whole_snapshot(content):
    found = snapshot("get_status", content, stale=Stale("buy", 1, ("player.credits",)))
    assert find_stale_paths(found) is None
    assert judge_confidence(found, HERE) is Confidence.INVALIDATED


def test_a_mark_on_what_is_not_there_leaves_the_rest_alone():
    """No mission, no progress of one: the empty list stays true."""
    empty = snapshot("get_active_missions", stale=Stale("mine", 104, ("missions.*",)))
    assert judge_confidence(empty, HERE) is Confidence.FRESH
    running = snapshot(
        "get_active_missions",
        {"missions": [{"title": "Iron", "current": 3}]},
        stale=Stale("mine", 104, ("missions.*",)),
    )
    assert judge_confidence(running, HERE) is Confidence.INVALIDATED


def test_before_a_logout_everything_is_stale():
    assert of(logged_out=True, age=0) is Confidence.STALE
    assert of(path="ship.fuel", logged_out=True, age=0) is Confidence.STALE


def test_a_merge_is_named_ages_by_itself_and_outlives_an_older_mark():
    merged = {"field_ticks": {"ship.fuel": TICK - 1}, "age": 200}
    assert of(path="ship.fuel", **merged) is Confidence.MERGED
    assert of(path="player.credits", **merged) is Confidence.STALE
    assert of(**merged) is Confidence.STALE
    old = Stale("refuel", TICK - 2, ("ship.fuel",))
    assert of(path="ship.fuel", stale=old, **merged) is Confidence.MERGED
    new = Stale("refuel", TICK, ("ship.fuel",))
    assert of(path="ship.fuel", stale=new, **merged) is Confidence.INVALIDATED
    late = {"field_ticks": {"ship.fuel": TICK - 90}, "age": 100}
    assert of(path="ship.fuel", **late) is Confidence.AGEING
    late = {"field_ticks": {"ship.fuel": TICK - 40}, "age": 50}
    assert of(path="ship.fuel", **late) is Confidence.MERGED


def test_worst():
    assert choose_worst([]) is Confidence.FRESH
    assert choose_worst([Confidence.STALE, Confidence.MERGED]) is Confidence.STALE


@pytest.mark.parametrize(
    ("one", "other", "common"),
    [
        ("player", "player.credits", True),
        ("player.credits", "player.credit", False),
        ("system.pois.*.name", "system.pois.*.online", False),
        ("system.pois.*.name", "system.pois", True),
        ("missions.*", "missions.3.current", True),
    ],
)
def test_paths_that_speak_of_the_same(one, other, common):
    assert paths_overlap(one, other) is common
    assert paths_overlap(other, one) is common


def test_a_missing_last_key_is_a_fact():
    assert applies_to(payload("get_status"), "player.docked_at_base")
    assert not applies_to(payload("get_status"), "location.docked_at")


@given(
    st.sampled_from([*DEFAULT_THRESHOLDS, "get_status", "get_ship"]),
    st.integers(0, 3000),
    st.integers(0, 3000),
    st.none() | st.integers(1, 5000),
)
def test_waiting_never_makes_anything_fresher(tool, age, more, tick):
    order = list(Confidence)
    captured = NOW - timedelta(seconds=10 * age)
    found = Snapshot(tool, {}, STATUS, tick, captured)
    current = None if tick is None else tick + age
    later = None if current is None else current + more
    before = judge_confidence(found, Moment(current, NOW))
    after = judge_confidence(found, Moment(later, NOW + timedelta(seconds=10 * more)))
    assert order.index(after) >= order.index(before)


@given(st.booleans(), st.integers(0, 100), st.booleans())
def test_a_snapshot_is_never_better_than_any_of_its_paths(marked, age, out):
    order = list(Confidence)
    mark = Stale("buy", 104, ("player.credits",)) if marked else None
    whole = of(stale=mark, age=age, tick=None, logged_out=out)
    for path in ("player", "player.credits", "ship.fuel", "ship"):
        part = of(path=path, stale=mark, age=age, tick=None, logged_out=out)
        assert order.index(whole) >= order.index(part)


@pytest.mark.parametrize(
    ("shield", "age", "expected"),
    [(10, 0, FRESH), (10, 1, AGEING), (50, 1, FRESH), (50, 61, AGEING)],
)
def test_a_shield_that_is_not_full_recharges_by_itself(shield, age, expected):
    """No action and no event tells of it, so it is not fresh any more at once."""
    content = {"ship": {"shield": shield, "max_shield": 50, "hull": 90}}
    assert of(content, "ship.shield", age=age) is expected
    assert of({"shield": shield, "max_shield": 50}, "shield", age=age) is expected
    assert of(content, "ship.hull", age=1) is FRESH


def test_seconds_do_not_tell_whether_a_shield_has_recharged():
    content = {"ship": {"shield": 10, "max_shield": 50, "hull": 90}}
    assert of(content, "ship.shield", age=0, tick=None) is AGEING
    assert of(content, "ship.hull", age=0, tick=None) is FRESH


def test_a_merged_shield_recharges_from_its_own_tick():
    content = {"ship": {"shield": 10, "max_shield": 50}}
    for tick, expected in ((107, Confidence.MERGED), (106, AGEING)):
        found = of(content, "ship.shield", age=3, field_ticks={"ship.shield": tick})
        assert found is expected


def test_what_was_merged_at_a_tick_that_never_came_ages_by_the_clock():
    ship = snapshot("get_ship", {"ship": {"hull": 1}}, age=190,
                    field_ticks={"ship.hull": 2_147_483_000})  # fmt: skip
    assert judge_confidence(ship, HERE, "ship.hull") is Confidence.STALE
