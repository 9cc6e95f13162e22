"""A stop reaches a turn whatever else its worker is busy with."""

from __future__ import annotations

import asyncio
import threading

from asgiref.sync import ThreadSensitiveContext, sync_to_async
from channels.db import database_sync_to_async

from agents import actions
from agents.db import run_in_db
from agents.models import Mysis
from agents.runtime import turn_rows
from agents.runtime.cancellation import TurnCanceller

FAR = 60.0


async def test_the_look_waits_for_no_turns_database_work(ada: Mysis):
    """Nor for what shares the thread of the event loop, such as upkeep."""
    watch, busy = TurnCanceller(), threading.Event()
    blocked = asyncio.ensure_future(sync_to_async(busy.wait)(FAR * 2))

    async def turn() -> bool:
        async with ThreadSensitiveContext():
            begun = await run_in_db(
                turn_rows.begin_turn, ada.pk, job_id=ada.next_job or 0, trigger=""
            )
            assert begun is not None
            with watch.guard(begun) as guarded:
                working = asyncio.ensure_future(run_in_db(busy.wait, FAR * 2))
                await step_elsewhere()
                try:
                    await asyncio.wait_for(asyncio.shield(working), FAR)
                except (asyncio.CancelledError, TimeoutError):
                    return guarded.voided
                finally:
                    busy.set()
                    await working
        return False

    async def step_elsewhere() -> None:
        stop = database_sync_to_async(actions.stop_mysis, thread_sensitive=False)
        await stop(mysis=ada, by="test")

    assert await asyncio.create_task(turn())
    await blocked
