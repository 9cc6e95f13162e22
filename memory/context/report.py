"""The result of an assembly: the messages and the account of how they came about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memory.context import ledger
from memory.context.ledger import Account, sent_tokens, write, write_unsent
from memory.context.prepare import Prepared
from memory.context.tokens import error_of
from memory.context.types import Assembly, Impossible, LedgerLine, Status
from memory.context.units import Fate, Item, Plan, Unit
from memory.context.wire import Wire, to_anthropic, to_openai, validate

_WAITING = Fate("kept", None, "There is nothing to send beside it.")
_UNSENT = Fate("dropped_for_budget", "budget", "The view cannot be sent.")
_UNTOUCHED = frozenset({"kept", "pinned", "displaced"})


class InvalidView(Exception):
    """A view that a provider would refuse; the text lists what is wrong."""


@dataclass(frozen=True, slots=True)
class Sent:
    """A view before it goes out. `failure` tells why a fallback made it, if one did."""

    plan: Plan
    units: Sequence[Unit]
    fates: Sequence[Mapping[int, Fate]]
    over_budget: bool
    warnings: list[str]
    failure: str = ""


def report_sent(prepared: Prepared, sent: Sent) -> Assembly:
    """The assembly of a view; InvalidView where the dialect's rules refuse it."""
    wire = _wire(prepared, sent.units)
    problems = validate(prepared.request.dialect, wire.messages)
    if problems:
        raise InvalidView("; ".join(problems[:5]))
    account = _account(prepared, sent.fates)
    lines = write(account, _tokens_in_view(prepared, sent.units))
    status, reason = _verdict(sent, lines)
    figures = _figures(prepared, lines, status, reason)
    figures.update(_view_figures(prepared, sent, wire))
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


def report_unsent(prepared: Prepared, impossible: Impossible | None) -> Assembly:
    """The assembly where nothing is sent: no room, or nothing to say."""
    account = _account(prepared, ())
    status: Status
    if impossible is None:
        status, reason = "nothing_to_send", "The log holds nothing that can be sent."
        lines = write_unsent(account, _WAITING)
    else:
        status = "budget_impossible"
        reason = (
            f"{impossible.component} needs {impossible.need} tokens and "
            f"{impossible.have} are left for it."
        )
        lines = write_unsent(account, _UNSENT)
    figures = _figures(prepared, lines, status, reason)
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


def _wire(prepared: Prepared, units: Sequence[Unit]) -> Wire:
    if prepared.request.dialect == "anthropic":
        return to_anthropic(prepared.system, units)
    return to_openai(prepared.system, units)


def _account(prepared: Prepared, fates: Sequence[Mapping[int, Fate]]) -> Account:
    repaired = prepared.repaired
    return Account(
        messages=prepared.messages,
        tokens_in=repaired.tokens_in,
        fates=(repaired.fates, *(each for each in fates if each)),
        pins={key: prepared.count(text) for key, text in repaired.pins.items()},
        mysis=prepared.request.mysis,
        strategy=prepared.request.strategy,
    )


def _tokens_in_view(prepared: Prepared, units: Sequence[Unit]) -> dict[int, int]:
    view = sent_tokens(units)
    if prepared.system is not None and prepared.system.source is not None:
        view[prepared.system.source] = prepared.frame.system
    return view


def _verdict(sent: Sent, lines: Sequence[LedgerLine]) -> tuple[Status, str]:
    if sent.failure:
        return "fallback_used", f"{sent.failure}; the window stands in."
    whole = all(line.disposition in _UNTOUCHED for line in lines)
    reason = ledger.reason_of(lines)
    if sent.plan.reason:
        reason = sent.plan.reason if whole else f"{sent.plan.reason} {reason}"
    if sent.plan.status is not None:
        return sent.plan.status, reason
    return ("unchanged" if whole else "reduced"), reason


def _figures(
    prepared: Prepared, lines: Sequence[LedgerLine], status: Status, reason: str
) -> dict[str, Any]:
    """Every key, with the values of a view that is not sent."""
    request = prepared.request
    counts = ledger.from_ledger(lines, prepared.messages)
    return {
        "strategy": request.strategy,
        "status": status,
        "reason": reason,
        "messages_in": counts.pop("messages_in"),
        "messages_out": 0,
        "tokens_in": counts.pop("tokens_in"),
        "tokens_out": 0,
        "tokens_by_category": dict.fromkeys(ledger.CATEGORIES, 0),
        "budget": request.budget.tokens,
        "reserve": request.budget.reserve,
        "over_budget": False,
        "window_exceeded": False,
        **counts,
        "fillers": 0,
        "prefix_shared_bytes": 0,
        "summary_calls": request.compaction.summary_calls,
        "units_dropped": _units_dropped(prepared, lines),
        "generation": request.summary.generation if request.summary else 0,
        "tick_skew": request.tick_skew,
        "calibration": request.calibration if request.counter == "estimate" else 1.0,
        "estimate_error": error_of(request.counter, request.estimate_error),
        "build_ms": None,
        "compression": dict(ledger.NO_COMPRESSION),
    }


def _view_figures(prepared: Prepared, sent: Sent, wire: Wire) -> dict[str, Any]:
    categories = _categories(prepared, sent.units)
    items = [item for unit in sent.units for item in unit.items]
    return {
        "messages_out": len(wire.messages),
        "tokens_out": sum(categories.values()) - categories["tools"],
        "tokens_by_category": categories,
        "over_budget": sent.over_budget,
        "window_exceeded": sent.plan.window_exceeded,
        "fillers": sum(item.kind == "filler" for item in items),
        "prefix_shared_bytes": ledger.shared_bytes(
            prepared.request.previous, wire.messages
        ),
        "compression": {**ledger.NO_COMPRESSION, **(sent.plan.compression or {})},
    }


def _categories(prepared: Prepared, units: Sequence[Unit]) -> dict[str, int]:
    tokens = dict.fromkeys(ledger.CATEGORIES, 0)
    tokens["system"] = prepared.frame.system
    tokens["pins"] = prepared.frame.pins
    tokens["tools"] = prepared.frame.tools
    for unit in units:
        for item in unit.items:
            tokens[_category(item)] += item.tokens
    return tokens


def _category(item: Item) -> str:
    return item.kind if item.kind in ("summary", "state") else item.role


def _units_dropped(prepared: Prepared, lines: Sequence[LedgerLine]) -> int:
    """Units that are left out whole, by the window or by the budget."""
    gone = {
        line.id
        for line in lines
        if line.disposition in ("out_of_window", "dropped_for_budget")
    }
    return sum(unit.rows[0] in gone for unit in prepared.units)
