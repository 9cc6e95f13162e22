"""Turns whose worker died, was told to end, or was only slow."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection, transaction

from agents import actions
from agents.db import fetch_row
from agents.llm.endpoints import resolve
from agents.llm.model_types import Completion, Usage
from agents.models import ModelCall, Mysis, Turn, UnknownOutcome
from agents.runtime import answers, cancellation, model_calls, recovery, turn_rows
from agents.runtime import finish as runtime_finish
from agents.runtime.turn import take_turn
from agents.tools.request import INTERRUPTED, Outcome
from agents.usage import CallPlace, today
from memory import calibration
from memory.gamestate.extract import read_result
from memory.models import GameSnapshot, Memory
from memory.snapshots.writes import capture_snapshot
from sandbox.game.testing import SandboxServer
from tests.agents.runtime.conftest import fly, refreshed
from tests.agents.runtime.logs import assert_paired, in_db, log
from tests.fakes.openai import FakeProvider, Reply, call, completion


async def test_a_job_that_is_no_longer_the_one_does_nothing(
    ada: Mysis, sandbox: SandboxServer
):
    assert ada.next_job is not None
    await in_db(actions.send_message)(mysis=ada, text="hi", by="x")
    await take_turn(ada.pk, job_id=ada.next_job, trigger="start")
    assert await in_db(Turn.objects.count)() == 0


def abandoned_turn(mysis: Mysis) -> None:
    """What a worker leaves that is killed in the middle of an action."""
    begun = turn_rows.begin_turn(mysis.pk, job_id=mysis.next_job or 0, trigger="start")
    assert begun is not None
    row: dict[str, Any] = {"mysis": mysis, "turn_id": begun.turn_id}
    item = call("mine", "{}", "x")
    Memory.objects.create(**row, role="assistant", origin="agent", tool_calls=[item])
    Memory.objects.create(
        **row,
        role="tool",
        origin="tool",
        tool_call_id="x",
        tool_name="mine",
        pending=True,
    )
    # The queue finished the job of the dead worker.
    Turn.objects.filter(pk=begun.turn_id).update(job_id=None)


async def test_a_turn_of_a_dead_worker_is_taken_up(ada: Mysis, sandbox: SandboxServer):
    await in_db(abandoned_turn)(ada)
    assert await in_db(recovery.reschedule_lost)() == 1
    assert await in_db(recovery.reschedule_lost)() == 0
    rows = await in_db(log)(ada)
    assert_paired(rows)
    assert rows[-1].content == INTERRUPTED
    assert (await in_db(Turn.objects.get)()).outcome == "interrupted"
    assert not await in_db(UnknownOutcome.objects.count)(), "it plays no account yet"
    await fly(ada, "interrupted")
    assert await in_db(Turn.objects.filter(outcome="done").count)() == 1


WAITING = "SELECT count(*) FROM pg_locks WHERE NOT granted"


def store_late_answer(begun: turn_rows.TurnHandle) -> None:
    made = ModelCall.objects.create(turn_id=begun.turn_id, number=1, model="pilot")
    place = CallPlace(made.pk, begun.mysis_id, today(), "", "pilot")
    answer = Completion("Late.", usage=Usage(70, 7))
    if answers.store_answer(begun, model_calls.Opened(place), answer, 1) is None:
        raise turn_rows.TurnSuperseded


def show_next_call(begun: turn_rows.TurnHandle) -> None:
    """As after each result but the last of an answer: what is kept of it locks the row."""
    late = answers.PendingCall(0, "mine", "{}")
    answers.write_result(begun, late, Outcome(("Late.",)))
    if not turn_rows.show_activity(begun, "calling dock"):
        raise turn_rows.TurnSuperseded


@pytest.mark.parametrize(
    "take", [turn_rows.lock_for_turn, store_late_answer, show_next_call]
)
def test_a_step_that_waits_while_its_turn_is_taken_up_is_superseded(
    ada: Mysis, take: Callable[[turn_rows.TurnHandle], None]
):
    """It gets the lock of the Mysis last, and must see what was committed meanwhile."""
    begun = turn_rows.begin_turn(ada.pk, job_id=ada.next_job or 0, trigger="start")
    assert begun is not None
    found: list[object] = []

    def take_a_step() -> None:
        try:
            with transaction.atomic():
                take(begun)
            found.append("It goes on.")
        except turn_rows.TurnSuperseded as error:
            found.append(error)
        finally:
            connection.close()

    step = threading.Thread(target=take_a_step)
    with transaction.atomic():
        mysis = turn_rows.lock_mysis(ada.pk)
        assert mysis is not None
        step.start()
        while not found and not fetch_row(WAITING, ())[0]:
            step.join(0.01)
        turn_rows.close_open_turns(mysis, outcome=Turn.Outcome.INTERRUPTED)
    step.join()
    assert isinstance(found[0], turn_rows.TurnSuperseded)
    assert not Memory.objects.filter(role="assistant").exists()
    assert Mysis.objects.get().activity != "calling dock"


async def test_a_worker_told_to_end_leaves_the_turn_interrupted_and_due(
    eve: Mysis, provider: FakeProvider, sandbox: SandboxServer
):
    provider.answers.append(
        Reply(body=completion("late"), wait=(gate := provider.arrived.__class__()))
    )
    row = await refreshed(eve)
    assert row.next_job
    turn = asyncio.create_task(take_turn(eve.pk, job_id=row.next_job, trigger="start"))
    assert await asyncio.to_thread(provider.arrived.wait, 20)
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn
    gate.set()
    after = await refreshed(eve)
    assert (after.state, after.next_job is not None) == ("running", True)
    assert (await in_db(Turn.objects.get)()).outcome == "interrupted"


def _opened(
    begun: turn_rows.TurnHandle, wish: model_calls.CallEstimate
) -> model_calls.Opened:
    return model_calls.open_call(begun, wish)[0]


async def test_a_worker_that_was_only_slow_writes_nothing_more(
    ada: Mysis, sandbox: SandboxServer
):
    """Its turn was taken up meanwhile: no step of it may go on."""
    assert ada.next_job is not None
    late = await in_db(turn_rows.begin_turn)(
        ada.pk, job_id=ada.next_job, trigger="start"
    )
    assert late is not None
    view = await in_db(model_calls.assemble_next)(late)
    endpoint = await in_db(resolve)("pilot")
    opened = await in_db(_opened)(late, model_calls.CallEstimate(endpoint, 1, 0))
    prepared = model_calls.ReadyCall(opened, view.assembly, 0, 0)
    await in_db(Turn.objects.filter(pk=late.turn_id).update)(job_id=None)
    assert await in_db(recovery.reschedule_lost)() == 1
    row = await refreshed(ada)
    assert row.next_job is not None
    await in_db(turn_rows.begin_turn)(
        ada.pk, job_id=row.next_job, trigger="interrupted"
    )
    answer = Completion("late", usage=Usage(7, 3))
    for step in (
        lambda: model_calls.assemble_next(late),
        lambda: model_calls.persist_call(late, 2, endpoint, view),
        lambda: answers.record_answer(late, prepared, answer, 1),
        lambda: turn_rows.report_activity(late, "x"),
    ):
        with pytest.raises(turn_rows.TurnSuperseded):
            await in_db(step)()
    assert await in_db(log)(ada) == []
    assert await in_db(ModelCall.objects.count)() == 1
    paid = await in_db(Turn.objects.get)(pk=late.turn_id)
    assert (paid.input_tokens, paid.output_tokens) == (7, 3)


async def test_turns_that_are_lost_again_and_again_end_errored(
    ada: Mysis, sandbox: SandboxServer
):
    for _ in range(recovery.LOST_LIMIT):
        row = await refreshed(ada)
        assert row.state == "running"
        begin = in_db(turn_rows.begin_turn)
        await begin(ada.pk, job_id=row.next_job or 0, trigger="interrupted")
        await in_db(Turn.objects.filter(outcome=None).update)(job_id=None)
        await in_db(recovery.reschedule_lost)()
    row = await refreshed(ada)
    assert (row.state, row.next_job) == ("errored", None)
    assert "log" in row.last_error
    assert row.failures == 0
    assert (await in_db(actions.start_mysis)(mysis=row, by="x")).lost_turns == 0


async def test_an_action_of_unknown_outcome_puts_the_state_in_doubt(
    ada: Mysis, sandbox: SandboxServer
):
    row = await fly(ada)
    await in_db(capture_snapshot)(
        username="Ada",
        tool="get_status",
        args={},
        text=(answer := '{"ship": {"cargo_used": 1}}'),
        result=read_result(answer),
    )
    await in_db(abandoned_turn)(row)
    await in_db(recovery.reschedule_lost)()
    doubted = await in_db(GameSnapshot.objects.get)(tool_name="get_status")
    assert "mine" in doubted.stale_reason


async def test_what_a_dead_worker_left_is_read_before_the_model_goes_on(
    eve: Mysis, provider: FakeProvider, sandbox: SandboxServer
):
    name = {"username": "Eve", "empire": "solarian"}
    joins = call("register", json.dumps(name))
    provider.answer(completion(None, tool_calls=[joins]))
    row = await fly(eve)
    await in_db(abandoned_turn)(row)
    await in_db(recovery.reschedule_lost)()
    assert await in_db(UnknownOutcome.objects.count)() == 1
    mines = completion(None, tool_calls=[call("mine", "{}", "again")])
    provider.answer(mines)
    await fly(eve, "interrupted")
    told, again = (await in_db(log)(eve))[-4], (await in_db(log)(eve))[-2]
    assert told.content.startswith(f"{INTERRUPTED} get_status says now")
    assert "ship.cargo_used 0" in told.content
    assert told.content in str(provider.requests[-2]["messages"])
    # The tick of the action has not passed: the same is not sent again.
    assert "not_verified" in again.content
    assert not any(one.tool == "mine" for one in sandbox.writes().get("Eve", []))


async def test_a_turn_that_has_just_ended_is_not_taken_for_a_void_one(
    eve: Mysis,
    sandbox: SandboxServer,
    provider: FakeProvider,
    monkeypatch: pytest.MonkeyPatch,
):
    """The watcher must not cancel a turn because its outcome is written."""
    finish, watched = runtime_finish.finish_turn, []

    def end(*args: Any, **kwargs: Any) -> None:
        watched.append(set(cancellation.canceller.turns))
        finish(*args, **kwargs)

    monkeypatch.setattr("agents.runtime.turn.finish_turn", end)
    provider.answer(completion("Aye."))
    await fly(eve)
    assert watched == [set()]
    assert (await in_db(Turn.objects.get)()).outcome == "done"


# --- A database that is lost at the worst moment of a turn


def cut_off(*_: object, **__: object) -> None:
    """End this thread's connection from the server's side, as a crash does."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")


async def test_nothing_is_done_in_the_game_that_the_log_does_not_tell(
    ada: Mysis, sandbox: SandboxServer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(calibration, "learn_factor", cut_off)
    await fly(ada, "start")
    done = [write.tool for each in sandbox.writes().values() for write in each]
    rows = await in_db(log)(ada)
    assert_paired(rows)
    told = [row.tool_name for row in rows if row.role == "tool"]
    assert done
    assert set(done) <= set(told)
