"""`mask`: old tool results become notes with a handle, calls stay (A25, I26)."""

from __future__ import annotations

from memory.context.masking import MaskOptions, mask_results
from memory.context.strategy import Strategy
from memory.context.units import History, Plan


def mask(history: History, options: MaskOptions) -> Plan:
    """Every unit stays; only what old tools answered is replaced."""
    units, fates = mask_results(history.units, history, options)
    return Plan(tuple(units), fates)


STRATEGY = Strategy("mask", mask, MaskOptions)
