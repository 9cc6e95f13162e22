"""What an assembly gives: the view, where each of its messages comes from, and why."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memory.context.types import (
    Dialect,
    Disposition,
    Kind,
    OfferedTools,
    Status,
    SummaryWanted,
)

# What became of those that are not sent in full.
_WORDS: Mapping[Disposition, str] = {
    "out_of_window": "outside the window",
    "superseded": "superseded",
    "masked": "masked",
    "truncated": "shortened",
    "summarized": "in the summary",
    "coalesced": "coalesced",
    "dropped_for_budget": "dropped for the budget",
    "orphan": "without a call",
    "empty": "empty",
}


@dataclass(frozen=True, slots=True)
class Synthetic:
    """The position and kind of a message of the view that is no stored row."""

    position: int
    kind: Kind


@dataclass(frozen=True, slots=True)
class LedgerLine:
    """What became of one stored message, by which rule or stored id, and why."""

    id: int
    disposition: Disposition
    by: int | str | None
    reason: str
    tokens_in: int
    tokens_out: int
    handle: str | None


@dataclass(frozen=True, slots=True)
class LedgerCounts:
    """How many lines of a ledger have each disposition, and their tokens as stored."""

    lines: int
    tokens_in: int
    by_disposition: Mapping[Disposition, int]

    @classmethod
    def count(cls, ledger: Sequence[LedgerLine]) -> LedgerCounts:
        """Of all lines of a ledger."""
        return cls(
            len(ledger),
            sum([line.tokens_in for line in ledger]),
            Tally([line.disposition for line in ledger]),
        )

    def explain_losses(self) -> str:
        """One sentence that says how many messages were not sent in full, and why."""
        parts = [
            f"{count} {words}"
            for disposition, words in _WORDS.items()
            if (count := self.by_disposition.get(disposition))
        ]
        if not parts:
            return "Every stored message is sent in full."
        return f"Of {self.lines} stored messages: {', '.join(parts)}."


@dataclass(frozen=True, slots=True)
class NoteLine:
    """What became of one note: kept, masked (only named) or dropped_for_budget, and why.

    `tokens` are those that its entry takes in the view. `version` is there where the
    note has one.
    """

    name: str
    disposition: Disposition
    reason: str
    tokens: int
    handle: str
    version: int | None = None


@dataclass(frozen=True, slots=True)
class CoalescedTurn:
    """A turn of a coalesced log: its stored ids, what is told of it, and what is not."""

    rows: tuple[int, ...]
    told: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Impossible:
    """The component that does not fit; what it needs and what is left, in tokens."""

    component: str
    need: int
    have: int


Source = int | list[int] | None


@dataclass(frozen=True, slots=True)
class Assembly:
    """One view ready to send, with ledger, statistics and warnings.

    `system` is set only in the anthropic dialect, where the system text is no
    message. `impossible` is set only with status `budget_impossible`. `encoded` are
    the messages as canonical JSON, one by one, where another view may follow. Of a
    coalesced view, `told` are the orders that its message quotes, and `turns` what it
    tells of each turn.
    """

    status: Status
    reason: str
    messages: list[dict[str, Any]]
    sources: list[Source]
    synthetic: list[Synthetic]
    ledger: list[LedgerLine]
    stats: dict[str, Any]
    warnings: list[str]
    summary_wanted: SummaryWanted | None = None
    system: str | None = None
    impossible: Impossible | None = None
    dialect: Dialect = "openai"
    encoded: Sequence[bytes] = ()
    notes: Sequence[NoteLine] = ()
    offered: OfferedTools | None = None
    told: tuple[int, ...] = ()
    usage: bool = False
    turns: tuple[CoalescedTurn, ...] = ()
