"""`tiered`: supersede, then mask, then summarise, no sooner than each has to be."""

from __future__ import annotations

from memory.context.folding import (
    Verdict,
    decide,
    limit_of,
    threshold_of,
    tokens_now,
)
from memory.context.strategies.window import within
from memory.context.strategy import Strategy
from memory.context.summaries import Shown, show_summary
from memory.context.tiers import TieredOptions, Tiers
from memory.context.units import History, Plan


def tiered(history: History, options: TieredOptions) -> Plan:
    """The view between its marks; a summary is asked for where the tiers do not do."""
    shown = show_summary(history)
    units = shown.units
    if options.window:
        inside = {unit.start for unit in within(history, options.window)}
        units = tuple(unit for unit in units if unit.start in inside)
    head = sum(unit.tokens for unit in shown.head)
    tiers = Tiers(history, options, history.window - history.room + head)
    tiers.grow(units)
    left = Shown(shown.head, tuple(tiers.units))
    verdict = _verdict(left, tiers, history, options)
    status = verdict.status
    if shown.head and status is None:
        status = "compacted"
    return Plan(
        (*left.head, *left.units),
        {**shown.fates, **tiers.fates},
        status=status,
        reason=verdict.reason,
        summary_wanted=verdict.wanted,
        covers_intent=shown.covers_intent,
        exempt_newest=shown.covers_newest and not options.keep_recent,
    )


def _verdict(
    left: Shown, tiers: Tiers, history: History, options: TieredOptions
) -> Verdict:
    """The last tier: measured again, with what the provider reported (A13)."""
    threshold = threshold_of(options, history)
    if not threshold:
        return Verdict()
    mark = min(threshold, options.hi * history.window)
    if tokens_now((*left.head, *left.units), history) < max(1, mark):
        return Verdict()
    keep = options.lo * history.window - tiers.around - limit_of(options, history)
    return decide(left, history, options, max(1, keep))


STRATEGY = Strategy("tiered", tiered, TieredOptions, reads="unsummarized")
