"""When the next turn comes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from channels.db import database_sync_to_async
from hypothesis import given
from hypothesis import strategies as st
from pytest_django import Settings

from agents import actions
from agents.models import Event, Mysis, Turn
from agents.runtime.finish import (
    FRUITLESS_LIMIT,
    CallRecord,
    Ending,
    Limits,
    NextTurn,
    Pace,
    Trail,
    digest_call,
    plan_next_turn,
    sum_back_off,
    update_trail,
)
from agents.tools.request import Outcome
from sandbox.game.testing import SandboxServer
from tests.agents.runtime.conftest import fly, refreshed
from tests.fakes.openai import FakeProvider, call, completion
from tests.programs import Program

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
    assert 3600 <= sum(waits) == sum_back_off(failures) < 3600 + 300


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


# --- Loops and standstill: a badge and an event, never an end (settings: 5 and 6).

in_db = database_sync_to_async
LIMITS = Limits(repeats=3, turns=2)


def asked(result: str, name: str = "get_ship", **kind: bool) -> CallRecord:
    outcome = Outcome((result,), kind.get("is_error", False))
    return digest_call(name, "{}", outcome, read_only=kind.get("read_only", True))


def reasons(*turns: list[CallRecord], whole: bool = True) -> list[str]:
    trail, found = Trail(), []
    for calls in turns:
        trail, reason = update_trail(trail, calls, LIMITS, whole=whole)
        found.append(reason.partition(". ")[0])
    return found


def test_the_same_call_with_the_same_result_is_a_loop():
    assert reasons([asked("a")], [asked("a")], [asked("a")]) == [
        "", "", "get_ship brought the same result 3 times",
    ]  # fmt: skip
    assert reasons([asked("a"), asked("b"), asked("a"), asked("b"), asked("a")])[0]
    assert reasons([asked("a"), asked("b"), asked("c"), asked("d")]) == [""]
    failing = [asked("no", "mine", is_error=True, read_only=False)] * 3
    assert reasons(failing)[0].startswith("mine brought")


def test_an_action_that_works_is_progress_however_often():
    mined = asked("ok", "mine", read_only=False)
    assert reasons([mined] * 9, [asked("a"), mined] * 5) == ["", ""]


def test_turns_that_bring_nothing_new_are_told_and_a_new_answer_ends_it():
    told = reasons([asked("a")], [asked("a")], [], [asked("b")], [])
    assert told == ["", "", "2 turns in a row brought nothing new", "", ""]
    assert reasons([], [], [], whole=False) == ["", "", ""]


def test_the_trail_stays_short():
    trail = Trail()
    for number in range(100):
        trail, _ = update_trail(trail, [asked(str(number))], LIMITS, whole=True)
    assert len(trail.results) == 12


def told(mysis: Mysis) -> list[dict[str, Any]]:
    found = Event.objects.filter(mysis=mysis, kind="error", data__code="stuck")
    return list(found.values_list("data", flat=True))


async def test_a_loop_is_shown_goes_on_and_clears_itself(
    eve: Mysis, sandbox: SandboxServer, provider: FakeProvider, settings: Settings
):
    settings.ZOEA_STUCK_RESULTS = 3
    for _ in range(3):
        provider.answer(completion(None, tool_calls=[call("get_version")]))
    provider.answer(completion("Hm."))
    after = await fly(eve)
    assert "get_version brought the same result 3 times" in after.stuck
    assert after.state == "running"
    assert after.next_job is not None
    assert len(await in_db(told)(eve)) == 1
    viewer = await in_db(Program)("viewer")
    shown = (await in_db(viewer.get)("/myses/Eve")).json()
    assert shown["stuck"] == after.stuck
    assert (await in_db(viewer.get)("/fleet")).json()["stuck"] == 1
    # Stuck on: told once.
    provider.answer(completion(None, tool_calls=[call("get_version")]))
    provider.answer(completion("Hm."))
    assert (await fly(eve)).stuck
    assert len(await in_db(told)(eve)) == 1
    provider.answer(completion(None, tool_calls=[call("get_commands")]))
    provider.answer(completion("Ah."))
    assert (await fly(eve)).stuck == ""
    states = Event.objects.filter(mysis=eve, kind="mysis.state").order_by("pk")
    kept = await in_db(lambda: [bool(e.data.get("stuck")) for e in states])()
    assert kept[-2:] == [True, False]


async def test_a_rest_after_turns_that_did_nothing_says_so(
    eve: Mysis, sandbox: SandboxServer, provider: FakeProvider
):
    for _ in range(FRUITLESS_LIMIT):
        provider.answer(completion("Hm."))
        after = await fly(eve)
    assert after.state == "idle"
    newest = Event.objects.filter(mysis=eve, kind="mysis.state").order_by("pk")
    event = await in_db(newest.last)()
    assert event is not None
    assert event.data["state"] == "idle"
    assert event.data["reason"] == "3 turns in a row did nothing"


async def test_a_start_forgets_what_was(eve: Mysis, sandbox: SandboxServer):
    await in_db(Mysis.objects.filter(pk=eve.pk).update)(
        stuck="x", trail="a:b", empty_turns=9
    )
    await in_db(actions.stop_mysis)(mysis=eve, by="test")
    await in_db(actions.start_mysis)(mysis=eve, by="test")
    row = await refreshed(eve)
    assert (row.stuck, row.trail, row.empty_turns) == ("", "", 0)


@pytest.mark.parametrize("limits", [Limits(2, 2), Limits(5, 6)])
def test_one_call_alone_is_never_a_loop(limits: Limits):
    assert update_trail(Trail(), [asked("a")], limits, whole=True)[1] == ""
