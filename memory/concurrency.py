"""How many do something slow at once in this process, and how long a statement may take."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import OperationalError, connection, transaction
from django.db.backends.utils import CursorWrapper
from psycopg.errors import QueryCanceled

from memory.problems import Problem, make_busy

# Seconds that a statement of what somebody waits for may take.
LONGEST_STATEMENT = 30.0


def release_connection() -> None:
    """Return this thread's connection to the pool before something slow.

    The next query takes one again. Within a transaction it is kept.
    """
    if connection.connection is not None and not connection.in_atomic_block:
        connection.close()


@contextmanager
def limit_statements(refusal: Problem, seconds: float | None = None) -> Iterator[None]:
    """Limit each statement inside to ``seconds``, 30 unless said; raises ``refusal`` past that."""
    most = LONGEST_STATEMENT if seconds is None else seconds
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            before = connection.savepoint_ids and _show_timeout(cursor)
            _set_timeout(cursor, f"{most * 1000:.0f}")
            yield
            # Where this is part of a longer transaction the setting would stay.
            if before:
                _set_timeout(cursor, before)
    except OperationalError as error:
        if isinstance(error.__cause__, QueryCanceled):
            raise refusal from error
        raise


def _show_timeout(cursor: CursorWrapper) -> str:
    cursor.execute("SHOW statement_timeout")
    return str(cursor.fetchone()[0])


def _set_timeout(cursor: CursorWrapper, value: str) -> None:
    cursor.execute("SELECT set_config('statement_timeout', %s, true)", [value])


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
