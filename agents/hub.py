"""One hub per web process: it listens once, reads once, and hands out to many.

The hub holds one connection that LISTENs for hints and reads the event log from its own
position on. Every viewer has a bounded queue; one that does not keep up must start again
from the log. Hints are lossy, the log is the truth: without any the hub polls each second.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import psycopg
from django.conf import settings

from agents import events
from agents.db import run_for_socket, run_in_db
from agents.events import CHANNEL, Item, Position, get_connection_parameters
from memory.redaction import sealed

POLL = 1.0
BATCH = 500
RECONNECT = 1.0

# Events that viewers are offered in one go.
AT_ONCE = 50

LONGEST_REST = 0.2
# Streams that read what they missed at the same time.
READING = 2
Row = tuple[Position, Item]
logger = logging.getLogger(__name__)


class ViewerOverflowError(Exception):
    """The viewer read too slowly; it must start again from its last event."""


@dataclass(eq=False)
class Viewer:
    """One reader of the stream: ``queue`` holds what came after ``position``.

    ``straight`` is a fast path: called while the viewer's queue is empty, it sends
    events without waking the task and returns how many.
    """

    position: Position
    maxsize: int
    queue: asyncio.Queue[Row] = field(init=False)
    overflowed: bool = False
    straight: Callable[[Sequence[Row]], int] | None = None
    waiting: bool = False

    def __post_init__(self) -> None:
        self.queue = asyncio.Queue(self.maxsize)

    def offer(self, rows: Sequence[Row]) -> None:
        """Take events, or note that there was no room."""
        if self.overflowed:
            return
        if self.waiting and self.queue.empty():
            rows = rows[self._take_straight(rows) :]
        try:
            for row in rows:
                self.queue.put_nowait(row)
        except asyncio.QueueFull:
            self.overflowed = True

    async def next(self) -> Row:
        """The next event; raises ViewerOverflowError when some were missed."""
        if self.overflowed and self.queue.empty():
            raise ViewerOverflowError
        self.waiting = True
        try:
            return await self.queue.get()
        finally:
            self.waiting = False

    def _take_straight(self, rows: Sequence[Row]) -> int:
        try:
            return self.straight(rows) if self.straight is not None else 0
        except Exception:
            # One viewer's fault is not to keep the events from the others.
            logger.exception("A viewer failed to take events at once.")
            return 0


class Hub:
    """Started by its first viewer, in that viewer's event loop."""

    def __init__(self) -> None:
        self._viewers: set[Viewer] = set()
        self._task: asyncio.Task[None] | None = None
        self._begin_loop()
        self._position = events.START
        # Seconds from the writing of the newest event until it was handed on.
        self.delay = 0.0

    async def subscribe(self, maxsize: int = 1000) -> Viewer:
        """Join the stream from its present position on."""
        task = self._task
        loop = asyncio.get_running_loop()
        if task is None or task.done() or task.get_loop() is not loop:
            self._begin_loop()
            self._viewers.clear()
            self._task = asyncio.create_task(self._run(), name="event-hub")
        await self._ready.wait()
        viewer = Viewer(self._position, maxsize)
        self._viewers.add(viewer)
        return viewer

    def _begin_loop(self) -> None:
        self._ready = asyncio.Event()
        self.reading = asyncio.Semaphore(READING)
        self._resting = asyncio.Lock()

    async def rest(self) -> None:
        """Let all else have its turn; of the streams that come here one goes on at a time."""
        async with self._resting:
            await asyncio.sleep(0)

    @property
    def viewers(self) -> int:
        """How many read along now."""
        return len(self._viewers)

    def unsubscribe(self, viewer: Viewer) -> None:
        self._viewers.discard(viewer)

    async def close(self) -> None:
        """Stop listening, as at the end of the process."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _run(self) -> None:
        while True:
            try:
                await self._follow()
            except (psycopg.Error, OSError) as error:
                logger.warning("Event hub lost the database, trying again: %s", error)
            except Exception:
                logger.exception("Event hub failed, trying again.")
            await asyncio.sleep(RECONNECT)

    async def _follow(self) -> None:
        database = await psycopg.AsyncConnection.connect(
            **get_connection_parameters(), autocommit=True
        )
        async with database:
            if not settings.ZOEA_PGBOUNCER:
                await database.execute(f"LISTEN {CHANNEL}")
            await database.execute(events.SETTLE_FOREIGN)
            if not self._ready.is_set():
                cursor = await database.execute(events.NEWEST)
                row = await cursor.fetchone()
                self._position = Position(*row) if row else events.START
                self._ready.set()
            while True:
                await self._drain(database)
                async for _ in database.notifies(timeout=POLL, stop_after=1):
                    pass

    async def _drain(self, database: psycopg.AsyncConnection[Any]) -> None:
        while True:
            values = events.build_read_parameters(self._position, None, (), BATCH)
            cursor = await database.execute(events.READ, values)
            found = await cursor.fetchall()
            if found and sealed.is_due:
                await run_in_db(sealed.read)
            rows = [events.make_item(row) for row in found]
            for start in range(0, len(rows), AT_ONCE):
                await self._offer(rows[start : start + AT_ONCE])
            if len(rows) < BATCH:
                return

    async def _offer(self, rows: Sequence[Row]) -> None:
        begun = time.monotonic()
        self._position, newest = rows[-1]
        written = datetime.fromisoformat(newest["at"])
        self.delay = max(0.0, (datetime.now(UTC) - written).total_seconds())
        for viewer in tuple(self._viewers):
            viewer.offer(rows)
        # As long as that took, all else of this loop has its turn. Where it took long,
        # events gather meanwhile, and several in one go cost hardly more than one.
        await asyncio.sleep(min(time.monotonic() - begun, LONGEST_REST))


hub = Hub()


@dataclass
class Sockets:
    """The WebSockets of this process by kind, and event streams by caller."""

    open: Counter[str] = field(default_factory=Counter)
    streams: Counter[str] = field(default_factory=Counter)
    dropped: int = 0


sockets = Sockets()


async def stream_after(
    after: int,
    viewer: Viewer,
    *,
    mysis_id: int | None = None,
    kinds: frozenset[str] = frozenset(),
    straight: Callable[[Sequence[Item]], int] | None = None,
) -> AsyncIterator[Item]:
    """Everything after the event ``after``, then live; no gap, no repeat.

    ``viewer`` must have been subscribed before: the log is read up to its position, the
    queue holds the rest. What ``straight`` takes, while this waits for the next event,
    does not come out of it. Raises ViewerOverflowError when its consumer was too slow.
    """
    start = await run_for_socket(events.find_position, after)

    def done(rows: Sequence[Row]) -> int:
        asked = [
            (number, item)
            for number, (place, item) in enumerate(rows)
            if place > start and passes_filter(item, mysis_id, kinds)
        ]
        taken = straight([item for _, item in asked]) if straight and asked else 0
        return asked[taken][0] if taken < len(asked) else len(rows)

    viewer.straight = done
    async for item in _backlog(start, viewer.position, mysis_id, kinds):
        yield item
    while True:
        place, item = await viewer.next()
        # A client may come from another web process that was a little ahead.
        if place > start and passes_filter(item, mysis_id, kinds):
            yield item


async def _backlog(
    position: Position, end: Position, mysis_id: int | None, kinds: frozenset[str]
) -> AsyncIterator[Item]:
    while position < end:
        async with hub.reading:
            rows = await run_for_socket(
                events.read_from, position, mysis_id=mysis_id, kinds=kinds, limit=BATCH
            )
        for position, item in rows:
            if position > end:
                return
            yield item
        if len(rows) < BATCH:
            return


def passes_filter(item: Item, mysis_id: int | None, kinds: frozenset[str]) -> bool:
    """Whether an event passes the filters of a viewer."""
    if mysis_id is not None and item["mysis"] != mysis_id:
        return False
    return not kinds or item["kind"] in kinds
