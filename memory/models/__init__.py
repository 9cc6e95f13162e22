"""What is remembered, as tables, and how SQL by hand is run.

A turn runs such SQL in every call, as the ORM takes three to four times as long for it,
or more than one round trip. Unlike that of `agents.db` it is not in one place: each
statement stands with what is made of its rows. The log is read in `assembly.load`, what
a call was sent in `assembly.prepare` and `assembly.sent_view`, summaries in
`assembly.history_summaries`, the game state in `snapshots` (``rows``, ``reads`` and
``under_way``), factors of tokens in `calibration`, secret tools in `search.results`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from django.db import connection
from django.db.models import Field, Model

from .contexts import (
    ContextPolicy,
    ContextText,
    HistorySummary,
    SentContext,
    TokenCalibration,
)
from .game import AccountClock, ActionUnderWay, GameEvent, GameSnapshot, Lexicon
from .log import Memory, Origin, Role

__all__ = [
    "AccountClock",
    "ActionUnderWay",
    "ContextPolicy",
    "ContextText",
    "GameEvent",
    "GameSnapshot",
    "HistorySummary",
    "Lexicon",
    "Memory",
    "Origin",
    "Role",
    "SentContext",
    "TokenCalibration",
    "build_insert",
    "fetch_rows",
    "list_values",
]


def fetch_rows(sql: str, values: Sequence[Any] | Mapping[str, Any] = ()) -> list[Any]:
    """Run a statement; its rows as tuples, none where it gives none."""
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        return cursor.fetchall() if cursor.description else []


def build_insert(model: type[Model]) -> str:
    """The INSERT of one row; it takes what `list_values` gives."""
    columns = [field.attname for field in _list_written(model)]
    places = ", ".join(["%s"] * len(columns))
    return (
        f"INSERT INTO {model._meta.db_table} ({', '.join(columns)}) VALUES ({places})"  # noqa: S608 (no input in the text)
    )


def list_values(row: Model) -> list[Any]:
    """A row's values for `build_insert`; the moment of creation is the row's own."""
    return [
        field.get_db_prep_save(getattr(row, field.attname), connection)
        for field in _list_written(type(row))
    ]


@cache
def _list_written(model: type[Model]) -> list[Field[Any, Any]]:
    fields = model._meta.concrete_fields
    return [each for each in fields if not (each.primary_key or each.generated)]
