"""Types of parameters, fields and pages of the REST routes, as strict as JSON allows.

A page has ascending ids, and its cursor is the last id shown.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Generic, TypedDict, TypeVar

from django.db import models
from ninja import Schema
from pydantic import BeforeValidator, ConfigDict, Field, StringConstraints

from memory.lookup import MAX_ID

_DIGITS = re.compile(r"[0-9]{1,19}")


def _read_parameter(value: Any) -> int:
    """A whole number from a query string."""
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
_FROM_QUERY = BeforeValidator(_read_parameter)
FROM_JSON = BeforeValidator(_read_number)
# Parameters of query strings.
After = Annotated[int, Field(ge=0, le=MAX_ID, examples=[0]), _FROM_QUERY]
Limit = Annotated[int, Field(ge=1, le=200), _FROM_QUERY]
SearchLimit = Annotated[int, Field(ge=1, le=100), _FROM_QUERY]
# Fields of bodies.
Whole = Annotated[int, FROM_JSON]
Name = Annotated[str, StringConstraints(min_length=1, max_length=100)]
Text = Annotated[str, StringConstraints(min_length=1, max_length=100_000)]
# Parts of paths.
MysisReference = Annotated[str, Field(description="Number or name.", examples=["Ada"])]


def example(**values: Any) -> ConfigDict:
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
DEFAULT_LIMIT = 50


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
    found = list(rows.filter(pk__gt=start).order_by("pk")[: window.limit + 1])
    more = len(found) > window.limit
    shown = found[: window.limit]
    return Rows(items=shown, next=str(shown[-1].pk) if more else None)
