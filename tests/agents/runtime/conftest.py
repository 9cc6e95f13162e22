"""A real game over HTTP, a strict provider, and one way to fly a turn."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import pytest_asyncio
from asgiref.sync import sync_to_async
from channels.db import database_sync_to_async
from django.db import connections
from pytest_django import Settings

from agents import actions
from agents.game import sessions
from agents.models import Mysis, Provider
from agents.runtime.turn import take_turn
from sandbox.game.testing import SandboxServer
from tests.agents.llm.fake_provider import KEY, FakeProvider


@pytest_asyncio.fixture
async def sandbox(settings: Settings) -> AsyncIterator[SandboxServer]:
    """A small game; ticks pass by `step` only."""
    with SandboxServer() as server:
        settings.SPACEMOLT_MCP_URL = server.url
        yield server
        # A server with open event streams waits a second before it cuts them.
        await sessions.close_all()


@pytest.fixture
def provider() -> Iterator[FakeProvider]:
    """A strict fake of the OpenAI API."""
    with FakeProvider() as running:
        yield running


@pytest_asyncio.fixture(autouse=True)
async def _leave_nothing() -> AsyncIterator[None]:
    yield
    await sessions.close_all()
    await sync_to_async(connections.close_all)()


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
