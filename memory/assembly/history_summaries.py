"""History summaries as they are stored: committed whole or not at all (I22, I23).

A summary that was refused is stored too, without a text: breaker and cool-down are
worked out from these rows, and a person sees why nothing is compacted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from decimal import Decimal
from itertools import takewhile
from typing import Any

from django.db import models, transaction

from memory.assembly import log_rows
from memory.assembly.hashes import hash_span
from memory.assembly.log_rows import LogRow
from memory.context.types import Compaction
from memory.models import HistorySummary, Role, fetch_rows

# After so many failures in a row no summary is asked for ...
BREAKER_FAILURES = 3
# ... for so many turns.
BREAKER_TURNS = 50
# Turns that pass after a failure before the next summary is asked for.
COOLING_TURNS = 5
Status = HistorySummary.Status
_LAST_TRIED = """
SELECT id, status, turn_number, error FROM memory_historysummary
WHERE mysis_id = %s ORDER BY id DESC LIMIT %s
"""
_IN_USE = """
SELECT * FROM memory_historysummary
WHERE mysis_id = %s AND status = 'active' ORDER BY through_id DESC LIMIT 1
"""
IN_TURN = "SELECT pg_advisory_xact_lock(hashtext('history summaries'))"


class Outdated(Exception):
    """The history or its summary changed while a new summary was made."""


@dataclass(frozen=True, slots=True)
class Span:
    """What a summary is to cover, as it was when the summary was asked for.

    ``generation`` is that of the summary before, 0 for none; ``digest`` is that of
    the stored messages.
    """

    mysis_id: int
    first_id: int
    through_id: int
    generation: int
    digest: str


@dataclass(slots=True)
class Effort:
    """Who made a summary, in which turn of the Mysis, and what the attempts cost.

    Costs are in tokens, US dollars and milliseconds.
    """

    turn_number: int
    model: str
    attempts: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost: Decimal = Decimal(0)
    latency_ms: int = 0

    def add_answer(
        self, *, tokens: tuple[int, int, int], cost: Decimal, latency_ms: int
    ) -> None:
        """Count one more answer; ``tokens`` are its input, output and cached ones."""
        self.input_tokens += tokens[0]
        self.output_tokens += tokens[1]
        self.cached_tokens += tokens[2]
        self.cost += cost
        self.latency_ms += latency_ms


def read_newest_summary(mysis_id: int, *, lock: bool = False) -> HistorySummary | None:
    """The summary that views use; ``lock`` keeps its row until the transaction ends."""
    sql = _IN_USE + "FOR UPDATE" if lock else _IN_USE
    return next(iter(HistorySummary.objects.raw(sql, [mysis_id])), None)


def check_compaction(mysis_id: int, *, turn: int) -> Compaction:
    """Whether a summary may be asked for in a turn: breaker and cool-down."""
    last = HistorySummary.objects.raw(_LAST_TRIED, [mysis_id, BREAKER_FAILURES])
    return judge_compaction(list(last), turn=turn)


def judge_compaction(last: Sequence[HistorySummary], *, turn: int) -> Compaction:
    """`check_compaction` by the newest `BREAKER_FAILURES` summaries, the last first.

    Only failures since the newest good summary count. After one that was reverted the
    cool-down holds too.
    """
    failed = list(takewhile(lambda row: row.status == Status.FAILED, last))
    if not last or (not failed and last[0].status != Status.REVERTED):
        return Compaction()
    since = turn - last[0].turn_number
    if failed and since <= 0:
        return Compaction(failure=failed[0].error)
    if len(failed) >= BREAKER_FAILURES:
        return Compaction(breaker_open=since <= BREAKER_TURNS)
    return Compaction(cooling_turns=max(0, COOLING_TURNS + 1 - max(1, since)))


@transaction.atomic
def commit_summary(
    span: Span,
    *,
    text: str,
    tokens: tuple[int, int],
    effort: Effort,
    note: str = "",
) -> HistorySummary:
    """Store a summary in the place of the one before; raises Outdated.

    The caller holds the Mysis's row. ``tokens`` are those of what it replaces and
    its own.
    """
    # Locked, so that it cannot be reverted at the same moment.
    before = read_newest_summary(span.mysis_id, lock=True)
    if (before.generation if before else 0) != span.generation:
        raise Outdated("Another summary was made meanwhile.")
    rows = log_rows.read_span(span.mysis_id, span.first_id, span.through_id)
    if hash_span(log_rows.to_messages(rows)) != span.digest:
        raise Outdated("The messages to summarise have changed meanwhile.")
    if before is not None:
        before.status = Status.REPLACED
        before.save(update_fields=["status"])
    order_id, answer_id = _find_order(span, rows, before)
    return _store(
        span,
        effort,
        text=text,
        tokens_before=tokens[0],
        tokens_after=tokens[1],
        error=note,
        order_id=order_id,
        answer_id=answer_id,
    )


def _find_order(
    span: Span, rows: list[LogRow], before: HistorySummary | None
) -> tuple[int | None, int | None]:
    """The newest order up to the end of a span, and the answer that ended it (A15)."""
    order, answer = (before.order_id, before.answer_id) if before else (None, None)
    newest = log_rows.read_newest_order(span.mysis_id, span.through_id)
    if newest is not None and newest.pk != order:
        order, answer = newest.pk, None
    if order is None or answer is not None:
        return order, answer
    said = (row for row in rows if row.role == Role.ASSISTANT and row.content)
    after = (row.pk for row in said if not row.tool_calls and row.pk > order)
    return order, next(after, None)


def record_failure(span: Span, *, error: str, effort: Effort) -> HistorySummary:
    """Store that a summary could not be made, and why."""
    return _store(span, effort, status=Status.FAILED, error=error)


@transaction.atomic
def revert_summary(row: HistorySummary, *, turn: int) -> HistorySummary | None:
    """Take the summary in use back, and return the one before, which is used again.

    ``turn`` is the Mysis's present one. Raises Outdated for one that is not in use.
    """
    rows = HistorySummary.objects.select_for_update()
    current = rows.filter(pk=row.pk, status=Status.ACTIVE).first()
    if current is None:
        raise Outdated("Only the summary in use can be taken back.")
    current.status = Status.REVERTED
    current.turn_number = turn
    current.save(update_fields=["status", "turn_number"])
    older = HistorySummary.objects.filter(
        mysis_id=current.mysis_id,
        status=Status.REPLACED,
        generation=current.generation - 1,
    ).first()
    if older is not None:
        older.status = Status.ACTIVE
        older.save(update_fields=["status"])
    return older


def clear_failures(rows: models.QuerySet[HistorySummary]) -> int:
    """Stop counting failures, which ends breaker and cool-down; how many there were."""
    return rows.filter(status=Status.FAILED).update(status=Status.CLEARED)


@transaction.atomic
def _store(span: Span, effort: Effort, **values: Any) -> HistorySummary:
    """Store a summary, one at a time over the whole fleet.

    So ids have the order of commits, and a reader of all of them by the last id seen
    misses none. They are few.
    """
    fetch_rows(IN_TURN)
    return HistorySummary.objects.create(
        mysis_id=span.mysis_id,
        first_id=span.first_id,
        through_id=span.through_id,
        generation=span.generation + 1,
        history_hash=span.digest,
        **asdict(effort) | {"attempts": max(1, effort.attempts)} | values,
    )
