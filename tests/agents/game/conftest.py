"""Sessions are closed in the loop that opened them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from agents.game import sessions


@pytest_asyncio.fixture(autouse=True)
async def _close_sessions() -> AsyncIterator[None]:
    yield
    await sessions.get_pool().close()
