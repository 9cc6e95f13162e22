"""Parameters, fields, pages and rows of the REST routes, as strict as JSON allows.

A page has ascending ids, and its cursor is the last id shown. It ends sooner where its
rows are long.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Annotated, Any, Generic, TypedDict, TypeVar

from django.db import models
from django.db.models import F, Func, Value
from ninja import Schema
from pydantic import BeforeValidator, ConfigDict, Field, StringConstraints

from memory.context import registry
from memory.handles import MAX_ID, Owner, find_owner, parse_id
from memory.problems import Problem, make_missing

_DIGITS = re.compile(r"[0-9]{1,19}")


def _read_query_number(value: Any) -> int:
    if isinstance(value, str) and _DIGITS.fullmatch(value):
        return int(value)
    return _read_number(value)


def _read_number(value: Any) -> int:
    """A whole number from JSON; 3.0 is one, "3" and true are not."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or value != value // 1:
        raise ValueError("give a whole number")
    return int(value)


# In the types below the bounds stand first: they are checked last, on what was read.
FROM_QUERY = BeforeValidator(_read_query_number)
FROM_JSON = BeforeValidator(_read_number)
# Parameters of query strings.
After = Annotated[int, Field(ge=0, le=MAX_ID, examples=[0]), FROM_QUERY]
Limit = Annotated[int, Field(ge=1, le=200), FROM_QUERY]
SearchLimit = Annotated[int, Field(ge=1, le=100), FROM_QUERY]
# Fields of bodies.
Whole = Annotated[int, FROM_JSON]
Name = Annotated[str, StringConstraints(min_length=1, max_length=100)]
# Of a text or a query: a blank one says or asks for nothing.
WITH_WORDS: dict[str, Any] = {"minLength": 1, "pattern": r"\S"}
Text = Annotated[
    str,
    StringConstraints(min_length=1, max_length=100_000),
    Field(json_schema_extra=WITH_WORDS),
]
# A text column of a row, null for an empty text.
TextOrNull = Annotated[str | None, BeforeValidator(lambda text: text or None)]
# Parts of paths.
MysisReference = Annotated[str, Field(description="Number or name.", examples=["Ada"])]


def one_of(choices: Iterable[str], *, or_null: bool = False) -> dict[str, Any]:
    """For a field's ``json_schema_extra``: the texts that it can hold."""
    return {"enum": [*map(str, choices), *([None] if or_null else [])]}


def _add_strategies(schema: dict[str, Any]) -> None:
    schema["enum"] = list(registry.list_names())


# Checked where it is used, whose refusal names them too.
StrategyName = Annotated[
    str,
    StringConstraints(min_length=1, max_length=100),
    Field(json_schema_extra=_add_strategies),
]


def build_example(**values: Any) -> ConfigDict:
    """The configuration of a schema with this example."""
    return ConfigDict(json_schema_extra={"examples": [values]})


class Body(Schema):
    """A body; an unknown field is an error."""

    model_config = ConfigDict(extra="forbid")


class ErrorOut(Schema):
    """Every error."""

    detail: str
    code: str


T = TypeVar("T")
M = TypeVar("M", bound=models.Model)
DEFAULT_LIMIT = 50
# The bytes of texts on a page of several rows, in its columns.
PAGE_BYTES = 2 * 1024 * 1024


class Page(Schema, Generic[T]):
    """One page; ``next`` is the cursor of the following one, or null."""

    items: list[T]
    next: str | None = None


class Window(Schema):
    """The parameters of every list."""

    cursor: Annotated[After | None, Field(description="`next` of the page before.")] = (
        None
    )
    limit: Limit = DEFAULT_LIMIT


class Rows(TypedDict):
    """A page before it becomes JSON."""

    items: list[Any]
    next: str | None


def build_page(
    rows: models.QuerySet[Any], window: Window, *, after: int | None = None
) -> Rows:
    """The page after the cursor, or after ``after`` if that is further on."""
    start = max(window.cursor or 0, after or 0)
    rows = rows.filter(pk__gt=start).order_by("pk")
    limit = _count_fitting(rows, window.limit)
    found = list(rows[: limit + 1])
    return cut_page(found, limit, [row.pk for row in found])


def _count_fitting(rows: models.QuerySet[Any], limit: int) -> int:
    """How many of the first ``limit`` rows have texts of PAGE_BYTES; at least one."""
    number = models.BigIntegerField()
    columns = (
        Func(F(field.attname), function="octet_length", output_field=number)
        for field in rows.model._meta.concrete_fields
        if isinstance(field, models.TextField)
    )
    size = sum(columns, Value(0, output_field=number))
    sizes = rows.annotate(text_bytes=size).values_list("text_bytes", flat=True)
    fitting: Iterator[bool] = (
        total <= PAGE_BYTES for total in accumulate(sizes[:limit])
    )
    return max(1, sum(fitting))


def cut_page(found: Sequence[Any], limit: int, cursors: Sequence[object]) -> Rows:
    """A page of ``limit`` of these rows; ``next``, the cursor of its last, if more came."""
    more = len(found) > limit
    return Rows(
        items=list(found[:limit]), next=str(cursors[limit - 1]) if more else None
    )


# --- Rows by number or name


def get_owner(reference: str) -> Owner:
    """The Mysis of a number or a name; raises a 404 Problem."""
    found = find_owner(reference)
    if found is None:
        raise make_unknown_mysis(reference)
    return found


def make_unknown_mysis(reference: str) -> Problem:
    """The 404 of a Mysis that is not there."""
    return make_missing(
        f"There is no Mysis {reference[:100]!r}: /api/v1/myses lists their names."
    )


def find_row(rows: models.QuerySet[M], reference: str) -> M | None:
    """The row of a name, or else of a number; None if there is neither."""
    if "\x00" in reference:
        return None
    named = rows.filter(name=reference).first()
    number = parse_id(reference)
    if named is not None or number is None:
        return named
    return rows.filter(pk=number).first()


def get_row(rows: models.QuerySet[M], reference: str, what: str) -> M:
    """As `find_row`; raises a 404 Problem. ``what`` names the kind of row."""
    found = find_row(rows, reference)
    if found is None:
        raise make_missing(f"There is no {what} {reference[:100]!r}.")
    return found
