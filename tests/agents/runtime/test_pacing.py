"""When the next turn comes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.models import Turn
from agents.runtime.finish import (
    FRUITLESS_LIMIT,
    Ending,
    NextTurn,
    Pace,
    plan_next_turn,
    total_back_off,
)

NOW = datetime(2026, 2, 5, tzinfo=UTC)
DONE = Turn.Outcome.DONE
LIMIT = Turn.Outcome.ITERATION_LIMIT
PACE = Pace(NOW, seconds_per_tick=10, patience=3600)


def planned(ending: Ending, nudges: int = 0, failures: int = 0) -> NextTurn:
    return plan_next_turn(ending, PACE, nudges=nudges, failures=failures)


def seconds(chosen: NextTurn) -> float:
    assert chosen.at is not None
    return (chosen.at - NOW).total_seconds()


def test_a_turn_that_acted_is_nudged_within_two_seconds():
    chosen = planned(Ending(DONE, acted=True), nudges=2)
    assert (chosen.trigger, chosen.nudges) == ("nudge", 0)
    assert seconds(chosen) <= 2


def test_the_next_turn_waits_for_what_is_queued():
    chosen = planned(Ending(DONE, acted=True, tick=100, resolve_tick=103))
    assert seconds(chosen) == 30
    far = planned(Ending(DONE, acted=True, tick=100, resolve_tick=10_000))
    assert seconds(far) == 600
    past = planned(Ending(DONE, acted=True, tick=100, resolve_tick=90))
    assert seconds(past) <= 2


@pytest.mark.parametrize("outcome", [DONE, LIMIT])
def test_three_fruitless_turns_end_in_rest(outcome: Turn.Outcome):
    nudges, rounds = 0, 0
    ending = Ending(outcome)
    while (chosen := planned(ending, nudges=nudges)).trigger is not None:
        nudges, rounds = chosen.nudges, rounds + 1
    assert rounds == FRUITLESS_LIMIT - 1
    assert not chosen.errored


def test_the_iteration_limit_goes_on_at_once_and_is_no_error():
    chosen = planned(Ending(LIMIT, acted=True), nudges=2)
    assert chosen == NextTurn("continue")


def test_the_iteration_limit_waits_for_what_is_queued():
    chosen = planned(Ending(LIMIT, acted=True, tick=100, resolve_tick=103))
    assert (chosen.trigger, seconds(chosen)) == ("continue", 30)
    past = planned(Ending(LIMIT, acted=True, tick=100, resolve_tick=100))
    assert past.at is None


def test_failures_back_off_for_an_hour_and_end_errored():
    failures, waits = 0, []
    ending = Ending(Turn.Outcome.ERRORED, error="down")
    while not (chosen := planned(ending, nudges=1, failures=failures)).errored:
        assert (chosen.trigger, chosen.nudges) == ("retry", 1)
        waits.append(seconds(chosen))
        failures = chosen.failures
    assert waits[:4] == [2, 4, 8, 16]
    assert waits == sorted(waits)
    assert max(waits) == 300
    assert 3600 <= sum(waits) == total_back_off(failures) < 3600 + 300


def test_without_patience_the_first_failure_is_the_last():
    ending = Ending(Turn.Outcome.ERRORED, error="down")
    pace = Pace(NOW, seconds_per_tick=10, patience=0)
    assert plan_next_turn(ending, pace, nudges=0, failures=0).errored


def test_any_number_of_failures_has_a_pause():
    ending = Ending(Turn.Outcome.ERRORED, error="down")
    pace = Pace(NOW, seconds_per_tick=10, patience=1e9)
    assert seconds(plan_next_turn(ending, pace, nudges=0, failures=5_000)) == 300


def test_a_fatal_failure_is_not_tried_again():
    ending = Ending(Turn.Outcome.ERRORED, error="no such model", fatal=True)
    assert planned(ending).errored


@given(st.floats(0))
def test_what_the_provider_asks_for_is_waited_for(asked: float):
    ending = Ending(Turn.Outcome.ERRORED, error="busy", retry_after=asked)
    waits = seconds(planned(ending))
    assert waits >= min(asked, 86_400) - timedelta(microseconds=1).total_seconds()
    assert waits <= 86_400


def test_an_interrupted_turn_goes_on_at_once_and_changes_no_count():
    chosen = planned(Ending(Turn.Outcome.INTERRUPTED), nudges=1, failures=3)
    assert chosen == NextTurn("interrupted", nudges=1, failures=3)
