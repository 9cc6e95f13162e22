"""Which stored rows an assembly is given: enough for its strategy, never all.

Every read goes by an index, so that a history of a million messages costs no more than
one of a thousand. What is loaded begins at a place that seldom moves, since a view
whose beginning changes with every call is in no provider's cache. Rows are read as
tuples: a model instance costs several times the rest of the work.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import accumulate

from memory.assembly.log_rows import (
    COLUMNS,
    LAST,
    NOW,
    SIZE,
    LogRow,
    Standing,
    read_rows,
    to_message,
    to_rows,
)
from memory.context import registry
from memory.context.strategy import Reads
from memory.context.types import Budget, Message
from memory.models import HistorySummary, Role, SentContext, fetch_rows
from memory.models.log import IS_ORDER, STOOD

# Rows for the windowed strategies: enough to show what a default window leaves out.
TAIL_ROWS = 120
ROWS_PER_WINDOW = 4
# Rows for the others: no message of the game is shorter than so many tokens.
TOKENS_PER_ROW = 16
LEAST_ROWS = 400
MOST_ROWS = 4_000
# And at most so many bytes: a view shows a sixteenth of it, and a row may have a megabyte.
BYTES_PER_TOKEN = 64
LEAST_BYTES = 2_000_000
# With the first row that is too much, which says that there are more. Apart from them,
# without a size, the newest order and what a summary stands for; and with a size of -1
# a row that says that there are older ones.
_NEWEST = f"""
SELECT * FROM ({COLUMNS}, size FROM (
  SELECT *, row_number() OVER newest AS place, sum(size) OVER newest AS bytes FROM (
    SELECT id, role, origin, content, reasoning, signature, tool_calls, tool_call_id,
      is_error, pending, tick, turn_id, sender, created_at, {SIZE} AS size
    FROM memory_memory
    -- As a span: else the planner may walk back through the rows of every Mysis.
    WHERE mysis_id BETWEEN %(mysis)s AND %(mysis)s
      AND id > %(after)s AND id <= %(through)s AND {STOOD}
    ORDER BY mysis_id, id DESC LIMIT %(limit)s
  ) AS tail
  WINDOW newest AS (ORDER BY id DESC ROWS UNBOUNDED PRECEDING)
) AS sizes
WHERE place <= 2 OR bytes - size <= %(most)s ORDER BY id DESC) AS newest
UNION ALL ({COLUMNS}, NULL FROM memory_memory
  WHERE mysis_id = %(mysis)s AND id <= %(through)s AND {IS_ORDER}
    AND {STOOD}
  ORDER BY id DESC LIMIT 1)
UNION ALL ({COLUMNS}, NULL FROM memory_memory
  WHERE mysis_id = %(mysis)s AND id = ANY(%(covered)s))
UNION ALL (SELECT id, role, origin, '', '', '', '[]', '', false, false, NULL, NULL, '', '', -1
  FROM memory_memory WHERE mysis_id = %(mysis)s AND id > %(floor)s AND id <= %(after)s
    AND {STOOD}
  ORDER BY id DESC LIMIT 1)
"""  # noqa: S608 (no input in the text)
# From the newest answer of the model before an id: what results after it belong to.
_BEFORE = f"""
WHERE mysis_id = %(mysis)s AND id < %(before)s AND {STOOD} AND id >= (
  SELECT id FROM memory_memory
  WHERE mysis_id = %(mysis)s AND id < %(before)s AND role = 'assistant' AND {STOOD}
  ORDER BY id DESC LIMIT 1
) ORDER BY id LIMIT %(limit)s
"""  # noqa: S608 (no input in the text)
_SINCE = f"""
WHERE mysis_id = %(mysis)s AND {STOOD}
  AND ((id > %(after)s AND id <= %(through)s) OR id = ANY(%(unsure)s))
ORDER BY id
"""


@dataclass(frozen=True, slots=True)
class TailRequest:
    """Whose rows are wanted, for which strategy and budget, after which summary.

    Reading goes on where that of ``last``, the call before, began. Rows after
    ``through`` are left out, and those that are not ``standing``.
    """

    mysis_id: int
    strategy: str
    window: object
    budget: Budget
    summary: HistorySummary | None = None
    last: SentContext | None = None
    through: int = LAST
    standing: Standing = NOW


@dataclass(frozen=True, slots=True)
class LoadedTail:
    """What was loaded. ``start`` is the first id of the unbroken run at its end.

    ``cut``: older rows were left out that no summary covers. ``wish`` is what it was
    loaded for.
    """

    messages: tuple[Message, ...]
    rows: Mapping[int, LogRow]
    start: int | None
    cut: bool = False
    wish: TailRequest | None = None


def load_tail(
    wish: TailRequest,
    earlier: LoadedTail | None = None,
    known: LoadedTail | None = None,
    shared: SharedRows | None = None,
) -> LoadedTail:
    """The rows that a strategy has to be given, oldest first.

    The newest order of a human or a broadcast is always among them (I17), and no
    result is without its call. What an ``earlier`` call of the turn was given is not
    read again; rows like those ``known`` of an earlier turn give the same messages.
    ``shared`` are read for other views of the same moment too.
    """
    extended = _extend_tail(wish, earlier, shared) if earlier else None
    if extended is not None:
        return extended
    if find_reads(wish.strategy) == "newest":
        limit, most = _count_newest_rows(wish), compute_byte_limit(wish.budget)
        read = _read_newest(wish, 0, limit, most)
        if read.more:
            read.rows[:] = _with_call(wish, read.rows)
        cut = False
    else:
        read, cut = _read_from_steady_start(wish)
    rows = read.rows
    found = {row.pk: row for row in rows}
    shown = rows and not any(row.is_order for row in rows)
    for row in read.beside:
        if row.pk in _list_covered(wish) or (shown and row.is_order):
            found.setdefault(row.pk, row)
    old = known.rows if known else {}
    found = dict(sorted(found.items()))
    found |= {pk: row for pk, row in old.items() if found.get(pk) == row}
    start = rows[0].pk if rows else None
    return LoadedTail(_make_messages(found, known), found, start, cut, wish)


class SharedRows:
    """Rows of the past, where nothing changes: read once for all views of one moment."""

    def __init__(self) -> None:
        self._asked: tuple[int, int, int, Standing] | None = None
        self._rows: list[LogRow] = []
        self._messages: dict[int, Message] = {}

    def read(
        self, mysis_id: int, after: int, through: int, standing: Standing
    ) -> list[LogRow]:
        """The rows after an id, up to another, that stood."""
        asked = mysis_id, after, through, standing
        if self._asked != asked:
            self._rows = _read_since(*asked, [])
            self._asked = asked
            self._messages = {row.pk: to_message(row) for row in self._rows}
        return self._rows

    def to_message(self, row: LogRow) -> Message:
        """A row that was just read as the message that all views have of it."""
        return self._messages[row.pk]


def _read_since(
    mysis_id: int, after: int, through: int, standing: Standing, unsure: list[int]
) -> list[LogRow]:
    values = {"mysis": mysis_id, "after": after, "through": through, "unsure": unsure}
    return read_rows(_SINCE, values | standing._asdict())


def _extend_tail(
    wish: TailRequest, earlier: LoadedTail, shared: SharedRows | None
) -> LoadedTail | None:
    """The earlier rows with those since; None where they must be read anew.

    Of the earlier ones only results may have changed: those that were open, and those
    with an error in the place of what is not known.
    """
    asked = earlier.wish
    if asked is None or wish.through < asked.through:
        return None
    if replace(wish, last=asked.last, through=asked.through) != asked:
        return None
    known, before = earlier.rows, earlier.start
    if before is None:
        return None
    place = wish.mysis_id, max(known), wish.through, wish.standing
    if shared is not None:
        since = shared.read(*place)
    else:
        unsure = [row.pk for row in known.values() if row.pending or row.is_error]
        since = _read_since(*place, unsure)
    new = {row.pk: row for row in since if known.get(row.pk) != row}
    found = {**known, **new}
    run = _cut_run(wish, [row for pk, row in found.items() if pk >= before])
    # A new order takes the place of an older one that was read by itself.
    ordered = any(row.is_order for row in new.values())
    if run is None or (ordered and before > min(known)):
        return None
    start = run[0].pk
    if start > before:
        orders = [row for row in found.values() if row.is_order]
        beside = [row for row in orders[-1:] if row.pk < start]
        found = {row.pk: row for row in (*beside, *run)}
    elif known.keys().isdisjoint(new):
        # As nearly always: all stays, and some are added.
        make = shared.to_message if shared else to_message
        messages = (*earlier.messages, *map(make, new.values()))
        return LoadedTail(messages, found, start, earlier.cut, wish)
    return LoadedTail(_make_messages(found, earlier), found, start, earlier.cut, wish)


def _cut_run(wish: TailRequest, run: list[LogRow]) -> list[LogRow] | None:
    """What of the unbroken rows at the end is still wanted; None: it must be read."""
    most = compute_byte_limit(wish.budget)
    if find_reads(wish.strategy) != "newest":
        few = len(run) < compute_row_limit(wish.budget)
        return run if few and sum(row.size or 0 for row in run) <= most else None
    limit = _count_newest_rows(wish)
    fit = _count_fitting(run[: -limit - 1 : -1], most)
    first = len(run) - fit
    if (fit == limit or first) and run[first].role == Role.TOOL:
        calls = (at for at in range(first, -1, -1) if run[at].role == Role.ASSISTANT)
        call = next(calls, None)
        if call is None or first - call > TAIL_ROWS:
            return None
        first = call
    return run[first:]


def _count_fitting(newest_first: Iterable[LogRow], most: int) -> int:
    """How many rows have at most so many bytes; one has, whatever its size."""
    sizes = accumulate(row.size or 0 for row in newest_first)
    return sum(size <= most or place == 0 for place, size in enumerate(sizes))


def _count_newest_rows(wish: TailRequest) -> int:
    wanted = wish.window * ROWS_PER_WINDOW if isinstance(wish.window, int) else 0
    return min(MOST_ROWS, max(TAIL_ROWS, wanted))


def find_reads(strategy: str) -> Reads:
    """What a strategy reads; one that is gone is replaced by the window."""
    try:
        return registry.find_strategy(strategy).reads
    except registry.UnknownStrategy:
        return "newest"


def compute_row_limit(budget: Budget) -> int:
    """How many rows a budget can have use for."""
    return min(MOST_ROWS, max(LEAST_ROWS, budget.tokens // TOKENS_PER_ROW))


def compute_byte_limit(budget: Budget) -> int:
    """How many bytes of text a budget can have use for."""
    return max(LEAST_BYTES, budget.tokens * BYTES_PER_TOKEN)


def _read_from_steady_start(wish: TailRequest) -> tuple[_NewestRows, bool]:
    """All rows after a summary, or after the start of the last call, up to a limit.

    Where there are more, the newest half of that many; the next calls go on from there
    until the limit is reached again (I25, I26). A new or reverted summary starts anew.
    """
    most = compute_row_limit(wish.budget)
    allowed = compute_byte_limit(wish.budget)
    floor = _find_floor(wish)
    read = _read_newest(wish, max(floor, _last_start(wish) - 1), most, allowed)
    if not read.more:
        return read, read.older
    if len(read.rows) < most:
        read = _read_newest(wish, floor, most, allowed // 2)
    else:
        del read.rows[: -(most // 2)]
    read.rows[:] = _with_call(wish, read.rows)
    return read, True


def _find_floor(wish: TailRequest) -> int:
    """The id up to which a summary stands for all rows, 0 where none is used."""
    used = wish.summary if find_reads(wish.strategy) == "unsummarized" else None
    return used.through_id if used else 0


def _last_start(wish: TailRequest) -> int:
    last = wish.last
    if last is None or last.strategy != wish.strategy or last.first_id is None:
        return 0
    generation = wish.summary.generation if wish.summary else 0
    return last.first_id if last.stats.get("generation") == generation else 0


@dataclass(frozen=True, slots=True)
class _NewestRows:
    """Rows, oldest first; ``more``: there may be more of them than were asked for.

    ``beside`` are the newest order and what the summary covers; ``older``: there are
    rows before those that were asked for.
    """

    rows: list[LogRow]
    more: bool
    beside: list[LogRow]
    older: bool


def _read_newest(wish: TailRequest, after: int, limit: int, most: int) -> _NewestRows:
    """The newest rows after an id, at most ``limit``, of at most ``most`` bytes.

    The newest of all is never left out.
    """
    values = {
        "mysis": wish.mysis_id,
        "after": after,
        "floor": _find_floor(wish),
        "through": wish.through,
        **wish.standing._asdict(),
        "covered": _list_covered(wish),
        "limit": limit,
        "most": most,
    }
    found = to_rows(fetch_rows(_NEWEST, values))
    rows = [row for row in found if row.size is not None and row.size >= 0]
    rows.sort(key=lambda row: row.pk, reverse=True)
    fit = _count_fitting(rows, most)
    return _NewestRows(
        rows[:fit][::-1],
        fit < len(rows) or fit == limit,
        [row for row in found if row.size is None],
        any(row.size == -1 for row in found),
    )


def _with_call(wish: TailRequest, rows: list[LogRow]) -> list[LogRow]:
    """The rows, with the call of results at the cut and all that lies between."""
    if not rows or rows[0].role != Role.TOOL:
        return rows
    values = {
        "mysis": wish.mysis_id,
        "before": rows[0].pk,
        "limit": TAIL_ROWS,
        **wish.standing._asdict(),
    }
    return [*read_rows(_BEFORE, values), *rows]


def _list_covered(wish: TailRequest) -> list[int]:
    """The newest order that a summary covers, and the answer that ended it (A15)."""
    if wish.summary is None or not _find_floor(wish):
        return []
    both = (wish.summary.order_id, wish.summary.answer_id)
    return [pk for pk in both if pk is not None]


def _make_messages(
    rows: Mapping[int, LogRow], known: LoadedTail | None
) -> tuple[Message, ...]:
    old = known or LoadedTail((), {}, None)
    same = {m.id: m for m in old.messages if old.rows[m.id] is rows.get(m.id)}
    return tuple(same.get(pk) or to_message(row) for pk, row in rows.items())
