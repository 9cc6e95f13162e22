"""GET /usage: tokens, cost and latency, added up by Mysis, policy, model or day."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta
from typing import Annotated, Any, Literal

from django.db.models import QuerySet
from django.http import HttpRequest
from ninja import Query, Router, Schema
from pydantic import Field

from agents import usage
from agents.models import Mysis, Usage
from memory.api.fields import Limit
from memory.api.pages import DEFAULT_LIMIT, Page
from memory.owners import number_of
from memory.problems import invalid

from .turns import Tokens

router = Router(tags=["usage"])

DAYS = 30
COLUMNS = {"mysis": "mysis_id", "policy": "policy", "model": "model", "day": "day"}


class UsageOut(Schema):
    """What calls came to.

    ``calls`` drive turns, ``summaries`` stand beside them, ``errors`` are those of
    both that brought no answer. Cost in US dollars, latency the sum over all.
    """

    calls: int = Field(examples=[120])
    summaries: int = Field(examples=[2])
    errors: int = Field(examples=[0])
    tokens: Tokens
    cost: float = Field(examples=[0.21])
    latency_ms: int = Field(examples=[624000])


class UsageLine(UsageOut):
    """The usage of one ``key``: a name of a Mysis, policy or model, or a day (UTC).

    ``mysis`` is the number by=mysis tells; the key of a deleted one is null.
    """

    key: str | None = Field(examples=["2026-02-05"])
    mysis: int | None = None


class UsagePage(Page[UsageLine]):
    """One page, and beside it the sum over everything since that day."""

    since: date
    total: UsageOut


class Wanted(Schema):
    """How to add up, and from which day on."""

    by: Literal["mysis", "policy", "model", "day"] = "day"
    since: Annotated[
        date | None,
        Field(
            description="A day (UTC); without it the last 30.", examples=["2026-02-05"]
        ),
    ] = None
    cursor: Annotated[
        str | None,
        Field(
            max_length=300, description="`next` of the page before.", examples=["Ada"]
        ),
    ] = None
    limit: Limit = DEFAULT_LIMIT


@router.get("/usage", response=UsagePage)
def read_usage(request: HttpRequest, wanted: Query[Wanted]) -> dict[str, Any]:
    """Totals by Mysis, policy, model or day; of the whole fleet, deleted ones too."""
    day = wanted.since or usage.today() - timedelta(days=DAYS - 1)
    rows = usage.since(day)
    column = COLUMNS[wanted.by]
    groups = usage.grouped(_after(rows, column, wanted.cursor), column)
    found = list(groups[: wanted.limit + 1])
    shown = found[: wanted.limit]
    more = len(found) > wanted.limit
    return {
        "items": _lines(shown, column),
        "next": str(shown[-1][column]) if more else None,
        "since": day,
        "total": told(usage.totals(rows)),
    }


def told(sums: Mapping[str, Any]) -> dict[str, Any]:
    """Sums of columns as UsageOut."""
    plain = ("calls", "summaries", "errors", "cost", "latency_ms")
    tokens = {name: sums[f"{name}_tokens"] for name in ("input", "output", "cached")}
    return {name: sums[name] for name in plain} | {"tokens": tokens}


def _lines(groups: list[dict[str, Any]], column: str) -> list[dict[str, Any]]:
    if column != "mysis_id":
        return [told(group) | {"key": str(group[column])} for group in groups]
    ids = [group[column] for group in groups]
    names = dict(Mysis.objects.filter(pk__in=ids).values_list("pk", "name"))
    return [
        told(group) | {"key": names.get(group[column]), "mysis": group[column]}
        for group in groups
    ]


def _after(rows: QuerySet[Usage], column: str, cursor: str | None) -> QuerySet[Usage]:
    if cursor is None:
        return rows
    value: Any = cursor.replace("\x00", "")
    if column == "mysis_id":
        value = number_of(cursor)
    elif column == "day":
        value = _day(cursor)
    if value is None:
        raise invalid("cursor", "give the `next` of the page before.")
    return rows.filter(**{f"{column}__gt": value})


def _day(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None
