"""The result of an assembly: messages, ledger and statistics (I28: every key).

The ledger says what became of each stored message and why (I20, I21).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from memory.context.budget import BudgetImpossible
from memory.context.repair import RepairedRequest
from memory.context.result_types import (
    Assembly,
    LedgerCounts,
    LedgerLine,
)
from memory.context.tokens import choose_error_bound
from memory.context.types import (
    DISPOSITIONS,
    Disposition,
    Status,
    build_handle,
)
from memory.context.units import Fate, Plan, Unit
from memory.context.wire import (
    Messages,
    WireView,
    WrittenUnits,
    encode_message,
    find_problems,
    write_messages,
)

_WAITING = Fate("kept", None, "There is nothing to send beside it.")
_UNSENT = Fate("dropped_for_budget", "budget", "The view cannot be sent.")
# The statistics of compression where nothing was coalesced (seed 004).
_NO_COMPRESSION: Mapping[str, object] = {
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
_CATEGORIES = (
    *("system", "tools", "pins", "summary"),
    *("state", "user", "assistant", "tool"),
)
# The dispositions that a row of the view may have, and those of one that is not in it.
_PRESENT: frozenset[Disposition] = frozenset(
    {"kept", "pinned", "superseded", "masked", "truncated", "displaced"}
)
_ABSENT = frozenset(DISPOSITIONS) - {"kept", "truncated", "displaced"}
_LEFT_OUT: frozenset[Disposition] = frozenset({"out_of_window", "dropped_for_budget"})
# Whose text is sent as it was stored.
_SENT_WHOLE: frozenset[Disposition] = frozenset({"kept", "pinned", "displaced"})
_KEPT = Fate("kept", None, "Sent as stored.")
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class InvalidView(Exception):
    """A view that a provider would refuse; the text lists what is wrong."""


# The line of each row, with what it says: its fate, and tokens before and after.
LedgerByRow = dict[int, tuple[tuple[Fate, int, int], LedgerLine]]


@dataclass(slots=True)
class LastReport:
    """The newest view's units as messages, None if no other follows; its ledger by row."""

    written: WrittenUnits | None = field(default_factory=dict)
    lines: LedgerByRow = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ViewDraft:
    """A view before it is checked; `failure` says why a fallback made it, if one did."""

    plan: Plan
    units: Sequence[Unit]
    fates: Sequence[Mapping[int, Fate]]
    over_budget: bool
    warnings: list[str]
    failure: str = ""


def report_sent(
    prepared: RepairedRequest, sent: ViewDraft, last: LastReport
) -> Assembly:
    """The assembly of a view; InvalidView where the dialect's rules refuse it.

    What it has in common with the `last` one is not made again.
    """
    dialect = prepared.request.dialect
    wire = write_messages(dialect, prepared.system, sent.units, last.written)
    problems = find_problems(dialect, wire.messages)
    if problems:
        raise InvalidView("; ".join(problems[:5]))
    view = _count_sent_tokens(sent.units)
    if prepared.system is not None and prepared.system.source is not None:
        view[prepared.system.source] = prepared.frame.system
    lines = _write_ledger(prepared, sent.fates, view, last)
    counts = LedgerCounts.count(lines)
    status, reason = _choose_status(sent, counts)
    figures = _common_statistics(prepared, lines, counts, status, reason)
    figures.update(_view_statistics(prepared, sent, wire))
    last.written = wire.written
    return Assembly(
        status=status,
        reason=reason,
        messages=wire.messages,
        sources=wire.sources,
        synthetic=wire.synthetic,
        ledger=lines,
        stats=figures,
        warnings=sent.warnings,
        encoded=wire.encoded,
        summary_wanted=sent.plan.summary_wanted,
        system=wire.system,
        dialect=dialect,
        notes=prepared.notes.lines,
        offered=prepared.request.offered,
        told=sent.plan.told,
        usage=prepared.request.usage,
        turns=sent.plan.turns,
    )


def report_unsent(
    prepared: RepairedRequest, error: BudgetImpossible | None
) -> Assembly:
    """The assembly where nothing is sent: no room, or nothing to say."""
    status: Status = "nothing_to_send" if error is None else "budget_impossible"
    reason = "The log holds nothing that can be sent."
    if error is not None:
        reason = error.explain(prepared.request.budget)
    lines = _write_unsent_ledger(prepared, _WAITING if error is None else _UNSENT)
    counts = LedgerCounts.count(lines)
    figures = _common_statistics(prepared, lines, counts, status, reason)
    figures["over_budget"] = error is not None
    return Assembly(
        status=status,
        reason=reason,
        messages=[],
        sources=[],
        synthetic=[],
        ledger=lines,
        stats=figures,
        warnings=[],
        impossible=error.impossible if error else None,
        usage=prepared.request.usage,
        dialect=prepared.request.dialect,
        offered=prepared.request.offered,
    )


def _choose_status(sent: ViewDraft, counts: LedgerCounts) -> tuple[Status, str]:
    if sent.failure:
        return "fallback_used", f"{sent.failure}; the window stands in."
    whole = _SENT_WHOLE.issuperset(counts.by_disposition)
    reason = counts.explain_losses()
    if sent.plan.reason:
        reason = sent.plan.reason if whole else f"{sent.plan.reason} {reason}"
    if sent.plan.status is not None:
        return sent.plan.status, reason
    return ("unchanged" if whole else "reduced"), reason


def _common_statistics(
    prepared: RepairedRequest,
    lines: Sequence[LedgerLine],
    counts: LedgerCounts,
    status: Status,
    reason: str,
) -> dict[str, Any]:
    """Every key, with the values of a view that is not sent."""
    request = prepared.request
    tally = counts.by_disposition
    return {
        "strategy": request.strategy,
        "status": status,
        "reason": reason,
        "messages_in": counts.lines,
        "messages_out": 0,
        "tokens_in": counts.tokens_in,
        "tokens_out": 0,
        "tokens_by_category": dict.fromkeys(_CATEGORIES, 0),
        "budget": request.budget.tokens,
        "reserve": request.budget.reserve,
        "over_budget": False,
        "window_exceeded": False,
        "superseded": _count_superseded(prepared, lines, tally),
        "masked": tally.get("masked", 0),
        "truncated": tally.get("truncated", 0),
        "summarized": tally.get("summarized", 0),
        "orphans": tally.get("orphan", 0),
        "displaced": tally.get("displaced", 0),
        "fillers": 0,
        "prefix_shared_bytes": 0,
        "summary_calls": request.compaction.summary_calls,
        "units_dropped": _count_dropped(prepared, lines, tally),
        "generation": request.summary.generation if request.summary else 0,
        "tick_skew": request.tick_skew,
        "calibration": request.calibration if request.counter == "estimate" else 1.0,
        "estimate_error": choose_error_bound(request.counter, request.estimate_error),
        "build_ms": None,
        "compression": dict(_NO_COMPRESSION),
    }


def _count_superseded(
    prepared: RepairedRequest,
    lines: Sequence[LedgerLine],
    tally: Mapping[Disposition, int],
) -> int:
    """How many results were superseded; prompts are not counted."""
    if "superseded" not in tally:
        return 0
    return sum(
        line.disposition == "superseded" and message.role == "tool"
        for line, message in zip(lines, prepared.messages, strict=True)
    )


def _count_dropped(
    prepared: RepairedRequest,
    lines: Sequence[LedgerLine],
    tally: Mapping[Disposition, int],
) -> int:
    """How many units are outside the window or had no room."""
    if _LEFT_OUT.isdisjoint(tally):
        return 0
    left_out = {line.id for line in lines if line.disposition in _LEFT_OUT}
    return sum([unit.rows[0] in left_out for unit in prepared.units])


def _view_statistics(
    prepared: RepairedRequest, sent: ViewDraft, wire: WireView
) -> dict[str, Any]:
    categories = _count_by_category(prepared, sent.units)
    items = [item for unit in sent.units for item in unit.items]
    return {
        "messages_out": len(wire.messages),
        "tokens_out": sum(categories.values()) - categories["tools"],
        "tokens_by_category": categories,
        "over_budget": sent.over_budget,
        "window_exceeded": sent.plan.window_exceeded,
        "fillers": sum(item.kind == "filler" for item in items),
        "prefix_shared_bytes": count_shared_bytes(
            prepared.request.previous, wire.messages, wire.encoded
        ),
        "compression": {**_NO_COMPRESSION, **(sent.plan.compression or {})},
    }


def _count_by_category(
    prepared: RepairedRequest, units: Sequence[Unit]
) -> dict[str, int]:
    frame, tokens = prepared.frame, dict.fromkeys(_CATEGORIES, 0)
    tokens |= {"system": frame.system, "pins": frame.pins, "tools": frame.tools}
    # Who gives no notes gets the keys of before there were any.
    tokens |= {"notes": frame.notes} if prepared.request.notes else {}
    before: Unit | None = None
    for unit in units:
        joint = unit.items[0].kind == "state" or frame.seams.joins(before, unit)
        for item in unit.items:
            kind = item.kind if item.kind in ("summary", "state") else item.role
            tokens[kind] += item.tokens + joint * frame.seams.tokens["join"]
            if item.kind == "coalesced" and prepared.notes.text:
                inside = min(item.tokens, prepared.count(prepared.notes.text))
                tokens |= {"notes": inside, kind: tokens[kind] - inside}
        before = unit
    return tokens


# --- The ledger


def _write_ledger(
    prepared: RepairedRequest,
    fates: Sequence[Mapping[int, Fate]],
    view: Mapping[int, int],
    last: LastReport,
) -> list[LedgerLine]:
    """The ledger of a view, which holds so many tokens of each stored row in it.

    `fates` stand in the order in which they applied, after those of the repair.
    """
    repaired = prepared.repaired
    left_out = _leave_out(prepared.request.strategy)
    newest_first = [*(each for each in reversed(fates) if each), repaired.fates]
    decided = dict[int, Fate]()
    for each in reversed(newest_first):
        decided.update(each)
    told, lines = LedgerByRow(), list[LedgerLine]()
    count_in, known, pins = repaired.tokens_in, last.lines, repaired.pins
    for message in prepared.messages:
        row = message.id
        tokens_out, fate = view.get(row), decided.get(row)
        allowed, other = (
            (_ABSENT, left_out) if tokens_out is None else (_PRESENT, _KEPT)
        )
        tokens_out = tokens_out or 0
        if fate is None:
            fate = other
        elif row in pins:
            fate = repaired.fates[row]
            if fate.disposition == "pinned":
                tokens_out += prepared.count(pins[row])
        elif fate.disposition not in allowed:
            fate = _find_fate(row, newest_first, allowed) or other
        if last.written is None:
            lines.append(_write_line(row, fate, prepared, tokens_out))
            continue
        facts = fate, count_in[row], tokens_out
        before = known.get(row)
        if before is None or before[0] != facts:
            before = facts, _write_line(row, fate, prepared, tokens_out)
        told[row] = before
        lines.append(before[1])
    last.lines = told
    return lines


@lru_cache(maxsize=32)
def _leave_out(strategy: str) -> Fate:
    """The fate of what a strategy does not tell of: the very same one in each view."""
    return Fate("out_of_window", strategy, "Older than what is sent.")


def _write_unsent_ledger(prepared: RepairedRequest, fate: Fate) -> list[LedgerLine]:
    """The ledger where nothing is sent: what the repair found, else the given fate."""
    found = [(m.id, prepared.repaired.fates.get(m.id, fate)) for m in prepared.messages]
    lost = ("orphan", "empty", "superseded")
    return [
        _write_line(row, own if own.disposition in lost else fate, prepared, 0)
        for row, own in found
    ]


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


def _write_line(
    row: int, fate: Fate, prepared: RepairedRequest, tokens_out: int
) -> LedgerLine:
    whole = fate.disposition in _SENT_WHOLE
    return LedgerLine(
        id=row,
        disposition=fate.disposition,
        by=fate.by,
        reason=fate.reason,
        tokens_in=prepared.repaired.tokens_in[row],
        tokens_out=tokens_out,
        handle=None if whole else build_handle(prepared.request.mysis, row),
    )


def _count_sent_tokens(units: Iterable[Unit]) -> dict[int, int]:
    """The tokens sent of each stored row of a view."""
    return {
        item.source: item.tokens
        for unit in units
        for item in unit.items
        if item.source is not None
    }


def count_shared_bytes(
    previous: Messages | None, view: Messages, encoded: Sequence[bytes] = ()
) -> int:
    """How many leading bytes of the view the previous one had too (I25).

    `encoded` is the view as `encode_message` has it. Of the first message that differs
    the bytes count as they stand.
    """
    shared = 0
    for old, new, after in zip(
        previous or (), view, encoded or map(encode_message, view), strict=False
    ):
        if old is not new and encode_message(old) != after:
            differing = (
                _encode(each).encode("utf-8", "surrogatepass") for each in (old, new)
            )
            return shared + _count_common_bytes(*differing)
        shared += len(after)
    return shared


def _count_common_bytes(one: bytes, other: bytes) -> int:
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[:middle] == other[:middle]:
            low = middle
        else:
            high = middle - 1
    return low
