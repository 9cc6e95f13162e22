"""How long a search may take: a scan without an index must not hold a connection."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import OperationalError, connection, transaction
from psycopg.errors import QueryCanceled

from .problems import Problem

SECONDS = 10.0


class SlowSearchError(Problem):
    """A search that was given up; the text says how to ask for less."""

    def __init__(self) -> None:
        super().__init__(
            422,
            "too_slow",
            f"The search was given up after {SECONDS:g} s: name one Mysis, take rarer "
            "words, or search by words instead of letter for letter.",
        )


@contextmanager
def bounded() -> Iterator[None]:
    """Give each statement inside `SECONDS`; raises SlowSearchError past that."""
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(
                "SELECT set_config('statement_timeout', %s, true)",
                [f"{SECONDS * 1000:.0f}"],
            )
            yield
            # Where this is part of a longer transaction the setting would stay.
            if connection.savepoint_ids:
                cursor.execute("SET LOCAL statement_timeout TO DEFAULT")
    except OperationalError as error:
        if isinstance(error.__cause__, QueryCanceled):
            raise SlowSearchError from error
        raise
