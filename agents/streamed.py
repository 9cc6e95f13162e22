"""Answers that are made while they are sent: of any length, in little memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack
from functools import partial
from weakref import WeakValueDictionary

from django.http import StreamingHttpResponse
from django.utils.http import content_disposition_header

from agents.db import run_long_in_db
from memory.problems import make_busy


class StreamedAnswer(StreamingHttpResponse):
    """An answer in pieces, each made when those before are taken; a file where it has a name.

    ``caller`` asked for it. While a piece is made it has a place among the streams, which
    ``give_back`` gives back. One that ``keeps_much`` in memory between two pieces has it
    to its end.
    """

    caller: str

    def __init__(
        self,
        pieces: Iterator[str],
        kind: str,
        file_name: str = "",
        *,
        keeps_much: bool = False,
    ) -> None:
        found = file_name and content_disposition_header(True, file_name)
        headers = {"Content-Disposition": found} if found else {}
        self.keeps_much = keeps_much
        self.give_back: Callable[[], None] = lambda: None
        self._take: Callable[[], Awaitable[Callable[[], None]]] | None = None
        super().__init__(self._send(pieces), content_type=kind, headers=headers)

    async def begin(self, places: StreamPlaces) -> None:
        """Wait for the first place; raises a 503 Problem. Later ones are waited for."""
        self.give_back = await places.take(self.caller)
        if not self.keeps_much:
            self._take = partial(places.take, self.caller, waits=True)

    async def _send(self, pieces: Iterator[str]) -> AsyncIterator[bytes]:
        """No connection is held between two pieces, and no place."""
        while piece := await run_long_in_db(next, pieces, ""):
            if self._take:
                self.give_back()
            yield piece.encode("utf-8", "surrogatepass")
            if self._take:
                self.give_back = await self._take()


class StreamPlaces:
    """At most so many are made at once, of one caller fewer: others wait, then are refused."""

    def __init__(self, places: int, *, each: int, seconds: float) -> None:
        self.places = places
        self.each = each
        self.seconds = seconds
        self._all = asyncio.Semaphore(places)
        # They live as long as somebody has or awaits a place.
        self._own: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    async def take(self, caller: str, *, waits: bool = False) -> Callable[[], None]:
        """Wait for a place, and return what gives it back.

        Raises a 503 Problem where none comes free in time, unless it ``waits``.
        """
        own = self._own.setdefault(caller, asyncio.Semaphore(self.each))
        with ExitStack() as taken:
            try:
                async with asyncio.timeout(None if waits else self.seconds):
                    # One's own first: who wants many waits for them and holds no other.
                    for free in (own, self._all):
                        await free.acquire()
                        taken.callback(free.release)
            except TimeoutError:
                said = "Other downloads are being sent: not begun."
                raise make_busy(said) from None
            return taken.pop_all().close
