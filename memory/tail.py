"""Which stored rows an assembly is given: enough for its strategy, never all.

Every read goes by an index, so that a history of a million messages costs no more
than one of a thousand. What is loaded begins at a place that seldom moves, since a
view whose beginning changes with every call is in no provider's cache.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from .context import registry
from .context.strategy import Reads
from .context.types import Budget, Message, Summary
from .history import messages_of
from .models import HistorySummary, Memory, Origin, Role, SentContext

# Rows for the windowed strategies: enough that a window of the default size shows
# what it left out.
TAIL_ROWS = 120
ROWS_PER_WINDOW = 4
# Rows for the others: no message of the game is shorter than so many tokens.
TOKENS_PER_ROW = 16
LEAST_ROWS = 400
MOST_ROWS = 4_000
UNREAD_COLUMNS = ("content_vector", "reasoning_vector")
INTENT = (Origin.HUMAN, Origin.BROADCAST)


@dataclass(frozen=True, slots=True)
class Tail:
    """What was loaded. ``start`` is the first id of the unbroken run at its end."""

    messages: tuple[Message, ...]
    rows: Mapping[int, Memory]
    start: int | None


def load(
    mysis_id: int,
    *,
    strategy: str,
    window: object,
    budget: Budget,
    summary: Summary | None,
) -> Tail:
    """The rows that a strategy has to be given, oldest first.

    The newest order of a human or a broadcast is always among them (I17), and no
    result is without its call.
    """
    reads = reads_of(strategy)
    if reads == "newest":
        rows = _newest(mysis_id, 0, _rows_for(window))
    else:
        after = summary.through_id if summary and reads == "unsummarized" else 0
        rows = _from_a_steady_start(mysis_id, strategy, after, most_rows(budget))
    found = {row.pk: row for row in rows}
    if reads == "unsummarized" and summary:
        found.update((row.pk, row) for row in _covered(mysis_id, summary.through_id))
    intent = Memory.objects.newest_intent(mysis_id)
    if intent is not None and rows:
        found[intent.pk] = intent
    messages = messages_of(found[number] for number in sorted(found))
    return Tail(messages, found, rows[0].pk if rows else None)


def newest_summary(mysis_id: int) -> HistorySummary | None:
    """The summary that views use."""
    return (
        HistorySummary.objects.filter(
            mysis_id=mysis_id, status=HistorySummary.Status.ACTIVE
        )
        .order_by("-through_id")
        .first()
    )


def reads_of(strategy: str) -> Reads:
    """What a strategy reads; one that is gone is replaced by the window."""
    try:
        return registry.resolve(strategy).reads
    except registry.UnknownStrategy:
        return "newest"


def most_rows(budget: Budget) -> int:
    """How many rows may be of use within a budget."""
    return min(MOST_ROWS, max(LEAST_ROWS, budget.tokens // TOKENS_PER_ROW))


def _rows_for(window: object) -> int:
    wanted = window * ROWS_PER_WINDOW if isinstance(window, int) else 0
    return min(MOST_ROWS, max(TAIL_ROWS, wanted))


def _from_a_steady_start(
    mysis_id: int, strategy: str, after: int, most: int
) -> list[Memory]:
    """All rows after an id, or after the start of the last call, `most` at most.

    Where there are more, the newest half of that many; the next calls go on from
    there until the limit is reached again (I25, I26).
    """
    last = (
        SentContext.objects.filter(mysis_id=mysis_id)
        .order_by("-id")
        .values_list("strategy", "first_id")
        .first()
    )
    start = (last[1] or 0) if last and last[0] == strategy else 0
    rows = _newest(mysis_id, max(after, start - 1), most)
    return rows if len(rows) < most else _whole(mysis_id, rows[-(most // 2) :])


def _newest(mysis_id: int, after: int, limit: int) -> list[Memory]:
    log = Memory.objects.defer(*UNREAD_COLUMNS).filter(pk__gt=after)
    rows = log.tail(mysis_id, limit)
    return _whole(mysis_id, rows) if len(rows) == limit else rows


def _whole(mysis_id: int, rows: list[Memory]) -> list[Memory]:
    """With the call of the results at the cut, and what lies between."""
    if not rows or rows[0].role != Role.TOOL:
        return rows
    older = Memory.objects.defer(*UNREAD_COLUMNS).filter(
        mysis_id=mysis_id, pk__lt=rows[0].pk
    )
    call = older.filter(role=Role.ASSISTANT).order_by("-pk").first()
    if call is None:
        return rows
    return [*older.filter(pk__gte=call.pk).order_by("pk")[:TAIL_ROWS], *rows]


def _covered(mysis_id: int, through: int) -> Iterable[Memory]:
    """The newest order that a summary covers, and the answer that ended it (A15)."""
    told = Memory.objects.defer(*UNREAD_COLUMNS).filter(
        mysis_id=mysis_id, pk__lte=through
    )
    order = told.filter(origin__in=INTENT).order_by("-pk").first()
    if order is None:
        return []
    answers = told.filter(pk__gt=order.pk, role=Role.ASSISTANT, tool_calls=[])
    answer = answers.exclude(content="").order_by("pk").first()
    return [order] if answer is None else [order, answer]
