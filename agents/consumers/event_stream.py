"""``/ws/v1/events``: the event log to programs, as JSON, with nothing missing.

On connect everything after the cursor, in order, then live. Each item carries
its id, so a client that comes back with the last one it saw goes on there.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qs

from channels.generic.websocket import AsyncWebsocketConsumer

from agents.dashboard.shared_results import Keyed
from agents.db import run_for_socket
from agents.events import Item, Kind, find_mysis_number
from agents.hub import ViewerOverflowError, hub, sockets, stream_after
from memory.handles import parse_id

SIGNED_OUT = 4401
BAD_REQUEST = 4400
TOO_MANY = 4429
TOO_SLOW = 1013
FAILED = 1011

KEPT_TEXTS = 2_000
MOST_AT_ONCE = 64 * 1024
# Streams that one caller has open at the same time.
MOST_OF_ONE = 20

logger = logging.getLogger(__name__)


class StreamRequestError(Exception):
    """A parameter of the socket that cannot be used; the text says why."""


class TooSlowError(Exception):
    """The client does not read."""


@dataclass(frozen=True, slots=True)
class StreamRequest:
    """What a client asked for: events after ``after`` that pass the filters."""

    after: int = 0
    mysis_id: int | None = None
    kinds: frozenset[str] = frozenset()


def read_stream_request(query: str) -> StreamRequest:
    """Read the query string; one query for a name. Raises StreamRequestError."""
    found = parse_qs(query, keep_blank_values=True)
    given = {key: values[-1] for key, values in found.items()}
    after = given.get("after", "0").strip()
    number, mysis = parse_id(after), None
    if number is None:
        raise StreamRequestError(f"after: {after[:30]!r} is not an event id.")
    if "mysis" in given:
        mysis = find_mysis_number(given["mysis"])
        if mysis is None:
            raise StreamRequestError(
                f"mysis: there is no Mysis {given['mysis'][:40]!r}."
            )
    return StreamRequest(number, mysis, _kinds(given.get("kind", "")))


def _kinds(text: str) -> frozenset[str]:
    kinds = frozenset(filter(None, (part.strip() for part in text.split(","))))
    unknown = sorted(kinds - {str(kind) for kind in Kind})
    if unknown:
        raise StreamRequestError(f"kind: there is no kind {unknown[0][:40]!r}.")
    return kinds


def write_text(item: Item) -> str:
    """An event as JSON, made once for all the clients of a process."""
    return _write_text(Keyed((item["id"], item["at"]), item))


@lru_cache(maxsize=KEPT_TEXTS)
def _write_text(item: Keyed[Item]) -> str:
    return json.dumps(item.value, ensure_ascii=False, separators=(",", ":"))


class EventStream(AsyncWebsocketConsumer):  # type: ignore[misc]
    """One program that follows the event log; what it sends is ignored."""

    task: asyncio.Task[None] | None = None
    # The last event that was sent.
    after: int
    # Characters that were sent since anything else had its turn.
    unrested = 0

    async def connect(self) -> None:
        """Accept, then judge: a program sees why in the close code and reason."""
        await self.accept()
        if self.scope.get("caller") is None:
            await self.close(code=SIGNED_OUT, reason="Sign in: send a valid token.")
            return
        query = self.scope.get("query_string", b"").decode("latin1")
        try:
            wish = await run_for_socket(read_stream_request, query)
        except StreamRequestError as error:
            await self.close(code=BAD_REQUEST, reason=str(error))
            return
        self.caller = str(self.scope["caller"])
        if sockets.streams[self.caller] >= MOST_OF_ONE:
            reason = f"You have {MOST_OF_ONE} event sockets open: close one first."
            await self.close(code=TOO_MANY, reason=reason)
            return
        sockets.open["stream"] += 1
        sockets.streams[self.caller] += 1
        self.task = asyncio.create_task(self._run(wish), name="event-stream")

    async def disconnect(self, code: int) -> None:
        if self.task is not None:
            sockets.open["stream"] -= 1
            sockets.streams -= Counter([self.caller])
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)

    async def _run(self, wish: StreamRequest) -> None:
        try:
            await self._follow(wish)
        except TooSlowError:
            sockets.dropped += 1
            await self.close(code=TOO_SLOW, reason="You do not read: come back.")
        except Exception:
            logger.exception("An event stream failed.")
            await self.close(code=FAILED)

    async def _follow(self, wish: StreamRequest) -> None:
        self.after = wish.after
        while True:
            viewer = await hub.subscribe()
            stream = stream_after(
                self.after,
                viewer,
                mysis_id=wish.mysis_id,
                kinds=wish.kinds,
                straight=self._give_at_once,
            )
            try:
                async for item in stream:
                    await self._give(write_text(item))
                    self.after = item["id"]
            except ViewerOverflowError:
                # It reads, only slower than the fleet writes: on from the log.
                continue
            finally:
                hub.unsubscribe(viewer)

    def _give_at_once(self, items: Sequence[Item]) -> int:
        """Send without a wait; how many, none where the client still reads earlier ones.

        Of very long ones no more than the first, so that little is held for who does
        not read: the next then finds the flow closed.
        """
        flow: Any = self.scope.get("flow")
        if flow is None or not flow.is_open:
            return 0
        going: list[str] = []
        size = 0
        for item in items:
            going.append(write_text(item))
            size += len(going[-1])
            if size >= MOST_AT_ONCE:
                break
        if not flow.send(*going):
            return 0
        self.after = items[len(going) - 1]["id"]
        return len(going)

    async def _give(self, text: str) -> None:
        flow: Any = self.scope.get("flow")
        if flow is None or not flow.send(text):
            await self.send(text_data=text)
        if flow is not None and not await flow.is_read():
            raise TooSlowError
        self.unrested += len(text)
        if self.unrested >= MOST_AT_ONCE:
            self.unrested = 0
            await hub.rest()
