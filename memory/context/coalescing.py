"""Turns as seed 004 counts them: what they did, said and got wrong (C2, C5, C6, A29)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from memory.context.arguments import load_object
from memory.context.rendering import call_line
from memory.context.snapshots import says_error
from memory.context.text import shorten
from memory.context.units import History, Item, Unit

NAME = "single-user-coalesced"
UNKNOWN = "(unknown program)"


@dataclass(slots=True)
class Digest:
    """What the turns leave to tell. Failed turns give neither calls nor prints."""

    turns: int = 0
    calls: list[str] = field(default_factory=list)
    prints: list[Item] = field(default_factory=list)
    failed: int = 0
    error: Item | None = None
    program: str = ""


@dataclass(frozen=True, slots=True)
class Limits:
    """How many calls and prints are shown, and the tokens that one text may take."""

    prints: int
    calls: int
    tokens: int | None = None


def digest(units: Sequence[Unit], history: History) -> Digest:
    """Go through the turns; an assistant message with its results is one."""
    found = Digest()
    for unit in units:
        if unit.role != "assistant":
            continue
        found.turns += 1
        errors = [item for item in unit.items[1:] if _failed(item)]
        found.error = errors[-1] if errors else None
        if errors:
            found.failed += 1
            found.program = " ".join(unit.items[0].content.split())[:200] or UNKNOWN
            continue
        if unit.items[0].content.strip():
            found.prints.append(unit.items[0])
        _take_calls(unit, history, found)
    return found


def _failed(item: Item) -> bool:
    return not item.filled and says_error(item)


def _take_calls(unit: Unit, history: History, found: Digest) -> None:
    results = {item.call: item for item in unit.items[1:]}
    for index, call in enumerate(unit.items[0].calls):
        if history.policy_of(call.name) == "print":
            said = results.get(index)
            if said is not None and said.content.strip() and not said.filled:
                found.prints.append(said)
        else:
            found.calls.append(call_line(call.name, load_object(call.arguments)))


def newest(entries: list[str], limit: int) -> list[str]:
    """The newest so many; none for 0 (A29)."""
    return entries[-limit:] if limit else []


def statistics(found: Digest, limits: Limits) -> dict[str, object]:
    """The dictionary of C6, for what is shown under these limits."""
    calls, prints = len(found.calls), len(found.prints)
    calls_shown, prints_shown = min(calls, limits.calls), min(prints, limits.prints)
    return {
        "enabled": True,
        "strategy": NAME,
        "turns_compressed": found.turns,
        "tool_calls_total": calls,
        "tool_calls_shown": calls_shown,
        "tool_calls_dropped": calls - calls_shown,
        "printlns_total": prints,
        "printlns_shown": prints_shown,
        "printlns_dropped": prints - prints_shown,
        "error_turns_collapsed": found.failed - (found.error is not None),
    }


def text_of(item: Item, limits: Limits, history: History) -> str:
    """What is sent of a row: all of it, or head and tail with its handle."""
    if limits.tokens is None or item.source is None:
        return item.content
    handle = history.handle(item.source)
    cut = shorten(item.content, limits.tokens, history.count, handle)
    return item.content if cut is None else cut


def box(compression: dict[str, object]) -> str:
    """The boxed text form of the statistics (C6, C7)."""
    calls = _shown(compression, "tool_calls")
    prints = _shown(compression, "printlns")
    rows = (
        ("Strategy:", compression["strategy"]),
        ("Turns:", f"{compression['turns_compressed']} compressed"),
        ("Tool calls:", calls),
        ("Printlns:", prints),
        ("Errors:", f"{compression['error_turns_collapsed']} turn(s) collapsed"),
    )
    lines = [f"|   {name:<13} {value}" for name, value in rows]
    return "\n".join(["+- Compression " + "-" * 43 + "+", *lines, "+" + "-" * 57 + "+"])


def _shown(compression: dict[str, object], what: str) -> str:
    total, shown, dropped = (
        compression[f"{what}_{part}"] for part in ("total", "shown", "dropped")
    )
    return f"{shown}/{total} shown" + (f" ({dropped} dropped)" if dropped else "")
