"""How many do something slow at once in this process, and with what connection."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection

from memory.problems import make_busy


def release_connection() -> None:
    """Return this thread's connection to the pool before something slow.

    The next query takes one again. Within a transaction it is kept.
    """
    if connection.connection is not None and not connection.in_atomic_block:
        connection.close()


class ConcurrencyLimit:
    """At most so many at once in this process; others wait ``seconds``, then are refused."""

    def __init__(self, places: int, *, seconds: float, refusal: str) -> None:
        self.places = places
        self.seconds = seconds
        self.refusal = refusal
        self._free = threading.BoundedSemaphore(places)

    @contextmanager
    def taken(self, seconds: float | None = None) -> Iterator[None]:
        """Hold a place; raises a 503 Problem where none became free in time.

        It waits ``seconds`` at most, None for the usual.
        """
        if not self._free.acquire(timeout=self.seconds if seconds is None else seconds):
            raise make_busy(self.refusal)
        try:
            yield
        finally:
            self._free.release()
