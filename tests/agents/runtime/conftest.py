"""A real game over HTTP, a strict provider, and one way to fly a turn."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import pytest_asyncio
from channels.db import database_sync_to_async
from pytest_django import Settings

from agents import actions
from agents.game import sessions
from agents.models import Mysis
from agents.runtime.turn import take_turn
from memory.models import ContextPolicy
from sandbox.game.testing import SandboxServer
from tests.factories import make_memory, make_provider
from tests.fakes.openai import KEY, FakeProvider, Json, Reply

ORDER = "Sell 40 units of ore_iron at Earth Station, never below 7."
# A summary of it that nothing is lost in.
GOOD = (
    "<summary>1. Goals/Intent\nSell 40 of ore_iron, never below 7, at Earth "
    "Station.\n7. Immediate next step\nDock.</summary>"
)


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
    make_provider(name="strict", kind="openai", base_url=provider.url, key=KEY)
    mysis = actions.create_mysis(name="Eve", model="strict:gpt-5-nano", by="test")
    return actions.start_mysis(mysis=mysis, by="test")


@pytest.fixture
def worn(eve: Mysis, sandbox: SandboxServer) -> Mysis:
    """Eve, worn."""
    wear(eve)
    return eve


def wear(mysis: Mysis) -> None:
    """Give it a long history and a policy that summarises soon."""
    options = {"threshold": 500, "keep_recent": 2, "max_summary_tokens": 300}
    mysis.policy = ContextPolicy.objects.create(
        name="soon", strategy="summary", options=options
    )
    mysis.max_iterations = 2
    mysis.save()
    make_memory(mysis, content=ORDER)
    for number in range(20):
        make_memory(mysis, role="assistant", content=f"Step {number}. " + "word " * 60)


@pytest_asyncio.fixture
async def grouped(settings: Settings) -> AsyncIterator[SandboxServer]:
    """A game of API v2 at the address of v1: only its own words tell the version."""
    with SandboxServer(era="v2", tick=0.05) as server:
        settings.SPACEMOLT_MCP_URL = server.url
        settings.ZOEA_SECONDS_PER_TICK = 0.05
        yield server
        await sessions.get_pool().close()


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


@asynccontextmanager
async def in_mid_call(
    mysis: Mysis, provider: FakeProvider, answer: Json
) -> AsyncIterator[None]:
    """Take the turn that is due; its first call is answered when the block ends."""
    gate = threading.Event()
    provider.arrived.clear()
    provider.answers.append(Reply(body=answer, wait=gate))
    flight = asyncio.create_task(fly(mysis))
    assert await asyncio.to_thread(provider.arrived.wait, 20)
    try:
        yield
    finally:
        gate.set()
        await flight
