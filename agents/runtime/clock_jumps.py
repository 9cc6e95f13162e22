"""The database's clock, when somebody sets it, or its machine slept.

The queue says when a turn is due, the game's gate when it opens, and heartbeats who
lives, all by that clock. A process tells a jump by its own steady clock. After one back,
what was to wait for seconds would wait for the time of the jump too; after one forward,
everybody's heartbeat seems old.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction

from agents import scheduling
from agents.alerts import outbox
from agents.db import run_in_db
from agents.game import connect_limit
from memory.models import fetch_rows

# Seconds that clocks part by themselves, or that a busy machine takes for an answer.
SMALL = 2.0

# What waits was made at a moment that is yet to come. Who is second finds it mended.
MEND_WAITING = """
WITH early AS (
  SELECT event.id AS event_id, job.id, job.scheduled_at - event.at AS wait
  FROM procrastinate_events AS event JOIN procrastinate_jobs AS job ON job.id = event.job_id
  WHERE event.type = 'deferred' AND event.at > now() + interval '1 second'
    AND job.status = 'todo' AND job.task_name = %(task)s AND job.scheduled_at > now()
  FOR UPDATE
), made AS (
  UPDATE procrastinate_events AS event SET at = now() FROM early
  WHERE event.id = early.event_id AND event.type = 'deferred'
), moved AS (
  UPDATE procrastinate_jobs AS job SET scheduled_at = now() + early.wait FROM early
  WHERE job.id = early.id RETURNING job.id, job.scheduled_at
)
UPDATE agents_mysis AS mysis SET wake_at = moved.scheduled_at FROM moved
WHERE mysis.next_job = moved.id RETURNING mysis.id
"""

logger = logging.getLogger(__name__)


@dataclass
class DatabaseClock:
    """What this process knows of the clock; ``steady`` is in seconds of its own."""

    _ahead: float | None = None
    _set_forward: float | None = None

    def note(self, now: datetime, steady: float) -> float:
        """Take a reading; the seconds by which the clock was set since the last one."""
        ahead = now.timestamp() - steady
        jump = 0.0 if self._ahead is None else ahead - self._ahead
        self._ahead = ahead
        if abs(jump) < SMALL:
            return 0.0
        if jump > 0:
            self._set_forward = steady
        return jump

    def was_set_forward(self, steady: float, within: float) -> bool:
        """Whether it was set forward in the last seconds."""
        since = self._set_forward
        return since is not None and steady - since < within


database_clock = DatabaseClock()


async def watch_clock() -> None:
    """Take a reading, and mend what waits where the clock was set back."""
    now = await run_in_db(scheduling.read_clock)
    jump = database_clock.note(now, asyncio.get_running_loop().time())
    if jump:
        logger.warning(
            "The database's clock was set %s by %s.",
            "forward" if jump > 0 else "back",
            timedelta(seconds=round(abs(jump))),
        )
    if jump < 0:
        await run_in_db(mend_waiting)


@transaction.atomic
def mend_waiting() -> None:
    """Let everything wait as long as it was to, from now on at most."""
    fetch_rows(MEND_WAITING, {"task": scheduling.TURN_TASK})
    connect_limit.open_gates()
    outbox.shorten_pauses()
