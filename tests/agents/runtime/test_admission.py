"""Turns for which the game has no session yet come later, and nothing is lost."""

from __future__ import annotations

from datetime import timedelta

import pytest
from channels.db import database_sync_to_async as in_db
from django.utils import timezone
from pytest_django import Settings

from agents import actions
from agents.game import connect_limit
from agents.models import GameGate, Mysis, Turn
from agents.runtime.recovery import SPREAD_SECONDS, admit
from sandbox.game.testing import SandboxServer
from tests.agents.runtime.conftest import fly, refreshed


@pytest.fixture
def full(sandbox: SandboxServer, settings: Settings, transactional_db: None) -> None:
    """A gate through which as many went as may."""
    settings.ZOEA_GAME_OPENINGS = 6
    while connect_limit.take_token("127.0.0.1") == 0:
        pass


async def due(mysis: Mysis) -> bool:
    """What a worker does with the job that is due: whether it takes the turn."""
    row = await refreshed(mysis)
    assert row.next_job is not None
    return await admit(mysis.pk, job_id=row.next_job, trigger="start")


async def test_a_turn_is_put_off_without_a_failure(ada: Mysis, full: None) -> None:
    before = timezone.now()
    assert not await due(ada)
    row = await refreshed(ada)
    assert row.next_job not in (None, ada.next_job)
    assert (row.state, row.failures, row.last_error) == ("running", 0, "")
    assert row.activity == "waiting for a session with the game"
    assert row.wake_at is not None
    wait = row.wake_at - before
    assert timedelta(seconds=8) < wait < timedelta(seconds=12 + SPREAD_SECONDS)
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
    assert not await admit(ada.pk, job_id=ada.next_job, trigger="start")
    row = await refreshed(ada)
    assert (row.state, row.next_job) == ("stopped", None)
