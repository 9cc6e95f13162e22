"""`full`: every message that fits the budget; the baseline for comparisons."""

from __future__ import annotations

from memory.context.strategy import CommonOptions, Strategy
from memory.context.units import History, Plan


def plan_full(history: History, options: CommonOptions) -> Plan:
    """Identity; only the result cap and the hard budget apply."""
    return Plan(history.units)


STRATEGY = Strategy("full", plan_full, CommonOptions)
