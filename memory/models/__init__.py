"""What is remembered, as tables, and how SQL by hand is run.

A turn runs such SQL in every call, as the ORM takes three to four times as long for it,
or more than one round trip. Unlike that of `agents.statements` it is not in one place: each
statement stands with what is made of its rows, as the callers of `fetch_rows` show.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any, TypeVar

from django.db import DEFAULT_DB_ALIAS, connection, connections
from django.db.backends.postgresql.base import ServerBindingCursor
from django.db.models import DateTimeField, Field, JSONField, Model
from psycopg.rows import dict_row, tuple_row

from .audit import AuditEntry
from .contexts import (
    ContextPolicy,
    ContextText,
    HistorySummary,
    SentContext,
    TokenCalibration,
)
from .game import AccountClock, ActionUnderWay, GameEvent, GameSnapshot, Lexicon
from .log import Branch, Memory, Note, NoteFloor, Origin, Role

M = TypeVar("M", bound=Model)

__all__ = [
    "AccountClock",
    "ActionUnderWay",
    "AuditEntry",
    "Branch",
    "ContextPolicy",
    "ContextText",
    "GameEvent",
    "GameSnapshot",
    "HistorySummary",
    "Lexicon",
    "Memory",
    "Note",
    "NoteFloor",
    "Origin",
    "Role",
    "SentContext",
    "TokenCalibration",
    "build_insert",
    "build_row",
    "fetch_models",
    "fetch_named",
    "fetch_rows",
    "list_values",
    "read_row",
]


def fetch_rows(
    sql: str, values: Sequence[Any] | Mapping[str, Any] = (), *, prepare: bool = False
) -> list[Any]:
    """Run a statement; its rows as tuples, none where it gives none.

    ``prepare`` what every turn asks: the server keeps its plan, and to plan can take
    longer than to run. It must not ask for all columns of a table (``*``): where a
    migration changes them, the server refuses what it has kept.
    """
    with _open_prepared(tuple_row) if prepare else connection.cursor() as cursor:
        cursor.execute(sql, values)
        # The description of each column would cost as much as a short statement.
        return [] if cursor.rownumber is None else cursor.fetchall()


def fetch_named(
    sql: str, values: Sequence[Any] | Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Run a prepared statement; its rows by the names of their columns."""
    with _open_prepared(dict_row) as cursor:
        cursor.execute(sql, values)
        rows: list[dict[str, Any]] = cursor.fetchall()
    return rows


def _open_prepared(row_factory: Any) -> Any:
    database: Any = connections[DEFAULT_DB_ALIAS]
    database.ensure_connection()
    cursor: Any = ServerBindingCursor
    return database._prepare_cursor(
        cursor(database.connection, row_factory=row_factory)
    )


def build_insert(model: type[Model], rows: int = 1) -> str:
    """The INSERT of so many rows; it takes what `list_values` gives of each."""
    columns = [field.attname for field in _list_written(model)]
    places = ", ".join([f"({', '.join(['%s'] * len(columns))})"] * rows)
    return f"INSERT INTO {model._meta.db_table} ({', '.join(columns)}) VALUES {places}"  # noqa: S608 (no input in the text)


def list_values(row: Model) -> list[Any]:
    """A row's values for `build_insert`; the moment of creation is the row's own."""
    database = connections[DEFAULT_DB_ALIAS]
    return [
        field.get_db_prep_save(getattr(row, field.attname), database)
        for field in _list_written(type(row))
    ]


def build_row(model: type[M], values: Mapping[str, Any]) -> M:
    """A stored row out of the JSON that ``to_json`` gives of it."""
    fields = [each for each in model._meta.concrete_fields if each.attname in values]
    read = [
        datetime.fromisoformat(value)
        if value and isinstance(each, DateTimeField)
        else value
        for each in fields
        for value in [values[each.attname]]
    ]
    return model.from_db(None, [each.attname for each in fields], read)


def fetch_models(
    model: type[M],
    condition: str,
    values: Sequence[Any] | Mapping[str, Any],
    *,
    without: Sequence[str] = (),
) -> list[M]:
    """Stored rows in the order of their keys, by a prepared statement.

    The columns ``without`` are read when they are asked for.
    """
    wanted = [name for name in _list_names(model) if name not in without]
    columns = ", ".join(f'"{name}"' for name in wanted)
    meta = model._meta
    sql = f"SELECT {columns} FROM {meta.db_table} WHERE {condition} ORDER BY {meta.pk.attname}"  # noqa: S608 (no input in the text)
    return [read_row(model, row) for row in fetch_named(sql, values)]


def read_row(model: type[M], values: Mapping[str, Any]) -> M:
    """A stored row out of the columns that a statement gives, maybe among others."""
    found = {name: values[name] for name in _list_names(model) if name in values}
    for name in _list_documents(model):
        if found.get(name) is not None:
            found[name] = json.loads(found[name])
    return model.from_db(DEFAULT_DB_ALIAS, list(found), list(found.values()))


@cache
def _list_names(model: type[Model]) -> list[str]:
    return [each.attname for each in model._meta.concrete_fields]


@cache
def _list_documents(model: type[Model]) -> list[str]:
    fields = model._meta.concrete_fields
    return [each.attname for each in fields if isinstance(each, JSONField)]


@cache
def _list_written(model: type[Model]) -> list[Field[Any, Any]]:
    fields = model._meta.concrete_fields
    return [each for each in fields if not (each.primary_key or each.generated)]
