"""What the fleet used: written with each call, read without looking at calls.

``agents_usage`` has a row for each Mysis, day (UTC), policy and model, so a page or a
route adds up days and not calls.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from django.db.models import QuerySet, Sum
from django.utils import timezone

from agents import db
from agents.models import Usage

FIELDS = (
    "calls",
    "summaries",
    "errors",
    "input_tokens",
    "output_tokens",
    "cached_tokens",
    "cost",
    "latency_ms",
)


@dataclass(frozen=True, slots=True)
class CallPlace:
    """Where a call is counted: its row, its Mysis, and what it was made under."""

    call_id: int
    mysis_id: int
    day: date
    policy: str
    model: str
    summary: bool = False


@dataclass(frozen=True, slots=True)
class CallCost:
    """What a call cost. ``error`` is why it brought no answer, empty for one."""

    input: int = 0
    output: int = 0
    cached: int = 0
    cost: Decimal = Decimal(0)
    latency_ms: int = 0
    finish_reason: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True)
class Said:
    """What an answer makes of its Mysis: what it does now, at which tick, and when."""

    activity: str | None = None
    tick: int | None = None
    said_at: datetime | None = None


NOTHING_SAID = Said()


def record_cost(place: CallPlace, spent: CallCost, said: Said = NOTHING_SAID) -> None:
    """Write what a call cost wherever it is added up, in one statement.

    What was paid is counted even where the turn, or the Mysis, is gone meanwhile.
    """
    counts = {
        "calls": int(not place.summary),
        "summaries": int(place.summary),
        "errors": int(bool(spent.error)),
    }
    values = asdict(place) | asdict(spent) | counts | asdict(said)
    db.fetch_row(db.RECORD_USAGE, values, prepare=True)


def today() -> date:
    """The day that calls are counted on now, in UTC."""
    return get_day(timezone.now())


def get_day(moment: datetime) -> date:
    return moment.astimezone(timezone.get_default_timezone()).date()


def add_up(rows: QuerySet[Usage]) -> dict[str, Any]:
    """Rows added up; zeros where there are none."""
    sums = rows.aggregate(**{name: Sum(name) for name in FIELDS})
    return {name: sums[name] or 0 for name in FIELDS}


def add_up_by(rows: QuerySet[Usage], by: str) -> QuerySet[Usage, dict[str, Any]]:
    """Rows added up by a column, in its order."""
    sums = {name: Sum(name) for name in FIELDS}
    found: QuerySet[Usage, dict[str, Any]]
    found = rows.order_by(by).values(by).annotate(**sums)
    return found
