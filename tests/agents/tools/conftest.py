"""A real sandbox over HTTP, and Myses that play there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from pytest_django import Settings

from agents.models import Mysis
from agents.tools import transport
from tests.agents.game.faulty import FaultyServer
from tests.factories import make_mysis


@pytest_asyncio.fixture
async def faulty(settings: Settings) -> AsyncIterator[FaultyServer]:
    """A server that fails as told."""
    async with FaultyServer() as server:
        settings.SPACEMOLT_MCP_URL = server.url
        yield server


@pytest.fixture(autouse=True)
def _leave_nothing(nothing_left_open: None) -> None:
    """Here every test may open something."""


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Repetitions follow at once."""
    monkeypatch.setattr(transport, "PAUSES", (0.0, 0.0))


@pytest.fixture
def mysis(transactional_db: Any) -> Mysis:
    """Ada, who has no account yet."""
    return make_mysis(name="Ada")


@pytest.fixture
def other(transactional_db: Any) -> Mysis:
    """Bob, who has none either."""
    return make_mysis(name="Bob")
