"""Rules of alerts: what raises, what clears, what waits."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.alerts.distances import count_jumps, read_roads
from agents.alerts.rules import (
    GAME_RULES,
    Attack,
    Case,
    Evidence,
    Facts,
    Known,
    Limits,
    judge,
    update_evidence,
)
from agents.models import Rule
from memory.gamestate.confidence import Confidence

NOW = datetime(2026, 2, 5, tzinfo=UTC)
ALL = tuple(map(str, Rule))
MINUTE = timedelta(minutes=1)
SHIP = Facts(
    "running",
    "Pilot",
    tick=1_000,
    fuel=Known(50),
    hull=Known(100),
    max_hull=Known(100),
    cargo_used=Known(10),
    cargo_limit=Known(50),
    credits=Known(500),
    place="sol|belt",
    place_name="Sol > Belt",
    docked=False,
    jumps=2,
)


def verdict(rule: str, facts: Facts, evidence: Evidence | None = None, **limits: Any):
    case = Case(facts, evidence or Evidence("Pilot"), Limits(ALL, **limits), NOW)
    return judge(case)[rule]


def test_every_game_alarm_has_a_rule():
    assert set(map(str, Rule.list_game())) == set(GAME_RULES)


@pytest.mark.parametrize(
    ("fuel", "raised"), [(10, True), (11, None), (13, None), (14, False)]
)
def test_fuel_is_held_against_what_the_nearest_base_needs(
    fuel: int, raised: bool | None
):
    """Two jumps of three and five to spare; a jump's fuel more clears."""
    assert verdict("fuel", replace(SHIP, fuel=Known(fuel))).raised is raised


def test_a_jump_takes_what_the_game_told_of_this_ship():
    heavy = replace(SHIP, fuel=Known(20), fuel_per_jump=9.5)
    found = verdict("fuel", heavy)
    assert found.raised
    assert found.text.endswith("needs 24.")
    assert verdict("fuel", replace(heavy, fuel_per_jump=None)).raised is False


@pytest.mark.parametrize(
    "known", [{"docked": True}, {"fuel_cells": True}], ids=["docked", "fuel cells"]
)
def test_who_can_fuel_is_not_short_of_fuel(known: dict[str, Any]):
    found = verdict("fuel", replace(SHIP, fuel=Known(0), **known))
    assert found.raised is False


def test_hull_says_as_of_when_it_is_known():
    old = Known(20, Confidence.STALE, age=70)
    found = verdict("hull", replace(SHIP, hull=old))
    assert (found.raised, found.text) == (
        True,
        "Hull 20 of 100 (as of 70 ticks ago).",
    )


@given(
    st.lists(st.one_of(st.none(), st.integers(0, 100)), max_size=60),
    st.integers(1, 90),
)
def test_a_hull_that_trembles_around_its_threshold_does_not_flap(
    values: list[int | None], percent: int
):
    """Between a raise and the next one the hull has been ten percent above."""
    raised, highest = False, 100
    for value in values:
        known = None if value is None else Known(value)
        found = verdict("hull", replace(SHIP, hull=known), hull_percent=percent).raised
        highest = max(highest, value or 0)
        if value is None:
            assert found is None
        elif found and not raised:
            assert value < percent
            assert highest >= min(100, percent + 10)
            raised, highest = True, 0
        elif found is False:
            raised = False


DOUBTED = {
    name: Known(0, Confidence.INVALIDATED)
    for name in ("fuel", "hull", "cargo_used", "credits")
}


@given(
    state=st.sampled_from(["idle", "running"]),
    unknown=st.sampled_from([dict.fromkeys(DOUBTED), DOUBTED]),
    minutes=st.integers(0, 500),
)
def test_what_nobody_knows_never_raises_an_alarm(
    state: str, unknown: dict[str, Any], minutes: int
):
    facts = replace(SHIP, state=state, place=None, **unknown)
    since = NOW - minutes * MINUTE
    evidence = Evidence("Pilot", 500, since, "sol|belt", since, 0)
    case = Case(facts, evidence, Limits(list(GAME_RULES)), NOW)
    assert [rule for rule, found in judge(case).items() if found.raised] == []


@pytest.mark.parametrize("state", ["stopped", "errored"])
def test_who_does_not_play_has_no_game_alarm(state: str):
    facts = replace(SHIP, state=state, hull=Known(1), attack=Attack(NOW), repeats=20)
    found = judge(Case(facts, Evidence("Pilot"), Limits(list(GAME_RULES)), NOW))
    assert {one.raised for one in found.values()} == {False}


def test_an_attack_is_over_after_a_while_without_a_hit():
    hit = replace(SHIP, attack=Attack(NOW - 4 * MINUTE, "Pirate", 12))
    assert verdict("attacked", hit).text == "Attacked by Pirate, 12 damage."
    assert verdict("attacked", hit, attack_minutes=4).raised is False


def test_a_full_hold_is_counted_in_ticks_and_clears_when_there_is_room():
    full = replace(SHIP, cargo_used=Known(50))
    seen = update_evidence(Evidence("Pilot"), full, NOW)
    assert verdict("hold_full", full, seen).raised is None
    later = replace(full, tick=1_030)
    assert update_evidence(seen, later, NOW) == seen
    assert verdict("hold_full", later, seen).raised is True
    almost = replace(later, cargo_used=Known(49))
    emptied = update_evidence(seen, almost, NOW)
    assert emptied.full_tick is None
    assert verdict("hold_full", almost, emptied).raised is None
    assert verdict("hold_full", replace(later, cargo_used=Known(45))).raised is False


@given(
    st.lists(
        st.tuples(st.integers(1, 30), st.one_of(st.none(), st.integers(0, 5))),
        max_size=40,
    )
)
def test_no_income_is_told_after_an_hour_without_a_rise_and_not_before(
    steps: list[tuple[int, int | None]],
):
    now, evidence, rose = NOW, Evidence("Pilot"), None
    credits: int | None = None
    for minutes, amount in steps:
        now += minutes * MINUTE
        known = None if amount is None else Known(amount)
        facts = replace(SHIP, credits=known)
        evidence = update_evidence(evidence, facts, now)
        if amount is not None:
            if credits is None or amount > credits:
                rose = now
            credits = amount
        found = judge(Case(facts, evidence, Limits(ALL), now))["no_income"].raised
        if rose is None:
            assert found is None
        elif now - rose < timedelta(hours=1):
            assert found is False
        else:
            assert found is (None if amount is None else True)


def test_an_hour_in_one_place_begins_anew_with_another_run_and_another_place():
    seen = update_evidence(Evidence("Pilot"), SHIP, NOW - 60 * MINUTE)
    assert verdict("one_place", SHIP, seen).text == "At Sol > Belt for 1 h."
    rested = update_evidence(seen, replace(SHIP, state="idle"), NOW)
    assert rested.moved_at is None
    moved = update_evidence(seen, replace(SHIP, place="sol|earth"), NOW)
    assert verdict("one_place", SHIP, moved).raised is False
    other = update_evidence(seen, replace(SHIP, account="Other"), NOW)
    assert other.moved_at == NOW


@pytest.mark.parametrize(("repeats", "raised"), [(5, True), (4, None), (2, False)])
def test_a_loop_clears_well_below_what_raises_it(repeats: int, raised: bool | None):
    assert verdict("loop", replace(SHIP, repeats=repeats)).raised is raised


def test_a_rule_that_is_off_is_not_judged():
    case = Case(SHIP, Evidence("Pilot"), Limits(["hull"]), NOW)
    assert list(judge(case)) == ["hull"]


def test_jumps_are_counted_to_the_nearest_base_both_ways():
    roads, ids = read_roads(
        '{"systems": [{"system_id": "a", "name": "Sol", "connections": ["b"]},'
        ' {"id": "c", "connections": [{"system_id": "b"}, "d"]}]}'
    )
    assert ids["Sol"] == "a"
    assert count_jumps(roads, {"a", "d"}) == {"a": 0, "b": 1, "c": 1, "d": 0}
    assert read_roads("no map") == ({}, {})
