"""Who stands still, since when and why, and whether somebody wanted it so.

A Mysis idles as it was asked to where the newest order to it was done since its start
and none is open. All others idle unasked: those that left an order undone, whose orders
were cleared, or that were never started too, for nobody told them to wait. Stopped ones
are at rest by an operator's word, and do not count.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple

from agents.models import Mysis, OrderState
from agents.models.fleet import find_page_key
from agents.models.orders import OPEN_STATES
from memory.gamestate.values import format_line
from memory.models import fetch_rows

# Seconds: one that is idle again so soon after its start had nothing to do.
SOON = 60
# Characters of an order in a line.
TEXT = 80
# Names that a line has.
NAMED = 6
# Names that programs are told of a group.
LISTED = 50
# Numbers that an address can carry; more are chosen by their state.
ADDRESSED = 500

# Asked by each look at the fleet: the ORM would take longer to write it than the server
# to answer.
_IDLE = """
SELECT mysis.id, mysis.name, mysis.turn_count, mysis.last_error,
  coalesce(last.finished_at, mysis.last_memory_at, mysis.created_at),
  CASE WHEN first.trigger = 'start'
    THEN extract(epoch FROM last.finished_at - first.started_at)::float8 END,
  given.order_id, given.state, left(told.text, %(head)s),
  coalesce(given.changed_at < first.started_at, false), waiting.order_id
FROM agents_mysis AS mysis
LEFT JOIN LATERAL (
  SELECT finished_at FROM agents_turn WHERE mysis_id = mysis.id
  ORDER BY id DESC LIMIT 1) AS last ON true
LEFT JOIN LATERAL (
  SELECT trigger, started_at FROM agents_turn
  WHERE mysis_id = mysis.id AND epoch = mysis.epoch ORDER BY id LIMIT 1
) AS first ON true
LEFT JOIN LATERAL (
  SELECT order_id, changed_at, state FROM agents_orderrecipient
  WHERE mysis_id = mysis.id ORDER BY order_id DESC LIMIT 1) AS given ON true
LEFT JOIN LATERAL (
  SELECT order_id FROM agents_orderrecipient
  WHERE mysis_id = mysis.id AND state = ANY(%(open)s::text[])
  ORDER BY order_id DESC LIMIT 1) AS waiting ON true
LEFT JOIN agents_order AS told ON told.id = given.order_id
WHERE mysis.state = %(state)s
  AND (%(ids)s::bigint[] IS NULL OR mysis.id = ANY(%(ids)s::bigint[]))
ORDER BY mysis.id
"""


class Reason(StrEnum):
    """Why a Mysis idles, as REST and MCP name it."""

    NEVER_STARTED = "never_started"
    ORDER_DONE = "order_done"
    ORDER_NOT_DONE = "order_not_done"
    ORDER_CLEARED = "order_cleared"
    NO_ANSWER = "no_answer"
    NOTHING_DONE = "nothing_done"


# Why one idles whose newest order has ended so, and no other is open.
_ENDED: Mapping[str, Reason] = {
    OrderState.DONE: Reason.ORDER_DONE,
    OrderState.NOT_DONE: Reason.ORDER_NOT_DONE,
    OrderState.SUPERSEDED: Reason.ORDER_CLEARED,
}
# Asked for is what an order says.
ASKED = frozenset({Reason.ORDER_DONE})


@dataclass(frozen=True, slots=True)
class Idle:
    """One Mysis that idles.

    ``order`` is the newest one to it, "" for none, and ``order_id`` its number;
    ``newest_open`` is that of the newest that nobody has ended, None where none is open.
    ``lasted`` are the seconds from its start until it idled again, if under a minute.
    """

    id: int
    name: str
    since: datetime
    reason: Reason
    order: str = ""
    order_id: int | None = None
    newest_open: int | None = None
    lasted: int | None = None
    error: str = ""

    @property
    def key(self) -> str:
        return find_page_key(self.id, self.name)

    @property
    def words(self) -> str:
        """Why it idles, and after which order."""
        why = _WHY[self.reason], self._after_start
        if self.reason == Reason.NOTHING_DONE:
            # In a narrow row what it was told says more than that it did nothing.
            return _join(self.order_words, *why)
        return _join(*why, self.order_words, self.error)

    @property
    def order_words(self) -> str:
        return f"last order '{self.order}'" if self.order else ""

    @property
    def _after_start(self) -> str:
        return (
            "" if self.lasted is None else f"idle again {self.lasted} s after its start"
        )


_WHY: Mapping[Reason, str] = {
    Reason.NEVER_STARTED: "never started",
    Reason.ORDER_DONE: "its order is done",
    Reason.ORDER_NOT_DONE: "its order was left undone",
    Reason.ORDER_CLEARED: "its order was cleared",
    Reason.NO_ANSWER: "its model answered nothing",
    Reason.NOTHING_DONE: "its last turns did nothing",
}


def _join(*parts: str) -> str:
    return ", ".join(filter(None, parts))


@dataclass(frozen=True, slots=True)
class IdleGroup:
    """Myses that idle for the same reason after the same order, by name."""

    myses: tuple[Idle, ...]

    @property
    def count(self) -> int:
        return len(self.myses)

    @property
    def since(self) -> datetime:
        """Since when the first of them idles."""
        return min(one.since for one in self.myses)

    @property
    def reason(self) -> Reason:
        return self.myses[0].reason

    @property
    def never_started(self) -> bool:
        return self.reason == Reason.NEVER_STARTED

    @property
    def words(self) -> str:
        """Why they idle, after "13 of 16 idle for 2 min"."""
        first = self.myses[0]
        why = "" if self.reason == Reason.NOTHING_DONE else _WHY[self.reason]
        if self.never_started:
            return _join(first.order_words)
        return _join(
            why, first.order_words or "without an order", self.soon, first.error
        )

    @property
    def text(self) -> str:
        """The words with how many they are, for programs."""
        stands = "never started" if self.never_started else "idle"
        return _join(f"{self.count} {stands}", self.words)

    @property
    def soon(self) -> str:
        """How many were idle again within a minute of their start, in words."""
        count = sum(one.lasted is not None for one in self.myses)
        if not count:
            return ""
        who = "" if self.count == 1 else "all " if count == self.count else f"{count} "
        return f"{who}idle again within a minute of the start"

    @property
    def named(self) -> tuple[Idle, ...]:
        return self.myses[:NAMED]

    @property
    def unnamed(self) -> int:
        return max(0, self.count - NAMED)

    @property
    def ids(self) -> str:
        """Their numbers with commas between, "" for more than an address can carry."""
        if self.count > ADDRESSED:
            return ""
        return ",".join(str(one.id) for one in self.myses)

    @property
    def order_id(self) -> int | None:
        """The number of their order; None where each was given its own."""
        numbers = {one.order_id for one in self.myses}
        return numbers.pop() if len(numbers) == 1 else None

    @property
    def newest_open(self) -> int | None:
        """The number of the newest order of theirs that is open and could be cleared."""
        numbers = (one.newest_open for one in self.myses)
        return max((number for number in numbers if number), default=None)


@dataclass(frozen=True, slots=True)
class Idlers:
    """All that idle, in groups, the largest first: unasked, and as they were asked to."""

    groups: tuple[IdleGroup, ...] = ()
    asked_groups: tuple[IdleGroup, ...] = ()

    @property
    def asked(self) -> int:
        return sum(group.count for group in self.asked_groups)

    @property
    def unasked(self) -> int:
        return sum(group.count for group in self.groups)

    @property
    def total(self) -> int:
        return self.asked + self.unasked


def describe_idlers(idle: Idlers) -> dict[str, Any]:
    """Who idles as REST and MCP tell it; names stop after `LISTED` a group."""
    return {
        "total": idle.total,
        "asked": idle.asked,
        "unasked": idle.unasked,
        "groups": [
            {
                "reason": str(group.reason),
                "count": group.count,
                "since": group.since,
                "order": group.order_id,
                "order_text": group.myses[0].order or None,
                "newest_open": group.newest_open,
                "text": group.text,
                "myses": [one.name for one in group.myses[:LISTED]],
            }
            for group in idle.groups
        ],
    }


def read_idlers() -> Idlers:
    """Who idles in the fleet; as many queries for any number of Myses."""
    return group_idlers(load_idle())


def group_idlers(found: Iterable[Idle]) -> Idlers:
    """Join those that idle for the same reason after the same order."""
    groups: dict[tuple[object, ...], list[Idle]] = defaultdict(list)
    for one in found:
        groups[one.reason, one.order, one.error].append(one)
    made = [
        IdleGroup(tuple(sorted(each, key=lambda one: one.name)))
        for each in groups.values()
    ]
    made.sort(key=lambda group: (-group.count, group.myses[0].name))
    return Idlers(
        tuple(group for group in made if group.reason not in ASKED),
        tuple(group for group in made if group.reason in ASKED),
    )


def load_idle(ids: Sequence[int] | None = None) -> list[Idle]:
    """Those that idle, or of these those that do; one statement for any number."""
    values = {
        "state": Mysis.State.IDLE,
        "ids": None if ids is None else list(ids),
        "open": list(OPEN_STATES),
        "head": 4 * TEXT,
    }
    return [_make_idle(_Row(*row)) for row in fetch_rows(_IDLE, values, prepare=True)]


def read_idle_words(rows: Iterable[Mysis]) -> dict[int, str]:
    """Why each of these idles, by its number; without those that do not."""
    ids = [row.pk for row in rows if row.state == Mysis.State.IDLE]
    return {one.id: one.words for one in load_idle(ids)} if ids else {}


class _Row(NamedTuple):
    """What is stored of one that idles, its newest order, and its newest open one.

    ``lasted`` are the seconds from its start to the end of its last turn, None where it
    was a message that woke it; ``is_old`` says that its order ended before it started.
    """

    id: int
    name: str
    turns: int
    error: str
    since: datetime
    lasted: float | None
    order: int | None
    order_state: str | None
    order_head: str | None
    is_old: bool
    waiting: int | None


def _make_idle(row: _Row) -> Idle:
    lasted = row.lasted
    return Idle(
        id=row.id,
        name=row.name,
        since=row.since,
        reason=_find_reason(row),
        order=format_line(row.order_head or "", TEXT),
        order_id=row.order,
        newest_open=row.waiting,
        lasted=None if lasted is None or not 0 <= lasted < SOON else round(lasted),
        error=format_line(row.error, TEXT),
    )


def _find_reason(row: _Row) -> Reason:
    if row.error:
        return Reason.NO_ANSWER
    # Since its last start, and none is open.
    ended = _ENDED.get(row.order_state or "")
    if ended and row.waiting is None and not row.is_old:
        return ended
    return Reason.NOTHING_DONE if row.turns else Reason.NEVER_STARTED
