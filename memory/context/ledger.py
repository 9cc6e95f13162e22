"""The ledger of a view: what became of each stored message and why (I20, I21).

The statistics that follow from it are counted here as well.
"""

from __future__ import annotations

import json
from collections import Counter as Tally
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from memory.context.repair import RepairedRequest
from memory.context.types import (
    DISPOSITIONS,
    Disposition,
    LedgerLine,
    Message,
    handle_of,
)
from memory.context.units import Fate, Unit

Messages = Sequence[Mapping[str, Any]]

#: The dispositions that a row of the view may have, and those of one that is not in it.
_PRESENT: frozenset[Disposition] = frozenset(
    {"kept", "pinned", "superseded", "masked", "truncated", "displaced"}
)
_ABSENT = frozenset(DISPOSITIONS) - {"kept", "truncated", "displaced"}
#: Whose text is sent as it was stored.
SENT_WHOLE: frozenset[Disposition] = frozenset({"kept", "pinned", "displaced"})
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
_KEPT = Fate("kept", None, "Sent as stored.")
# One for all messages of a view: making an encoder takes longer than a short message.
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def write_ledger(
    prepared: RepairedRequest,
    fates: Sequence[Mapping[int, Fate]],
    view: Mapping[int, int],
) -> list[LedgerLine]:
    """The ledger of a view, which holds so many tokens of each stored row in it.

    `fates` stand in the order in which they applied, after those of the repair.
    """
    repaired = prepared.repaired
    left_out = Fate(
        "out_of_window", prepared.request.strategy, "Older than what is sent."
    )
    newest_first = [*(each for each in reversed(fates) if each), repaired.fates]
    lines = []
    for message in prepared.messages:
        row = message.id
        if row in repaired.pins:
            fate = repaired.fates[row]
        elif row in view:
            fate = _find_fate(row, newest_first, _PRESENT) or _KEPT
        else:
            fate = _find_fate(row, newest_first, _ABSENT) or left_out
        tokens_out = view.get(row, 0)
        if fate.disposition == "pinned" and row in repaired.pins:
            tokens_out += prepared.count(repaired.pins[row])
        lines.append(_line(row, fate, prepared, tokens_out))
    return lines


def write_unsent_ledger(prepared: RepairedRequest, fate: Fate) -> list[LedgerLine]:
    """The ledger where nothing is sent: what the repair found, else the given fate."""
    lines = []
    for message in prepared.messages:
        found = prepared.repaired.fates.get(message.id, fate)
        if found.disposition not in ("orphan", "empty", "superseded"):
            found = fate
        lines.append(_line(message.id, found, prepared, 0))
    return lines


def _find_fate(
    row: int,
    newest_first: Iterable[Mapping[int, Fate]],
    allowed: frozenset[Disposition],
) -> Fate | None:
    for fates in newest_first:
        fate = fates.get(row)
        if fate is not None and fate.disposition in allowed:
            return fate
    return None


def _line(
    row: int, fate: Fate, prepared: RepairedRequest, tokens_out: int
) -> LedgerLine:
    whole = fate.disposition in SENT_WHOLE
    return LedgerLine(
        id=row,
        disposition=fate.disposition,
        by=fate.by,
        reason=fate.reason,
        tokens_in=prepared.repaired.tokens_in[row],
        tokens_out=tokens_out,
        handle=None if whole else handle_of(prepared.request.mysis, row),
    )


def count_sent_tokens(units: Iterable[Unit]) -> dict[int, int]:
    """The tokens sent of each stored row of a view."""
    return {
        item.source: item.tokens
        for unit in units
        for item in unit.items
        if item.source is not None
    }


def count_dispositions(
    ledger: Sequence[LedgerLine], messages: Sequence[Message]
) -> dict[str, int]:
    """The statistics that count dispositions; of superseded rows only results count."""
    tally = Tally(line.disposition for line in ledger)
    superseded = sum(
        line.disposition == "superseded" and message.role == "tool"
        for line, message in zip(ledger, messages, strict=True)
    )
    return {
        "superseded": superseded,
        "masked": tally["masked"],
        "truncated": tally["truncated"],
        "summarized": tally["summarized"],
        "orphans": tally["orphan"],
        "displaced": tally["displaced"],
    }


def explain_losses(ledger: Sequence[LedgerLine]) -> str:
    """One sentence that says how many messages were not sent in full, and why."""
    tally = Tally(line.disposition for line in ledger)
    parts = [
        f"{tally[disposition]} {words}"
        for disposition, words in _WORDS.items()
        if tally[disposition]
    ]
    if not parts:
        return "Every stored message is sent in full."
    return f"Of {len(ledger)} stored messages: {', '.join(parts)}."


def count_shared_bytes(previous: Messages | None, view: Messages) -> int:
    """How many leading bytes of the view the previous one had too (I25)."""
    total = 0
    for before, now in zip(previous or (), view, strict=False):
        one, other = (
            _encode(message).encode("utf-8", "surrogatepass")
            for message in (before, now)
        )
        if one != other:
            return total + _count_common_bytes(one, other)
        total += len(one)
    return total


def _count_common_bytes(one: bytes, other: bytes) -> int:
    for index, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return index
    return min(len(one), len(other))
