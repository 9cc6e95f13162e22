"""Lists in pages: ascending ids, and a cursor that is the last id shown."""

from __future__ import annotations

from typing import Annotated, Any, Generic, TypedDict, TypeVar

from django.db import models
from ninja import Schema
from pydantic import Field

from .fields import After, Limit

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
    """What a list answers with, before it becomes JSON."""

    items: list[Any]
    next: str | None


def page_of(
    rows: models.QuerySet[Any], window: Window, *, after: int | None = None
) -> Rows:
    """The rows after the cursor (or ``after``, if that is further on)."""
    start = max(window.cursor or 0, after or 0)
    found = list(rows.filter(pk__gt=start).order_by("pk")[: window.limit + 1])
    more = len(found) > window.limit
    shown = found[: window.limit]
    return Rows(items=shown, next=str(shown[-1].pk) if more else None)
