"""The way from the event loop into the database."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from channels.db import database_sync_to_async

T = TypeVar("T")


async def step(work: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """One crossing into the database; the connection goes back to the pool."""
    result: T = await database_sync_to_async(work)(*args, **kwargs)
    return result
