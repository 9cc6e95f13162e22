"""Who is taken up by a pass of recovery, and what a pass costs."""

from __future__ import annotations

from typing import Any

from django.db import connection
from django.test.utils import CaptureQueriesContext

from agents import actions
from agents.models import Mysis, Turn
from agents.runtime import records, recovery


def running(name: str) -> Mysis:
    mysis = actions.create_mysis(name=name, by="test")
    return actions.start_mysis(mysis=mysis, by="test")


def begun(mysis: Mysis) -> records.Begun:
    """A turn in the hands of a worker: its job is no longer the next one."""
    turn = records.begin(mysis.pk, job_id=mysis.next_job or 0, trigger="start")
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
