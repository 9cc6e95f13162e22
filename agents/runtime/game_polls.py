"""What the program asks the game beside the turns: events of those that wait, the map.

A flight or a back-off lasts minutes. The game keeps a hundred events for a session, and
pages show the state meanwhile. Only sessions that this process has open are used: the
game lets few be opened.
"""

from __future__ import annotations

import asyncio
import contextvars
import json
import logging
from collections.abc import Collection
from datetime import timedelta

from django.conf import settings
from django.db.models import Exists, OuterRef
from django.utils import timezone

from agents.db import run_in_db
from agents.game.client import GameCallError
from agents.game.sessions import get_pool
from agents.models import Mysis, Turn
from agents.runtime.catch_up import drain_events
from agents.tools.chain import open_toolbox
from agents.tools.request import Outcome, route_command
from memory.gamestate.values import find_first, parse_text, unwrap_content
from memory.models import GameSnapshot
from memory.snapshots.reads import fetches_events

# The game answers one poll a tick; a page needs none as often as that.
POLL_TICKS = 3
# A game that does not answer keeps the polls of others waiting no longer.
POLL_SECONDS = 20.0
# How many are asked for at the same time.
MOST_AT_ONCE = 8

MAP = "get_map"
# Whose snapshot the program's own map is: of no account, so no Mysis is shown it.
NOBODY = ""
MAP_LASTS = timedelta(days=1)
# Seconds between two looks at the age of the map, and after a game that gave none.
MAP_PAUSE = 60.0
MAP_PAUSE_AFTER_FAILURE = 600.0

logger = logging.getLogger(__name__)


class EventPolls:
    """The polls of one process: one round at a time, beside its turns."""

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None
        self._asked: dict[int, float] = {}
        self._map_due = 0.0

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
        try:
            await self.fetch_map()
        except Exception:
            logger.exception("The map was not asked for.")

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

    async def fetch_map(self) -> int | None:
        """Ask for the map where it is missing or old; whose session did it, else None."""
        now = asyncio.get_running_loop().time()
        open_now = get_pool().list_open() if settings.ZOEA_FETCH_MAP else []
        if not open_now or now < self._map_due:
            return None
        self._map_due = now + MAP_PAUSE
        asker: int | None = await run_in_db(_find_map_asker, open_now)
        if asker is None:
            return None
        self._map_due = now + MAP_PAUSE_AFTER_FAILURE
        content = await _ask_for_map(asker)
        if content is None:
            return None
        await run_in_db(_store_map, content)
        self._map_due = now + MAP_PAUSE
        return asker


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


def _find_map_asker(among: Collection[int]) -> int | None:
    """Who asks for the map, best one between two turns; None while there is a new one."""
    since = timezone.now() - MAP_LASTS
    known = GameSnapshot.objects.filter(tool_name=MAP, args_key="")
    if known.filter(captured_at__gte=since).exists():
        return None
    turns = Turn.objects.filter(mysis=OuterRef("pk"), outcome__isnull=True)
    rows = Mysis.objects.filter(pk__in=among, account__isnull=False)
    asker: int | None = (
        rows.order_by(Exists(turns), "pk").values_list("pk", flat=True).first()
    )
    return asker


async def _ask_for_map(mysis_id: int) -> str | None:
    """The map as the game tells it; None where it has none, or does not answer."""
    try:
        async with asyncio.timeout(POLL_SECONDS):
            toolbox = await open_toolbox(mysis_id)
            route = route_command(MAP, toolbox.tools)
            if route is None or get_pool().find_wait(mysis_id, MAP) > 0:
                return None
            toolbox.polls = True
            # As a mere question: as a snapshot it would stand in this Mysis's context.
            toolbox.policies = {**toolbox.policies, MAP: "query"}
            result = await toolbox.call(route.tool, json.dumps(dict(route.arguments)))
    except GameCallError as error:
        logger.debug("No map by Mysis %s: %s", mysis_id, error.detail)
        return None
    except TimeoutError:
        logger.info("The game did not answer when it was asked for its map.")
        return None
    return _read_map(result)


def _read_map(result: Outcome) -> str | None:
    told = unwrap_content(parse_text(result.text))
    told = told if result.structured is None else dict(result.structured)
    systems = find_first(told, "systems") if isinstance(told, dict) else None
    if result.is_error or not isinstance(systems, list) or not systems:
        return None
    return json.dumps({"systems": systems}, ensure_ascii=False)


def _store_map(content: str) -> None:
    told = {"content": content, "captured_at": timezone.now()}
    GameSnapshot.objects.update_or_create(
        username=NOBODY, tool_name=MAP, args_key="", defaults=told
    )


event_polls = EventPolls()
