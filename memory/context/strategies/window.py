"""`window`: the newest N messages, never cut inside a unit (W1, W2, A4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from memory.context.strategy import CommonOptions, Strategy, option
from memory.context.units import History, Plan, Unit


@dataclass(frozen=True, slots=True)
class WindowOptions(CommonOptions):
    """N, and whether compacted messages make room for older ones (A5)."""

    window: int = option(20, "How many of the newest messages are sent.", minimum=1)
    backfill: bool = option(False, "Compact first, then count the window.")


def plan_window(history: History, options: WindowOptions) -> Plan:
    """The newest units whose rows are all among the newest N rows."""
    if options.backfill:
        return backfill_window(history.units, history, options.window)
    return Plan(
        select_window(history, options.window),
        window_exceeded=exceeds_window(history, options.window),
    )


def select_window(history: History, size: int) -> tuple[Unit, ...]:
    """The units that begin inside the window; always the newest one (W1, A4)."""
    counted = history.counted
    cut = counted[-size] if len(counted) > size else 0
    units = history.units
    return tuple(unit for unit in units if unit.start >= cut or unit is units[-1])


def exceeds_window(history: History, size: int) -> bool:
    """Whether the newest unit alone is larger than the window."""
    return bool(history.units) and len(history.units[-1].rows) > size


def backfill_window(units: Sequence[Unit], history: History, size: int) -> Plan:
    """The newest of the given units that have at most `size` messages together."""
    left = size
    first = len(units)
    for index in range(len(units) - 1, -1, -1):
        left -= sum(item.source is not None for item in units[index].items)
        if left < 0 and first < len(units):
            break
        first = index
    return Plan(tuple(units[first:]), window_exceeded=exceeds_window(history, size))


STRATEGY = Strategy("window", plan_window, WindowOptions, reads="newest")
