"""The newest model calls of a Mysis and its compactions, each as one line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from agents.models import ModelCall
from memory.models import HistorySummary, SentContext

from . import charts

CALLS = 24
SUMMARIES = 20


@dataclass(frozen=True, slots=True)
class PastCall:
    """One call and how full its context was. ``kept`` is the share, in per cent,
    of its input that the provider read from its cache."""

    call: ModelCall
    turn: int
    number: int
    strategy: str
    gauge: charts.Gauge | None
    at: datetime

    @property
    def kept(self) -> int | None:
        """How much of the input the provider had in its cache."""
        if not self.call.input_tokens:
            return None
        return round(100 * self.call.cached_tokens / self.call.input_tokens)


def recent(mysis_id: int) -> list[PastCall]:
    """The newest calls, newest first, without their payloads."""
    rows = (
        SentContext.objects.filter(mysis_id=mysis_id)
        .select_related("call__turn")
        .defer("ledger", "view", "facts")
        .order_by("-id")[:CALLS]
    )
    return [
        PastCall(
            call=row.call,
            turn=row.call.turn.number,
            number=row.call.number,
            strategy=row.strategy,
            gauge=charts.gauge(row.stats),
            at=row.created_at,
        )
        for row in rows
    ]


def summaries(mysis_id: int, before: int | None = None) -> Sequence[HistorySummary]:
    """The newest compactions, those that failed too; ``before`` is an id."""
    rows = HistorySummary.objects.filter(mysis_id=mysis_id).order_by("-id")
    if before is not None:
        rows = rows.filter(pk__lt=before)
    return list(rows[:SUMMARIES])
