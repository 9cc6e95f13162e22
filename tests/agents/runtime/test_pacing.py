"""When the next turn comes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from agents.models import Turn
from agents.runtime.pacing import FAILURE_LIMIT, FRUITLESS_LIMIT, Ending, Plan, plan

NOW = datetime(2026, 2, 5, tzinfo=UTC)
DONE = Turn.Outcome.DONE


def planned(ending: Ending, nudges: int = 0, failures: int = 0) -> Plan:
    return plan(ending, now=NOW, seconds_per_tick=10, nudges=nudges, failures=failures)


def seconds(chosen: Plan) -> float:
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


def test_three_fruitless_turns_end_in_rest():
    nudges, rounds = 0, 0
    while (chosen := planned(Ending(DONE), nudges=nudges)).trigger is not None:
        nudges, rounds = chosen.nudges, rounds + 1
    assert rounds == FRUITLESS_LIMIT - 1
    assert not chosen.errored


def test_the_iteration_limit_goes_on_at_once_and_is_no_error():
    chosen = planned(Ending(Turn.Outcome.ITERATION_LIMIT, acted=True))
    assert chosen == Plan("continue")


def test_failures_back_off_and_end_errored():
    failures, waits = 0, []
    ending = Ending(Turn.Outcome.ERRORED, error="down")
    while not (chosen := planned(ending, failures=failures)).errored:
        waits.append(seconds(chosen))
        failures = chosen.failures
    assert len(waits) == FAILURE_LIMIT - 1
    assert waits == sorted(waits)
    assert waits[0] == 2


def test_a_fatal_failure_is_not_tried_again():
    ending = Ending(Turn.Outcome.ERRORED, error="no such model", fatal=True)
    assert planned(ending).errored


@given(st.floats(0, 10_000))
def test_what_the_provider_asks_for_is_waited_for(asked: float):
    ending = Ending(Turn.Outcome.ERRORED, error="busy", retry_after=asked)
    waited = seconds(planned(ending))
    assert waited >= min(asked, 600) - timedelta(microseconds=1).total_seconds()
    assert waited <= 600


def test_an_interrupted_turn_goes_on_at_once():
    chosen = planned(Ending(Turn.Outcome.INTERRUPTED), nudges=1)
    assert chosen == Plan("interrupted", nudges=1)
