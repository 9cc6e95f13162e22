"""Summaries of histories, taken back or cleared."""

from __future__ import annotations

from django.db import transaction
from django.db.models import QuerySet

from agents import events
from agents.events import Kind
from memory import compactions
from memory.models import HistorySummary

from .errors import ActionError
from .states import lock


@transaction.atomic
def take_back_summary(*, summary: HistorySummary, by: str) -> HistorySummary | None:
    """Use the summary before again, or the history itself; refuses an unused one."""
    mysis = lock(summary.mysis)
    try:
        older = compactions.revert(summary, turn=mysis.turn_count)
    except compactions.Outdated as error:
        raise ActionError(str(error), code="conflict") from error
    instead = f"summary {older.generation}" if older else "the history itself"
    reason = f"Summary {summary.generation} was taken back: {instead} is sent again."
    _compaction_event(summary, "reverted", by, reason)
    return older


@transaction.atomic
def clear_failed_summaries(*, chosen: QuerySet[HistorySummary], by: str) -> int:
    """Let failures count no more, so that the next turn may try again; how many."""
    failed = chosen.filter(status=HistorySummary.Status.FAILED)
    rows = list(failed.select_related("mysis"))
    compactions.clear(failed)
    for row in rows:
        _compaction_event(row, "cleared", by, "A failed summary was cleared.")
    return len(rows)


def _compaction_event(row: HistorySummary, status: str, by: str, reason: str) -> None:
    data = {
        "summary": row.pk,
        "generation": row.generation,
        "status": status,
        "reason": reason,
        "by": by,
    }
    events.append(Kind.CONTEXT_COMPACTED, mysis_id=row.mysis_id, data=data)
