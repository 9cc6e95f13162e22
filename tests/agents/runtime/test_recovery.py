"""Who is taken up by a pass of recovery, and what a pass costs."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from channels.db import database_sync_to_async as in_db
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from procrastinate.contrib.django.models import ProcrastinateJob
from pytest_django import Settings

from agents import actions
from agents.game import connect_limit
from agents.models import GameGate, Mysis, Turn
from agents.runtime import finish, recovery, turn_rows
from agents.runtime.finish import Ending
from agents.runtime.recovery import GRACE_SECONDS, RunningJobs
from agents.runtime.turn import SPREAD_SECONDS, admit_turn
from sandbox.game.testing import SandboxServer
from tests.agents.runtime.conftest import fly, refreshed


def running(name: str) -> Mysis:
    mysis = actions.create_mysis(name=name, by="test")
    return actions.start_mysis(mysis=mysis, by="test")


def begun(mysis: Mysis) -> turn_rows.TurnHandle:
    """A turn in the hands of a worker: its job is no longer the next one."""
    turn = turn_rows.begin_turn(mysis.pk, job_id=mysis.next_job or 0, trigger="start")
    assert turn is not None
    return turn


def without_job(mysis: Mysis) -> None:
    Mysis.objects.filter(pk=mysis.pk).update(next_job=None)


def test_a_fleet_in_order_costs_one_query_a_pass(transactional_db: Any):
    for number in range(12):
        mysis = running(f"M{number}")
        if number % 2:
            begun(mysis)
    with CaptureQueriesContext(connection) as queries:
        assert recovery.reschedule_lost() == 0
    assert len(queries) == 1


def test_only_those_without_a_live_job_are_taken_up(transactional_db: Any):
    waiting, busy = running("waiting"), running("busy")
    begun(busy)
    lost, torn = running("lost"), running("torn")
    without_job(lost)
    turn = begun(torn)
    Turn.objects.filter(pk=turn.turn_id).update(job_id=None)
    stopped = running("stopped")
    actions.stop_mysis(mysis=stopped, by="test")
    assert recovery.reschedule_lost() == 2
    lost_turns = dict(Mysis.objects.values_list("name", "lost_turns"))
    assert lost_turns == {"waiting": 0, "busy": 0, "lost": 1, "torn": 1, "stopped": 0}
    assert Mysis.objects.get(pk=waiting.pk).next_job == waiting.next_job


def test_a_job_that_was_finished_for_a_dead_worker_is_no_live_one(
    transactional_db: Any,
):
    mysis = running("Ada")
    begun(mysis)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE procrastinate_jobs SET status = 'failed'")
    assert recovery.reschedule_lost() == 1


def test_a_turn_of_a_dead_worker_ends_also_where_its_mysis_was_stopped(
    transactional_db: Any,
):
    mysis, busy = running("Ada"), running("busy")
    turn, kept = begun(mysis), begun(busy)
    for each in (mysis, busy):
        actions.stop_mysis(mysis=each, by="test")
    assert recovery.close_left_open() == 0, "their workers may write the end yet"
    job = Turn.objects.get(pk=turn.turn_id).job_id
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM procrastinate_jobs WHERE id = %s", [job])
    assert recovery.reschedule_lost() == 0
    assert recovery.close_left_open() == 1
    assert Turn.objects.get(pk=turn.turn_id).outcome == Turn.Outcome.STOPPED
    assert Turn.objects.get(pk=kept.turn_id).outcome is None
    assert recovery.close_left_open() == 0


def job_of_a_live_worker(mysis: Mysis) -> tuple[int, int]:
    """A job that is taken; its number and that of the worker, which sends heartbeats."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT worker_id FROM procrastinate_register_worker_v1()")
        (worker_id,) = cursor.fetchone()
        cursor.execute(
            "UPDATE procrastinate_jobs SET status = 'doing', worker_id = %s "
            "WHERE id = %s",
            [worker_id, mysis.next_job],
        )
    return mysis.next_job or 0, worker_id


async def test_a_job_whose_end_was_not_written_holds_up_no_turn_for_ever(
    transactional_db: Any, monkeypatch: pytest.MonkeyPatch
):
    """The queue tries that write once, and its worker may live on."""
    mine = RunningJobs()
    monkeypatch.setattr(recovery, "running_jobs", mine)
    mysis = await in_db(running)("Ada")
    job_id, worker_id = await in_db(job_of_a_live_worker)(mysis)
    left = ProcrastinateJob.objects.filter(pk=job_id)
    with mine.track_job(job_id, worker_id):
        turn = await in_db(begun)(mysis)
        for now in (0.0, GRACE_SECONDS + 1):
            await recovery.finish_forgotten(now)
        assert await in_db(left.exists)(), "it is worked on"
    ended = Ending(Turn.Outcome.DONE, acted=True)
    await in_db(finish.finish_turn)(turn, ended, seen=0)
    await recovery.finish_forgotten(100.0)
    await recovery.finish_forgotten(99.0 + GRACE_SECONDS)
    assert await in_db(left.exists)(), "its end may be written yet"
    await recovery.finish_forgotten(100.0 + GRACE_SECONDS)
    assert not await in_db(left.exists)()
    assert await in_db(recovery.reschedule_lost)() == 0, "its next turn waits already"


async def test_the_jobs_of_other_workers_are_their_business(
    transactional_db: Any, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(recovery, "running_jobs", RunningJobs({-1}))
    job_id, _ = await in_db(lambda: job_of_a_live_worker(running("Ada")))()
    for now in (0.0, GRACE_SECONDS + 1):
        await recovery.finish_forgotten(now)
    assert await in_db(ProcrastinateJob.objects.filter(pk=job_id).exists)()


# --- Turns for which the game has no session yet come later, and nothing is lost.


@pytest.fixture
def full(sandbox: SandboxServer, settings: Settings, transactional_db: None) -> None:
    """A gate through which as many went as may."""
    settings.ZOEA_GAME_OPENINGS = 1
    while connect_limit.take_token("127.0.0.1") == 0:
        pass


async def due(mysis: Mysis) -> bool:
    """What a worker does with the job that is due: whether it takes the turn."""
    row = await refreshed(mysis)
    assert row.next_job is not None
    return await admit_turn(mysis.pk, job_id=row.next_job, trigger="start")


async def test_a_turn_is_put_off_without_a_failure(ada: Mysis, full: None) -> None:
    before = timezone.now()
    assert not await due(ada)
    row = await refreshed(ada)
    assert row.next_job not in (None, ada.next_job)
    assert (row.state, row.failures, row.last_error) == ("running", 0, "")
    assert row.activity == "waiting for a session with the game"
    assert row.wake_at is not None
    wait = row.wake_at - before
    # A minute for each; half of it is room for a busy machine.
    assert timedelta(seconds=30) < wait < timedelta(seconds=90 + SPREAD_SECONDS)
    assert await in_db(Turn.objects.count)() == 0
    await in_db(GameGate.objects.update)(full_at=timezone.now())
    assert await due(ada)
    flown = await fly(ada)
    assert (flown.last_error, flown.turn_count) == ("", 1)


async def test_a_stop_ends_the_waiting_and_an_old_job_brings_nothing_back(
    ada: Mysis, full: None
) -> None:
    assert not await due(ada)
    await in_db(actions.stop_mysis)(mysis=ada, by="test")
    assert ada.next_job is not None
    assert not await admit_turn(ada.pk, job_id=ada.next_job, trigger="start")
    row = await refreshed(ada)
    assert (row.state, row.next_job) == ("stopped", None)
