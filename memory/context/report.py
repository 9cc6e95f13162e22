"""The result of an assembly: messages, ledger and statistics (I28: every key)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memory.context.ledger import (
    SENT_WHOLE,
    count_dispositions,
    count_sent_tokens,
    count_shared_bytes,
    explain_losses,
    write_ledger,
    write_unsent_ledger,
)
from memory.context.repair import RepairedRequest
from memory.context.tokens import choose_error_bound
from memory.context.types import Assembly, Impossible, LedgerLine, Status
from memory.context.units import Fate, Plan, Unit
from memory.context.wire import WireView, find_problems, to_anthropic, to_openai

_WAITING = Fate("kept", None, "There is nothing to send beside it.")
_UNSENT = Fate("dropped_for_budget", "budget", "The view cannot be sent.")
#: The statistics of compression where nothing was coalesced (seed 004).
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


class InvalidView(Exception):
    """A view that a provider would refuse; the text lists what is wrong."""


@dataclass(frozen=True, slots=True)
class ViewDraft:
    """A view before it is checked; `failure` says why a fallback made it, if one did."""

    plan: Plan
    units: Sequence[Unit]
    fates: Sequence[Mapping[int, Fate]]
    over_budget: bool
    warnings: list[str]
    failure: str = ""


def report_sent(prepared: RepairedRequest, sent: ViewDraft) -> Assembly:
    """The assembly of a view; InvalidView where the dialect's rules refuse it."""
    to_dialect = to_anthropic if prepared.request.dialect == "anthropic" else to_openai
    wire = to_dialect(prepared.system, sent.units)
    problems = find_problems(prepared.request.dialect, wire.messages)
    if problems:
        raise InvalidView("; ".join(problems[:5]))
    view = count_sent_tokens(sent.units)
    if prepared.system is not None and prepared.system.source is not None:
        view[prepared.system.source] = prepared.frame.system
    lines = write_ledger(prepared, sent.fates, view)
    status, reason = _choose_status(sent, lines)
    figures = _common_statistics(prepared, lines, status, reason)
    figures.update(_view_statistics(prepared, sent, wire))
    return Assembly(
        status=status,
        reason=reason,
        messages=wire.messages,
        sources=wire.sources,
        synthetic=wire.synthetic,
        ledger=lines,
        stats=figures,
        warnings=sent.warnings,
        summary_wanted=sent.plan.summary_wanted,
        system=wire.system,
        dialect=prepared.request.dialect,
    )


def report_unsent(prepared: RepairedRequest, impossible: Impossible | None) -> Assembly:
    """The assembly where nothing is sent: no room, or nothing to say."""
    status: Status
    if impossible is None:
        status, reason = "nothing_to_send", "The log holds nothing that can be sent."
        lines = write_unsent_ledger(prepared, _WAITING)
    else:
        status = "budget_impossible"
        reason = (
            f"{impossible.component} needs {impossible.need} tokens and "
            f"{impossible.have} are left for it."
        )
        lines = write_unsent_ledger(prepared, _UNSENT)
    figures = _common_statistics(prepared, lines, status, reason)
    figures["over_budget"] = impossible is not None
    return Assembly(
        status=status,
        reason=reason,
        messages=[],
        sources=[],
        synthetic=[],
        ledger=lines,
        stats=figures,
        warnings=[],
        impossible=impossible,
        dialect=prepared.request.dialect,
    )


def _choose_status(sent: ViewDraft, lines: Sequence[LedgerLine]) -> tuple[Status, str]:
    if sent.failure:
        return "fallback_used", f"{sent.failure}; the window stands in."
    whole = all(line.disposition in SENT_WHOLE for line in lines)
    reason = explain_losses(lines)
    if sent.plan.reason:
        reason = sent.plan.reason if whole else f"{sent.plan.reason} {reason}"
    if sent.plan.status is not None:
        return sent.plan.status, reason
    return ("unchanged" if whole else "reduced"), reason


def _common_statistics(
    prepared: RepairedRequest, lines: Sequence[LedgerLine], status: Status, reason: str
) -> dict[str, Any]:
    """Every key, with the values of a view that is not sent."""
    request = prepared.request
    gone = ("out_of_window", "dropped_for_budget")
    left_out = {line.id for line in lines if line.disposition in gone}
    return {
        "strategy": request.strategy,
        "status": status,
        "reason": reason,
        "messages_in": len(lines),
        "messages_out": 0,
        "tokens_in": sum(line.tokens_in for line in lines),
        "tokens_out": 0,
        "tokens_by_category": dict.fromkeys(_CATEGORIES, 0),
        "budget": request.budget.tokens,
        "reserve": request.budget.reserve,
        "over_budget": False,
        "window_exceeded": False,
        **count_dispositions(lines, prepared.messages),
        "fillers": 0,
        "prefix_shared_bytes": 0,
        "summary_calls": request.compaction.summary_calls,
        "units_dropped": sum(unit.rows[0] in left_out for unit in prepared.units),
        "generation": request.summary.generation if request.summary else 0,
        "tick_skew": request.tick_skew,
        "calibration": request.calibration if request.counter == "estimate" else 1.0,
        "estimate_error": choose_error_bound(request.counter, request.estimate_error),
        "build_ms": None,
        "compression": dict(_NO_COMPRESSION),
    }


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
            prepared.request.previous, wire.messages
        ),
        "compression": {**_NO_COMPRESSION, **(sent.plan.compression or {})},
    }


def _count_by_category(
    prepared: RepairedRequest, units: Sequence[Unit]
) -> dict[str, int]:
    tokens = dict.fromkeys(_CATEGORIES, 0)
    tokens["system"] = prepared.frame.system
    tokens["pins"] = prepared.frame.pins
    tokens["tools"] = prepared.frame.tools
    for unit in units:
        for item in unit.items:
            kind = item.kind if item.kind in ("summary", "state") else item.role
            tokens[kind] += item.tokens
    return tokens
