"""Answers that are made while they are sent: of any length, in little memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from weakref import WeakValueDictionary

from django.http import StreamingHttpResponse
from django.utils.http import content_disposition_header

from agents.db import run_long_in_db
from memory.problems import make_busy


class StreamedAnswer(StreamingHttpResponse):
    """An answer in pieces, each made when those before are taken; a file where it has a name.

    ``caller`` asked for it; ``give_back`` gives back its place among the streams.
    """

    caller: str
    give_back: Callable[[], None]

    def __init__(self, pieces: Iterator[str], kind: str, file_name: str = "") -> None:
        found = file_name and content_disposition_header(True, file_name)
        headers = {"Content-Disposition": found} if found else {}
        super().__init__(_send(pieces), content_type=kind, headers=headers)


async def _send(pieces: Iterator[str]) -> AsyncIterator[bytes]:
    """No connection is held between two pieces."""
    while piece := await run_long_in_db(next, pieces, ""):
        yield piece.encode("utf-8", "surrogatepass")


class StreamPlaces:
    """At most so many streams at once, of one caller fewer: others wait, then are refused."""

    def __init__(self, places: int, *, each: int, seconds: float) -> None:
        self.places = places
        self.each = each
        self.seconds = seconds
        self._all = asyncio.Semaphore(places)
        # They live as long as somebody has or awaits a place.
        self._own: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    async def take(self, caller: str) -> Callable[[], None]:
        """Wait for a place, and return what gives it back; raises a 503 Problem."""
        own = self._own.setdefault(caller, asyncio.Semaphore(self.each))
        with ExitStack() as taken:
            try:
                async with asyncio.timeout(self.seconds):
                    # One's own first: who wants many waits for them and holds no other.
                    for free in (own, self._all):
                        await free.acquire()
                        taken.callback(free.release)
            except TimeoutError:
                said = "Other downloads are being sent: not begun."
                raise make_busy(said) from None
            return taken.pop_all().close
