"""Cancel superseded turns, so that a stop takes effect within a second.

A turn is superseded once its Mysis was stopped or started anew, and once another worker
took it up because this one had seemed dead. One query per interval covers all the turns
of this worker.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from django.db import Error

from agents import statements
from agents.db import run_in_db
from agents.runtime.turn_rows import TurnHandle
from memory.models import fetch_rows

INTERVAL = 0.4
logger = logging.getLogger(__name__)


@dataclass(eq=False)
class Guarded:
    """A turn under way; ``voided`` tells a stop from a shutdown."""

    handle: TurnHandle
    task: asyncio.Task[object]
    voided: bool = False


@dataclass
class TurnCanceller:
    """Watches the turns of this process while there are any."""

    turns: set[Guarded] = field(default_factory=set)
    _task: asyncio.Task[None] | None = None

    @contextmanager
    def guard(self, handle: TurnHandle) -> Iterator[Guarded]:
        """Cancel the calling task once its turn is superseded."""
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a turn runs in a task")
        guarded = Guarded(handle, task)
        self.turns.add(guarded)
        if self._task is None or self._task.done():
            # A fresh context: it outlives the turn that happened to start it.
            self._task = asyncio.get_running_loop().create_task(
                self._watch(), name="stop-watch", context=contextvars.Context()
            )
        try:
            yield guarded
        finally:
            self.release(guarded)

    def release(self, guarded: Guarded) -> None:
        """Stop watching a turn that writes its end: it would look superseded."""
        self.turns.discard(guarded)

    async def _watch(self) -> None:
        while self.turns:
            await asyncio.sleep(INTERVAL)
            await self._cancel_superseded()

    async def _cancel_superseded(self) -> None:
        looked_at = list(self.turns)
        try:
            alive = await run_in_db(_alive, [one.handle.turn_id for one in looked_at])
        except Error as error:
            logger.warning("Cannot look for stopped Myses: %s", error)
            return
        for one in looked_at:
            gone = one.handle.turn_id not in alive
            if one in self.turns and not one.voided and gone:
                one.voided = True
                one.task.cancel()


def _alive(ids: list[int]) -> set[int]:
    """Those of these turns that may go on, as `statements.LOCK_FOR_TURN` has it."""
    return {pk for (pk,) in fetch_rows(statements.TURNS_GOING_ON, [ids], prepare=True)}


canceller = TurnCanceller()
