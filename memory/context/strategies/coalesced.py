"""`coalesced`: the whole history in one user message (C3, C4, A28)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from memory.context.coalescing import (
    Digest,
    Limits,
    digest,
    newest,
    statistics,
    text_of,
)
from memory.context.options import CommonOptions, option
from memory.context.rendering import data_line, definition_line, tool_line
from memory.context.strategy import Strategy
from memory.context.types import NUDGE_TEXT, AssemblyRequest
from memory.context.units import Fate, History, Item, Plan, Unit

FINAL_TURN = "FINAL WORK TURN: finish now and give your final answer."
_FATE = Fate("coalesced", "coalesced", "Told in one message with the whole history.")


@dataclass(frozen=True, slots=True)
class CoalescedOptions(CommonOptions):
    """How many of the newest prints and calls are shown (C2)."""

    println_limit: int = option(15, "Newest prints that are shown.", minimum=0)
    tool_call_limit: int = option(20, "Newest tool calls that are shown.", minimum=0)


def coalesced(history: History, options: CoalescedOptions) -> Plan:
    """One message: what is fixed first, what grows next, what changes last."""
    if history.request.max_turns == 1:
        why = "One turn only, so there is nothing to coalesce."
        return Plan(history.units, status="disabled", reason=why)
    if not history.units and not _given(history.request):
        return Plan(())
    found = digest(history.units, history)
    for limits in _narrowing(options, history):
        text = _text(found, limits, history)
        if history.count(text) <= history.room:
            break

    def unit(content: str) -> tuple[Unit, ...]:
        item = Item("user", content, history.count(content), kind="coalesced")
        return (Unit((item,), start=-1, required=True),)

    return Plan(
        unit(text),
        {row: _FATE for each in history.units for row in each.sources},
        covers_intent=True,
        exempt_newest=True,
        attach_state=lambda state: unit(f"{text}\n\n{state}"),
        compression=statistics(found, limits),
    )


def _given(request: AssemblyRequest) -> bool:
    """Whether there is something to tell beside the log."""
    beside = (request.tools, request.data, request.definitions)
    return any(beside) or bool((request.mission or "").strip())


def _narrowing(options: CoalescedOptions, history: History) -> Iterator[Limits]:
    """The limits as given; then less and less, for what does not fit the budget."""
    prints, calls = options.println_limit, options.tool_call_limit
    yield Limits(prints, calls)
    for share in (8, 16, 32, 64):
        yield Limits(prints, calls, max(1, history.room // share))
    while prints or calls:
        prints, calls = prints // 2, calls // 2
        yield Limits(prints, calls, max(1, history.room // 8))
    for share in (4, 8, 16, 32):
        yield Limits(0, 0, max(1, history.room // share))


def _text(found: Digest, limits: Limits, history: History) -> str:
    request = history.request
    prints = found.prints[-limits.prints :] if limits.prints else []
    output = "\n".join(text_of(item, limits, history) for item in prints)
    calls = "\n".join(f";   {line}" for line in newest(found.calls, limits.calls))
    parts = [
        *_orders(limits, history),
        _section(";; === tool/ ===", request.tools, tool_line, history),
        _section(";; === data/ ===", request.data, data_line, history),
        _section(
            ";; === user/ (your prelude) ===",
            request.definitions,
            definition_line,
            history,
        ),
        f";; Tool calls made:\n{calls}" if calls else "",
        f";; Output:\n{output}" if output else "",
        _error(found, limits, history),
        _turns_left(request.turns_left),
    ]
    text = "\n\n".join(part for part in parts if part)
    return text or history.sanitize(request.nudge or "").strip() or NUDGE_TEXT


def _orders(limits: Limits, history: History) -> list[str]:
    """The mission, and the newest order where it is another (I17)."""
    orders = [unit.items[0] for unit in history.units if unit.intent]
    given = history.sanitize(history.request.mission or "")
    if given.strip():
        newer = [item for item in orders[-1:] if item.content != given]
        return [given, *(text_of(item, limits, history) for item in newer)]
    people = {m.id for m in history.request.messages if m.origin == "human"}
    first = next((item for item in orders if item.source in people), None)
    shown = [first] if first is not None else []
    if orders and orders[-1] is not first:
        shown.append(orders[-1])
    return [text_of(item, limits, history) for item in shown]


def _section(
    header: str,
    entries: Mapping[str, object],
    line: Callable[[str, object], str],
    history: History,
) -> str:
    lines = [line(name, value) for name, value in entries.items()]
    return history.sanitize("\n".join([header, *lines])) if lines else ""


def _error(found: Digest, limits: Limits, history: History) -> str:
    """The error of the newest turn, if that failed; older ones are history (C5)."""
    if found.error is None:
        return ""
    said = text_of(found.error, limits, history)
    return f";; Error:\n;   {found.program}\n{said}"


def _turns_left(turns: int | None) -> str:
    if turns is None:
        return ""
    return f"Turns left: {turns}" if turns > 0 else FINAL_TURN


STRATEGY = Strategy("coalesced", coalesced, CoalescedOptions)
