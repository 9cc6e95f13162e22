"""A real game over HTTP, a strict provider, and one way to fly a turn."""

from __future__ import annotations

from typing import Any

import pytest
from channels.db import database_sync_to_async

from agents import actions
from agents.models import Mysis, Provider
from agents.runtime.turn import take_turn
from bench.providers.openai import KEY, FakeProvider


@pytest.fixture(autouse=True)
def _leave_nothing(nothing_left_open: None) -> None:
    """Here every test may open something."""


@pytest.fixture
def ada(transactional_db: Any) -> Mysis:
    """A running Mysis on the scripted pilot."""
    mysis = actions.create_mysis(name="Ada", by="test")
    return actions.start_mysis(mysis=mysis, by="test")


@pytest.fixture
def eve(transactional_db: Any, provider: FakeProvider) -> Mysis:
    """A running Mysis on the strict provider."""
    row = Provider(name="strict", kind="openai", base_url=provider.url)
    row.api_key = KEY
    row.save()
    mysis = actions.create_mysis(name="Eve", model="strict:gpt-5-nano", by="test")
    return actions.start_mysis(mysis=mysis, by="test")


async def refreshed(mysis: Mysis) -> Mysis:
    """The row as it is now."""
    row: Mysis = await database_sync_to_async(Mysis.objects.get)(pk=mysis.pk)
    return row


async def fly(mysis: Mysis, trigger: str = "nudge") -> Mysis:
    """Take the turn that is due, as the worker would."""
    row = await refreshed(mysis)
    assert row.next_job is not None
    await take_turn(mysis.pk, job_id=row.next_job, trigger=trigger)
    return await refreshed(mysis)
