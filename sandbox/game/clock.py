"""Lets the ticks pass."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


async def run_clock(seconds: float, on_tick: Callable[[], None]) -> None:
    """Call `on_tick` every so many seconds, until cancelled.

    The beat does not drift; ticks missed while the machine was busy or asleep are
    left out instead of being made up for in a burst.
    """
    loop = asyncio.get_running_loop()
    due = loop.time() + seconds
    while True:
        await asyncio.sleep(due - loop.time())
        on_tick()
        due = max(due + seconds, loop.time())
