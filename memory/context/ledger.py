"""One line for every stored message: what became of it and why (I20, I21)."""

from __future__ import annotations

import json
from collections import Counter as Tally
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memory.context.types import Disposition, LedgerLine, Message, handle_of
from memory.context.units import Fate, Unit

#: What a row that is in the view may be called, and what one that is not.
_PRESENT: frozenset[Disposition] = frozenset(
    {"kept", "pinned", "superseded", "masked", "truncated", "displaced"}
)
_ABSENT: frozenset[Disposition] = frozenset(
    {
        "pinned",
        "superseded",
        "masked",
        "summarized",
        "out_of_window",
        "orphan",
        "coalesced",
        "dropped_for_budget",
        "empty",
    }
)
_IN_FULL: frozenset[Disposition] = frozenset({"kept", "pinned", "displaced"})
_KEPT = Fate("kept", None, "Sent as stored.")


@dataclass(frozen=True, slots=True)
class Account:
    """What the ledger is drawn from; `fates` in the order in which they applied."""

    messages: Sequence[Message]
    tokens_in: Mapping[int, int]
    fates: Sequence[Mapping[int, Fate]]
    pins: Mapping[int, int]
    mysis: str
    strategy: str


def write(account: Account, view: Mapping[int, int]) -> list[LedgerLine]:
    """The ledger of a view; `view` holds the tokens sent of each stored row in it."""
    left_out = Fate("out_of_window", account.strategy, "Older than what is sent.")
    lines = []
    for message in account.messages:
        fate = _fate_of(message.id, account, message.id in view, left_out)
        tokens_out = view.get(message.id, 0)
        if fate.disposition == "pinned":
            tokens_out += account.pins.get(message.id, 0)
        lines.append(_line(message.id, fate, account, tokens_out))
    return lines


def write_unsent(account: Account, fate: Fate) -> list[LedgerLine]:
    """The ledger where nothing is sent: what repair found, else the given fate."""
    repaired = account.fates[0]
    lines = []
    for message in account.messages:
        found = repaired.get(message.id, fate)
        if found.disposition not in ("orphan", "empty", "superseded"):
            found = fate
        lines.append(_line(message.id, found, account, 0))
    return lines


def sent_tokens(units: Iterable[Unit]) -> dict[int, int]:
    """The tokens sent of each stored row of a view."""
    return {
        item.source: item.tokens
        for unit in units
        for item in unit.items
        if item.source is not None
    }


def _fate_of(message_id: int, account: Account, present: bool, left_out: Fate) -> Fate:
    if message_id in account.pins:
        return account.fates[0][message_id]
    allowed = _PRESENT if present else _ABSENT
    for fates in reversed(account.fates):
        fate = fates.get(message_id)
        if fate is not None and fate.disposition in allowed:
            return fate
    return _KEPT if present else left_out


def _line(message_id: int, fate: Fate, account: Account, tokens_out: int) -> LedgerLine:
    in_full = fate.disposition in _IN_FULL
    return LedgerLine(
        id=message_id,
        disposition=fate.disposition,
        by=fate.by,
        reason=fate.reason,
        tokens_in=account.tokens_in[message_id],
        tokens_out=tokens_out,
        handle=None if in_full else handle_of(account.mysis, message_id),
    )


# SECTION The figures of a view: every key every time, whatever happened (I28).

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
