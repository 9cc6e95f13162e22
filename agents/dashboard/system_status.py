"""How the program itself does: work that waits, models, errors, the database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from django.db.models import Count, F, Max, Q, Sum

from agents.dashboard.charts import HOUR, find_first_turn_since
from agents.models import ModelCall, Provider, Turn
from memory.models import fetch_rows

SEEN = timedelta(seconds=60)
CLASSES = 8
TABLES = 8

# By the partial index on jobs that are to be done.
QUEUE = """
SELECT count(*) FILTER (WHERE status = 'todo'
    AND (scheduled_at IS NULL OR scheduled_at <= now())),
  count(*) FILTER (WHERE status = 'todo' AND scheduled_at > now()),
  count(*) FILTER (WHERE status = 'doing')
FROM procrastinate_jobs WHERE status IN ('todo', 'doing')
"""
WORKERS = "SELECT last_heartbeat FROM procrastinate_workers ORDER BY 1 DESC"
SIZES = """
SELECT relname, pg_total_relation_size(oid), greatest(reltuples, 0)::bigint
FROM pg_class WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace
ORDER BY 2 DESC LIMIT %s
"""
WHOLE = "SELECT pg_database_size(current_database())"


@dataclass(frozen=True, slots=True)
class Queue:
    """Turns that should run now, that run later, and that run; live workers."""

    due: int
    later: int
    doing: int
    workers: int
    heartbeat: datetime | None


@dataclass(frozen=True, slots=True)
class ModelUse:
    """One model in the last hour; ``took`` milliseconds in all."""

    model: str
    calls: int
    errors: int
    input: int
    output: int
    cached: int
    spent: Decimal
    took: int

    @property
    def latency_ms(self) -> int:
        return round(self.took / self.calls)


def read_machine(now: datetime) -> dict[str, Any]:
    """Its work as it is now; a handful of queries, none of which goes through a log."""
    floor = find_first_turn_since(now - HOUR)
    return {
        "queue": Queue(*count_jobs(), *count_workers(now)),
        "models": _load_models(floor) if floor is not None else (),
        "failures": _load_failures(floor) if floor is not None else (),
    }


def read_storage() -> dict[str, Any]:
    """What changes slowly; sizing tables asks the file system for each.

    ``size`` is that of the whole database, in bytes; ``tables`` are name, size with
    indexes, and rows by the planner's estimate.
    """
    return {
        "providers": Provider.objects.order_by("name"),
        "size": fetch_rows(WHOLE)[0][0],
        "tables": fetch_rows(SIZES, [TABLES]),
    }


def count_jobs() -> tuple[int, int, int]:
    """The jobs that should run now, that run later, and that run."""
    [(due, later, doing)] = fetch_rows(QUEUE)
    return due, later, doing


def count_workers(now: datetime) -> tuple[int, datetime | None]:
    """How many workers are alive, and when the last one showed itself."""
    beats: list[datetime] = [beat for (beat,) in fetch_rows(WORKERS)]
    alive = [beat for beat in beats if now - beat < SEEN]
    return len(alive), beats[0] if beats else None


def _load_models(floor: int) -> list[ModelUse]:
    rows = (
        ModelCall.objects.filter(turn_id__gte=floor)
        .values("model")
        .annotate(
            calls=Count("id"),
            errors=Count("id", filter=~Q(error="")),
            input=Sum("input_tokens"),
            output=Sum("output_tokens"),
            cached=Sum("cached_tokens"),
            spent=Sum("cost"),
            took=Sum("latency_ms"),
        )
        .order_by("-calls")
    )
    return [ModelUse(**row) for row in rows]


def _load_failures(floor: int) -> Sequence[Mapping[str, Any]]:
    """Turns that failed alike; ``turn`` is the newest of them."""
    rows = (
        Turn.objects.filter(id__gte=floor, outcome=Turn.Outcome.ERRORED)
        .values(text=F("error"))
        .annotate(count=Count("id"), newest=Max("started_at"), turn=Max("id"))
        .order_by("-count")[:CLASSES]
    )
    return list(rows)
