"""Clocks that are an hour off, on a worker's machine or on the database's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone
from procrastinate.contrib.django.models import ProcrastinateJob
from pytest_django import Settings

from agents import budgets, scheduling
from agents.game import connect_limit
from agents.models import Mysis
from agents.runtime import clock_jumps, recovery
from agents.runtime.clock_jumps import DatabaseClock
from sandbox.game.testing import SandboxServer
from tests.agents.runtime.conftest import fly, refreshed
from tests.agents.runtime.logs import in_db
from tests.fakes.openai import FakeProvider

HOUR = timedelta(hours=1)
SOON = timedelta(seconds=60)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> DatabaseClock:
    """What this process knows of the database's clock: nothing yet."""
    found = DatabaseClock()
    monkeypatch.setattr(clock_jumps, "database_clock", found)
    return found


def read_wait(mysis: Mysis) -> timedelta:
    """How long the next turn of a Mysis has to wait for its time, by the queue's clock."""
    job = ProcrastinateJob.objects.get(pk=mysis.next_job)
    assert job.scheduled_at == mysis.wake_at
    return (job.scheduled_at or scheduling.read_clock()) - scheduling.read_clock()


def set_database_clock(by: timedelta) -> None:
    """Move all that the queue and the gate have stored: as if their clock were set."""
    with connection.cursor() as cursor:
        for column in (
            "procrastinate_jobs SET scheduled_at = scheduled_at",
            "procrastinate_events SET at = at",
            "procrastinate_workers SET last_heartbeat = last_heartbeat",
            "agents_mysis SET wake_at = wake_at",
            "agents_gamegate SET full_at = full_at",
        ):
            cursor.execute(
                f"UPDATE {column} - %s * interval '1 second'", [by.total_seconds()]
            )


# --- A worker's machine


@pytest.fixture(params=[HOUR, -HOUR], ids=["ahead", "behind"])
def off(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[timedelta]:
    """This process's clock is an hour off, unlike that of the database."""
    by: timedelta = request.param
    true: Callable[[], datetime] = timezone.now

    def now() -> datetime:
        return true() + by

    monkeypatch.setattr(timezone, "now", now)
    yield by


async def test_the_next_turn_comes_when_it_is_due_whatever_the_worker_s_clock_says(
    ada: Mysis, sandbox: SandboxServer, off: timedelta
):
    flown = await fly(ada, "start")
    assert flown.last_error == ""
    assert timedelta() < await in_db(read_wait)(flown) < SOON


async def test_a_failed_turn_is_paced_whatever_the_worker_s_clock_says(
    eve: Mysis, provider: FakeProvider, sandbox: SandboxServer, off: timedelta
):
    for _ in range(3):
        provider.refuse(502, "Bad gateway")
    for trigger in ("start", "retry", "retry"):
        flown = await fly(await refreshed(eve), trigger)
    assert flown.failures == 3
    assert timedelta(seconds=5) < await in_db(read_wait)(flown) < SOON


def test_who_waits_for_a_budget_comes_back_on_the_next_day_of_its_own_clock(
    ada: Mysis, off: timedelta
):
    """Else it would be tried again at once, and again, until that day begins."""
    wait = budgets.find_pause(ada.pk)
    then = timezone.now() + wait
    assert then.date() == timezone.now().date() + timedelta(days=1)
    assert then.hour == 0


# --- The database's machine


def wait_for_a_nudge(mysis: Mysis) -> Mysis:
    scheduling.schedule(mysis, trigger="nudge", at=scheduling.read_clock() + SOON)
    return mysis


async def test_a_clock_that_is_set_back_makes_nobody_wait_for_longer(
    ada: Mysis, clock: DatabaseClock
):
    due = await in_db(wait_for_a_nudge)(ada)
    await recovery.reconcile()
    await in_db(set_database_clock)(-HOUR)
    clock.note(
        await in_db(scheduling.read_clock)() + HOUR, asyncio.get_running_loop().time()
    )
    assert await in_db(read_wait)(await refreshed(ada)) > HOUR
    await recovery.reconcile()
    mended = await in_db(read_wait)(await refreshed(ada))
    assert SOON / 2 < mended <= SOON
    # Another worker sees the same, and it is mended.
    await in_db(clock_jumps.mend_waiting)()
    again = await in_db(read_wait)(await refreshed(ada))
    assert mended - timedelta(seconds=20) < again <= mended
    assert (await refreshed(ada)).next_job == due.next_job


async def test_what_is_to_wait_for_long_waits_for_long(ada: Mysis):
    """A provider may ask for a day: that is no sign of a clock."""
    at = await in_db(scheduling.read_clock)() + 20 * HOUR
    await in_db(scheduling.schedule)(ada, trigger="retry", at=at)
    await in_db(clock_jumps.mend_waiting)()
    assert (await refreshed(ada)).wake_at == at


def test_the_gate_of_the_game_does_not_stay_shut_for_the_hour(
    transactional_db: Any, settings: Settings
):
    settings.ZOEA_GAME_OPENINGS = 6
    while connect_limit.take_token("127.0.0.1") == 0:
        pass
    set_database_clock(-HOUR)
    assert connect_limit.take_token("127.0.0.1") > 1800
    clock_jumps.mend_waiting()
    assert connect_limit.take_token("127.0.0.1") <= 10


async def test_a_clock_that_is_set_forward_makes_nobody_seem_dead(
    ada: Mysis, clock: DatabaseClock, monkeypatch: pytest.MonkeyPatch
):
    """As after the sleep of a laptop: the heartbeats of all are an hour old."""
    doing = ProcrastinateJob.objects.filter(status="doing")
    await in_db(take_job)(ada)
    await recovery.reconcile()
    await in_db(set_database_clock)(HOUR)
    clock.note(
        await in_db(scheduling.read_clock)() - HOUR, asyncio.get_running_loop().time()
    )
    await recovery.reconcile()
    await recovery.reconcile()
    assert await in_db(doing.count)() == 1
    # Who sends none for as long as ever after it, is gone.
    monkeypatch.setattr(recovery, "STALLED_SECONDS", 0.0)
    await recovery.reconcile()
    assert await in_db(doing.count)() == 0


def take_job(mysis: Mysis) -> None:
    """Have a worker that sends heartbeats take the next job."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT worker_id FROM procrastinate_register_worker_v1()")
        (number,) = cursor.fetchone()
        cursor.execute(
            "UPDATE procrastinate_jobs SET status = 'doing', worker_id = %s WHERE id = %s",
            [number, mysis.next_job],
        )


def test_a_busy_machine_is_no_jump() -> None:
    clock = DatabaseClock()
    now = timezone.now()
    assert clock.note(now, 100.0) == 0
    assert clock.note(now + timedelta(seconds=6.5), 105.0) == 0
    assert clock.note(now + timedelta(seconds=6.5) - HOUR, 105.0) == pytest.approx(
        -3600
    )
    assert not clock.was_set_forward(105.0, within=17.0)
