"""Whoever looks at the pages; the game, and a model's provider."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from asgiref.sync import sync_to_async
from django.contrib.auth.models import User
from django.db import connections
from django.test import Client
from pytest_django import Settings

from agents.game import sessions
from sandbox.game.testing import SandboxServer
from tests.agents.runtime.workers import Workers
from tests.fakes.openai import FakeProvider


@pytest.fixture
def sign_in(db: None) -> Callable[..., Client]:
    """A client of somebody with a role."""

    def signed(role: str = "admin", **options: Any) -> Client:
        staff = role in ("admin", "operator")
        user = User.objects.create_user(
            role, is_staff=staff, is_superuser=role == "admin"
        )
        client = Client(**options)
        client.force_login(user)
        return client

    return signed


@pytest.fixture
def admin(sign_in: Callable[..., Client]) -> Client:
    """Somebody who may do everything."""
    return sign_in()


@pytest_asyncio.fixture
async def sandbox(settings: Settings) -> AsyncIterator[SandboxServer]:
    """A small game; ticks pass by `step` only."""
    with SandboxServer() as server:
        settings.SPACEMOLT_MCP_URL = server.url
        yield server
        # A server with open event streams waits a second before it cuts them.
        await sessions.get_pool().close()


@pytest.fixture
def provider() -> Iterator[FakeProvider]:
    """A strict fake of the OpenAI API."""
    with FakeProvider() as running:
        yield running


@pytest_asyncio.fixture
async def nothing_left_open() -> AsyncIterator[None]:
    """Close sessions with the game, and connections, in the loop that opened them."""
    yield
    await sessions.get_pool().close()
    await sync_to_async(connections.close_all)()


@pytest.fixture(scope="module")
def loaded_workers(
    django_db_setup: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Workers]:
    """The program of the workers, loaded once; they play a game of their own."""
    folder, tick = tmp_path_factory.mktemp("workers"), 0.5
    with SandboxServer(tick=tick) as game, Workers(folder, game.url, tick) as found:
        yield found


@pytest.fixture
def workers(
    transactional_db: None, loaded_workers: Workers, tmp_path: Path
) -> Iterator[Workers]:
    """Nobody yet; who has begun is killed before the tables are emptied."""
    loaded_workers.folder = tmp_path
    yield loaded_workers
    loaded_workers.kill_all()
