"""The way from the event loop into the database and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from channels.db import database_sync_to_async

P = ParamSpec("P")
T = TypeVar("T")


async def run_in_db(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run database work in a thread; its connection goes back to the pool after.

    A plain ``sync_to_async`` would keep it through the whole turn, also while a
    call waits minutes for the game.
    """
    result: T = await database_sync_to_async(work)(*args, **kwargs)
    return result
