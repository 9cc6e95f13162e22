"""Aborts turns that have become void: stop wins within a second.

A turn is void once its Mysis was stopped or started anew, and once somebody else
took it up because this worker had seemed dead.

One look per interval covers all the turns of this worker.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from asgiref.sync import ThreadSensitiveContext
from channels.db import database_sync_to_async
from django.db import Error
from django.db.models import F

from agents.models import Mysis, Turn
from agents.runtime.turn_rows import TurnHandle

INTERVAL = 0.4

logger = logging.getLogger(__name__)


@dataclass(eq=False)
class Guarded:
    """One turn in flight; ``voided`` tells a stop from a shutdown."""

    begun: TurnHandle
    task: asyncio.Task[object]
    voided: bool = False


@dataclass
class TurnCanceller:
    """The turns of this process, looked after while there are any."""

    turns: set[Guarded] = field(default_factory=set)
    _task: asyncio.Task[None] | None = None

    @contextmanager
    def guard(self, begun: TurnHandle) -> Iterator[Guarded]:
        """Cancel the calling task once its turn is void."""
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a turn runs in a task")
        guarded = Guarded(begun, task)
        self.turns.add(guarded)
        if self._task is None or self._task.done():
            # A fresh context: in the turn's own the look would wait for its steps.
            self._task = asyncio.get_running_loop().create_task(
                self._watch(), name="stop-watch", context=contextvars.Context()
            )
        try:
            yield guarded
        finally:
            self.release(guarded)

    def release(self, guarded: Guarded) -> None:
        """Let a turn write its end: a turn that has ended looks like a void one."""
        self.turns.discard(guarded)

    async def _watch(self) -> None:
        # A thread of its own: the shared one may be busy with upkeep.
        async with ThreadSensitiveContext():
            while self.turns:
                await asyncio.sleep(INTERVAL)
                await self._look()

    async def _look(self) -> None:
        looked_at = list(self.turns)
        try:
            alive = await database_sync_to_async(_alive)(
                [turn.begun.turn_id for turn in looked_at]
            )
        except Error as error:
            logger.warning("Cannot look for stopped Myses: %s", error)
            return
        for turn in looked_at:
            gone = turn.begun.turn_id not in alive
            if turn in self.turns and not turn.voided and gone:
                turn.voided = True
                turn.task.cancel()


def _alive(ids: list[int]) -> set[int]:
    """Of these turns the ones that may go on, as ``records.going_on`` has it."""
    going_on = Turn.objects.filter(
        pk__in=ids,
        outcome__isnull=True,
        epoch=F("mysis__epoch"),
        mysis__state=Mysis.State.RUNNING,
    )
    return set(going_on.values_list("pk", flat=True))


watch = TurnCanceller()
