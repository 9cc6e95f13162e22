"""Ask for the game's events while a Mysis waits for its next turn.

A flight or a back-off lasts minutes. The game keeps a hundred events for a session, and
pages show the state meanwhile. Only sessions that this process has open are used: the
game lets few be opened.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Collection
from datetime import timedelta

from django.conf import settings
from django.utils import timezone

from agents.db import run_in_db
from agents.game.client import GameCallError
from agents.game.sessions import get_pool
from agents.models import Mysis
from agents.runtime.catch_up import drain_events
from agents.tools.chain import open_toolbox
from memory.snapshots.reads import fetches_events

# The game answers one poll a tick; a page needs none as often as that.
POLL_TICKS = 3
# A game that does not answer keeps the polls of others waiting no longer.
POLL_SECONDS = 20.0
# How many are asked for at the same time.
MOST_AT_ONCE = 8

logger = logging.getLogger(__name__)


class EventPolls:
    """The polls of one process: one round at a time, beside its turns."""

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None
        self._asked: dict[int, float] = {}

    def begin_round(self) -> None:
        """Poll for those that wait now, unless a round is under way."""
        if self._task is None or self._task.done():
            loop = asyncio.get_running_loop()
            self._task = loop.create_task(
                self._run(), name="event polls", context=contextvars.Context()
            )

    async def _run(self) -> None:
        try:
            await self.poll()
        except Exception:
            logger.exception("The events of waiting Myses were not asked for.")

    async def poll(self) -> list[int]:
        """Ask for the events of those whose poll is due; returns their ids."""
        now = asyncio.get_running_loop().time()
        pause = POLL_TICKS * settings.ZOEA_SECONDS_PER_TICK
        recent = {one: at for one, at in self._asked.items() if now - at < pause}
        self._asked = recent
        open_now = set(get_pool().list_open()) - recent.keys()
        due: list[int] = await run_in_db(_find_waiting, open_now) if open_now else []
        self._asked |= dict.fromkeys(due, now)
        limit = asyncio.Semaphore(MOST_AT_ONCE)
        await asyncio.gather(*(_poll_one(one, limit) for one in due))
        return due


async def _poll_one(mysis_id: int, limit: asyncio.Semaphore) -> None:
    async with limit:
        try:
            async with asyncio.timeout(POLL_SECONDS):
                toolbox = await open_toolbox(mysis_id)
                toolbox.polls = True
                await drain_events(toolbox)
        except GameCallError as error:
            logger.debug("No events of Mysis %s: %s", mysis_id, error.detail)
        except TimeoutError:
            logger.info("The game did not answer a poll of Mysis %s.", mysis_id)


def _find_waiting(among: Collection[int]) -> list[int]:
    """The Myses that wait longer than a tick, and whose events the program fetches."""
    tick = timedelta(seconds=settings.ZOEA_SECONDS_PER_TICK)
    rows = Mysis.objects.filter(
        pk__in=among,
        state=Mysis.State.RUNNING,
        account__isnull=False,
        wake_at__gt=timezone.now() + tick,
    )
    waiting = rows.exclude(turns__outcome__isnull=True).select_related("policy")
    found = list(waiting.order_by("pk"))
    Mysis.share_fleet_policy(found)
    return [
        mysis.pk for mysis in found if fetches_events(mysis.effective_policy.options)
    ]


event_polls = EventPolls()
