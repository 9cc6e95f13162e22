"""Turns and cost of the last hour, per Mysis and for the fleet."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from django.db.models import BigIntegerField, Count, F, Func, Q, Sum

from agents.models import Turn

from .charts import Bar, bars

HOUR = timedelta(hours=1)
BUCKET = 300
BUCKETS = 12


@dataclass(frozen=True, slots=True)
class Hour:
    """What one Mysis did in the last hour, in columns of five minutes."""

    turns: int
    tokens: int
    cost: Decimal
    failures: int
    bars: tuple[Bar, ...]


def first_turn_since(moment: datetime) -> int | None:
    """The id of the oldest turn begun since then.

    Ids rise with the start, so a range of ids of one Mysis is one index range,
    while a range of times would read every Mysis's turns.
    """
    newer = Turn.objects.filter(started_at__gte=moment).order_by("started_at")
    return newer.values_list("id", flat=True).first()


def last_hour(mysis_ids: Sequence[int], now: datetime) -> dict[int, Hour]:
    """The last hour of each Mysis; all of them have an entry."""
    found: defaultdict[int, list[Mapping[str, Any]]] = defaultdict(list)
    floor = first_turn_since(now - HOUR)
    if floor is not None:
        for line in _grouped(mysis_ids, floor):
            found[line["mysis_id"]].append(line)
    newest = int(now.timestamp()) // BUCKET
    return {number: _hour(found[number], newest) for number in mysis_ids}


def _grouped(mysis_ids: Sequence[int], floor: int) -> Iterable[Mapping[str, Any]]:
    bucket = Func(
        F("started_at"),
        template=f"floor(extract(epoch from %(expressions)s) / {BUCKET})::bigint",
        output_field=BigIntegerField(),
    )
    found: Iterable[Mapping[str, Any]] = (
        Turn.objects.filter(mysis_id__in=mysis_ids, id__gte=floor)
        .annotate(bucket=bucket)
        .values("mysis_id", "bucket")
        .annotate(
            turns=Count("id"),
            tokens=Sum(F("input_tokens") + F("output_tokens")),
            spent=Sum("cost"),
            failures=Count("id", filter=Q(outcome=Turn.Outcome.ERRORED)),
        )
        .order_by()
    )
    return found


def _hour(lines: Iterable[Mapping[str, Any]], newest: int) -> Hour:
    counts, failures = [0] * BUCKETS, [0] * BUCKETS
    tokens, cost = 0, Decimal(0)
    for line in lines:
        place = line["bucket"] - newest + BUCKETS - 1
        if 0 <= place < BUCKETS:
            counts[place] += line["turns"]
            failures[place] += line["failures"]
            tokens += line["tokens"]
            cost += line["spent"]
    drawn = bars(counts, failures)
    return Hour(sum(counts), tokens, cost, sum(failures), drawn)


@dataclass(frozen=True, slots=True)
class Spent:
    """The whole fleet's last hour."""

    turns: int = 0
    tokens: int = 0
    cost: Decimal = Decimal(0)

    @property
    def per_turn(self) -> Decimal:
        """What one turn cost on average, in US dollars."""
        return self.cost / self.turns if self.turns else Decimal(0)


def fleet_hour(now: datetime) -> Spent:
    """Turns, tokens and cost of all Myses since an hour ago."""
    floor = first_turn_since(now - HOUR)
    if floor is None:
        return Spent()
    sums = Turn.objects.filter(id__gte=floor).aggregate(
        turns=Count("id"),
        tokens=Sum(F("input_tokens") + F("output_tokens")),
        cost=Sum("cost"),
    )
    return Spent(sums["turns"], sums["tokens"] or 0, sums["cost"] or Decimal(0))
