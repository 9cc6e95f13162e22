"""`snapshot-window`: the window with superseded snapshots taken out (W5-W8, P2)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

from memory.context.options import option
from memory.context.snapshots import Mode, compact
from memory.context.strategies.window import (
    WindowOptions,
    backfilled,
    exceeds,
    within,
)
from memory.context.strategy import Strategy
from memory.context.units import History, Plan


@dataclass(frozen=True, slots=True)
class SnapshotWindowOptions(WindowOptions):
    """The window, and how an old snapshot is taken out (A3)."""

    prune: str = option(
        "prune",
        "Leave old snapshots out with their call, or leave a one-line stub.",
        choices=("prune", "stub"),
    )


def snapshot_window(history: History, options: SnapshotWindowOptions) -> Plan:
    """Window first, then compaction; with `backfill` the other way round (A5)."""
    mode = cast("Mode", options.prune)
    if options.backfill:
        units, fates = compact(history.units, history, mode)
        return replace(backfilled(units, history, options.window), fates=fates)
    units, fates = compact(within(history, options.window), history, mode)
    exceeded = exceeds(history, options.window)
    return Plan(tuple(units), fates, window_exceeded=exceeded)


STRATEGY = Strategy(
    "snapshot-window", snapshot_window, SnapshotWindowOptions, reads="newest"
)
