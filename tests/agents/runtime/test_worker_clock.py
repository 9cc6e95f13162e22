"""Turns of a worker whose machine has a clock that is an hour off."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta

import pytest
from django.utils import timezone
from procrastinate.contrib.django.models import ProcrastinateJob

from agents import budgets, scheduling
from agents.models import Mysis
from sandbox.game.testing import SandboxServer
from tests.agents.runtime.conftest import fly, refreshed
from tests.agents.runtime.logs import in_db
from tests.fakes.openai import FakeProvider

HOUR = timedelta(hours=1)
SOON = timedelta(seconds=60)


def read_wait(mysis: Mysis) -> timedelta:
    """How long the next turn of a Mysis has to wait for its time, by the queue's clock."""
    job = ProcrastinateJob.objects.get(pk=mysis.next_job)
    assert job.scheduled_at == mysis.wake_at
    return (job.scheduled_at or scheduling.read_clock()) - scheduling.read_clock()


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
    ada: Mysis, off: timedelta, monkeypatch: pytest.MonkeyPatch
):
    """Else it would be tried again at once, and again, until that day begins."""
    now = timezone.now()
    monkeypatch.setattr(timezone, "now", lambda: now)
    then = now + budgets.find_pause(ada.pk)
    assert then.date() == now.date() + timedelta(days=1)
    assert then.hour == 0
