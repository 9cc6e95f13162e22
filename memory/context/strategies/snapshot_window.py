"""`snapshot-window`: the window without superseded snapshots (W5-W8, P2).

Of the results of one snapshot tool with the same arguments, the newest good one makes
the others old (seeds 000 and 001; A3, A6, A7). Errors supersede nothing; a unit with
an interim result is left alone (A31), and so are drains, queries and mutations.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from memory.context.strategies.window import (
    WindowOptions,
    backfill_window,
    exceeds_window,
    select_window,
)
from memory.context.strategy import Strategy, option
from memory.context.tool_calls import canonicalize_arguments, parse_json
from memory.context.units import Fate, History, Item, Plan, Unit, keep_calls

_STUB_START = "[superseded by a newer "


@dataclass(frozen=True, slots=True)
class SnapshotWindowOptions(WindowOptions):
    """The options of the window, and how an old snapshot is taken out (A3)."""

    prune: str = option(
        "prune",
        "Leave old snapshots out with their call, or leave a one-line stub.",
        choices=("prune", "stub"),
    )


def plan_snapshot_window(history: History, options: SnapshotWindowOptions) -> Plan:
    """Window first, then compaction; with `backfill` the other way round (A5)."""
    if options.backfill:
        units, fates = compact_snapshots(history.units, history, options.prune)
        return replace(backfill_window(units, history, options.window), fates=fates)
    units, fates = compact_snapshots(
        select_window(history, options.window), history, options.prune
    )
    exceeded = exceeds_window(history, options.window)
    return Plan(tuple(units), fates, window_exceeded=exceeded)


def compact_snapshots(
    units: Iterable[Unit], history: History, mode: str
) -> tuple[list[Unit], dict[int, Fate]]:
    """The units with old snapshots pruned or stubbed, and what became of their rows."""
    newest: dict[tuple[str, str], int] = {}
    fates: dict[int, Fate] = {}
    kept: list[Unit] = []
    for unit in reversed(list(units)):
        if not unit.items[0].calls:
            kept.append(unit)
            continue
        old = _find_superseded(unit, history, newest)
        if unit.pending or not old:
            kept.append(unit)
        elif mode == "stub" or unit.signed:
            kept.append(_stub(unit, old, history, fates))
        else:
            pruned = _prune(unit, old, history, fates)
            if pruned is not None:
                kept.append(pruned)
    kept.reverse()
    return kept, fates


def is_error_result(item: Item) -> bool:
    """Whether a result is marked as an error or reads as one of the game's (A7)."""
    text = item.content
    if item.is_error or text.startswith("Error:"):
        return True
    if '"error"' not in text and '"throttled"' not in text:
        return False
    value = parse_json(text)
    if not isinstance(value, dict):
        return False
    return bool(value.get("error")) or value.get("throttled") is True


def _find_superseded(
    unit: Unit, history: History, newest: dict[tuple[str, str], int]
) -> dict[int, int]:
    """The old calls of a unit, with the id of the newer result of each.

    Called from the newest unit to the oldest; `newest` collects the good results.
    Parallel calls count in the order of the calls, not of their results (I30).
    """
    calls = unit.items[0].calls
    old: dict[int, int] = {}
    for item in sorted(unit.items[1:], key=lambda item: -item.call):
        call = calls[item.call]
        policy = history.policy_of(call.name, call.arguments)
        if item.filled or policy != "snapshot":
            continue
        key = call.name, canonicalize_arguments(call.arguments)
        found = newest.get(key)
        if found is not None:
            old[item.call] = found
        elif item.source is not None and not (item.pending or is_error_result(item)):
            newest[key] = item.source
    return old


def _stub(
    unit: Unit, old: dict[int, int], history: History, fates: dict[int, Fate]
) -> Unit:
    """The unit with its old results as one line each, where that is shorter."""
    items = list(unit.items)
    for place, item in enumerate(items):
        by = old.get(item.call) if item.role == "tool" else None
        if by is None or item.source is None or item.content.startswith(_STUB_START):
            continue
        name = items[0].calls[item.call].name
        text = f"{_STUB_START}{name} result, see {history.handle(item.source)}]"
        tokens = history.count(text)
        if tokens < item.tokens:
            items[place] = item.with_text(text, tokens)
            fates[item.source] = _superseded_fate(by, name, "a one-line stub is sent")
    return unit.with_items(tuple(items))


def _prune(
    unit: Unit, old: dict[int, int], history: History, fates: dict[int, Fate]
) -> Unit | None:
    """The unit without old calls and their results; None where nothing is left (A3)."""
    head = unit.items[0]
    for item in unit.items[1:]:
        if item.call in old and item.source is not None:
            name = head.calls[item.call].name
            fates[item.source] = _superseded_fate(
                old[item.call], name, "call and result are left out"
            )
    stays = [index for index in range(len(head.calls)) if index not in old]
    by = max(old.values())
    if not stays and not head.content.strip():
        if head.source is not None:
            fates[head.source] = Fate(
                "superseded", by, "All its calls were superseded."
            )
        return None
    if head.source is not None:
        fates[head.source] = Fate("truncated", by, "Its superseded calls are left out.")
    return keep_calls(unit, stays, history.count)


def _superseded_fate(by: int, name: str, what: str) -> Fate:
    return Fate("superseded", by, f"A newer good {name} result came; {what}.")


STRATEGY = Strategy(
    "snapshot-window", plan_snapshot_window, SnapshotWindowOptions, reads="newest"
)
