"""How many do something slow at once in this process, and with what connection."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import OperationalError, connection, transaction
from psycopg.errors import QueryCanceled

from memory.problems import Problem, make_busy


def release_connection() -> None:
    """Return this thread's connection to the pool before something slow.

    The next query takes one again. Within a transaction it is kept.
    """
    if connection.connection is not None and not connection.in_atomic_block:
        connection.close()


@contextmanager
def limit_statements(seconds: float, refusal: Problem) -> Iterator[None]:
    """Give each statement inside so many seconds; raises ``refusal`` past that."""
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(
                "SELECT set_config('statement_timeout', %s, true)",
                [f"{seconds * 1000:.0f}"],
            )
            yield
            # Where this is part of a longer transaction the setting would stay.
            if connection.savepoint_ids:
                cursor.execute("SET LOCAL statement_timeout TO DEFAULT")
    except OperationalError as error:
        if isinstance(error.__cause__, QueryCanceled):
            raise refusal from error
        raise


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

        It waits ``seconds`` at most, None for the usual, and holds no connection of the
        pool meanwhile, see `release_connection`.
        """
        release_connection()
        if not self._free.acquire(timeout=self.seconds if seconds is None else seconds):
            raise make_busy(self.refusal)
        try:
            yield
        finally:
            self._free.release()
