"""Aborts turns whose Mysis was stopped: stop wins within a second.

One look per interval covers all the turns of this worker.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from channels.db import database_sync_to_async
from django.db import Error

from agents.models import Mysis

from .records import Begun

INTERVAL = 0.4

logger = logging.getLogger(__name__)


@dataclass(eq=False)
class Guarded:
    """One turn in flight; ``voided`` tells a stop from a shutdown."""

    begun: Begun
    task: asyncio.Task[object]
    voided: bool = False


@dataclass
class StopWatch:
    """The turns of this process, looked after while there are any."""

    turns: set[Guarded] = field(default_factory=set)
    _task: asyncio.Task[None] | None = None

    @contextmanager
    def guard(self, begun: Begun) -> Iterator[Guarded]:
        """Cancel the calling task once its turn is void."""
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a turn runs in a task")
        guarded = Guarded(begun, task)
        self.turns.add(guarded)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._watch(), name="stop-watch")
        try:
            yield guarded
        finally:
            self.turns.discard(guarded)

    async def _watch(self) -> None:
        while self.turns:
            await asyncio.sleep(INTERVAL)
            looked_at = list(self.turns)
            try:
                alive = await database_sync_to_async(_alive)(
                    [turn.begun.mysis_id for turn in looked_at]
                )
            except Error as error:
                logger.warning("Cannot look for stopped Myses: %s", error)
                continue
            for turn in looked_at:
                now = alive.get(turn.begun.mysis_id)
                if turn in self.turns and not turn.voided and now != turn.begun.epoch:
                    turn.voided = True
                    turn.task.cancel()


def _alive(ids: list[int]) -> dict[int, int]:
    running = Mysis.objects.filter(pk__in=ids, state=Mysis.State.RUNNING)
    return dict(running.values_list("pk", "epoch"))


watch = StopWatch()
