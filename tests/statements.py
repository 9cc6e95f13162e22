"""The statements that run while a test looks on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connection


@contextmanager
def record_statements() -> Iterator[list[str]]:
    """The text of each statement that runs meanwhile, with places for its values.

    Django's own record of queries has no text of a statement with binary values.
    """
    recorded: list[str] = []

    def record(
        execute: Callable[..., Any], sql: str, values: Any, many: bool, context: Any
    ) -> Any:
        recorded.append(sql)
        return execute(sql, values, many, context)

    with connection.execute_wrapper(record):
        yield recorded
