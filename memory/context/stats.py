"""The figures of a view: every key every time, whatever happened (I28)."""

from __future__ import annotations

import json
from collections import Counter as Tally
from collections.abc import Mapping, Sequence
from typing import Any

from memory.context.types import Disposition, LedgerLine, Message

Messages = Sequence[Mapping[str, Any]]

#: The dictionary of seed 004 where nothing was coalesced.
NO_COMPRESSION: Mapping[str, object] = {
    "enabled": False,
    "strategy": "none",
    "turns_compressed": 0,
    "tool_calls_total": 0,
    "tool_calls_shown": 0,
    "tool_calls_dropped": 0,
    "printlns_total": 0,
    "printlns_shown": 0,
    "printlns_dropped": 0,
    "error_turns_collapsed": 0,
}
CATEGORIES = (
    "system",
    "tools",
    "pins",
    "summary",
    "state",
    "user",
    "assistant",
    "tool",
)


def from_ledger(
    ledger: Sequence[LedgerLine], messages: Sequence[Message]
) -> dict[str, int]:
    """The counts that follow from the dispositions. `superseded` counts results."""
    tally = Tally(line.disposition for line in ledger)
    superseded = sum(
        line.disposition == "superseded" and message.role == "tool"
        for line, message in zip(ledger, messages, strict=True)
    )
    return {
        "messages_in": len(ledger),
        "tokens_in": sum(line.tokens_in for line in ledger),
        "superseded": superseded,
        "masked": tally["masked"],
        "truncated": tally["truncated"],
        "summarized": tally["summarized"],
        "orphans": tally["orphan"],
        "displaced": tally["displaced"],
    }


def reason_of(ledger: Sequence[LedgerLine]) -> str:
    """One sentence that tells what was not sent in full."""
    tally = Tally(line.disposition for line in ledger)
    parts = [
        f"{tally[disposition]} {words}"
        for disposition, words in _WORDS.items()
        if tally[disposition]
    ]
    if not parts:
        return "Every stored message is sent in full."
    return f"Of {len(ledger)} stored messages: {', '.join(parts)}."


def shared_bytes(previous: Messages | None, view: Messages) -> int:
    """How many leading bytes of the view the previous one had too (I25)."""
    total = 0
    for before, now in zip(previous or (), view, strict=False):
        one, other = _bytes(before), _bytes(now)
        if one != other:
            return total + _common(one, other)
        total += len(one)
    return total


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


# One for all messages of a view: making an encoder takes longer than a short message.
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def _bytes(message: Mapping[str, Any]) -> bytes:
    return _encode(message).encode("utf-8", "surrogatepass")


def _common(one: bytes, other: bytes) -> int:
    for index, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return index
    return min(len(one), len(other))
