"""Tiers of compaction with hysteresis: nothing is cut until much has to be (I25, I26).

The log is gone through from its oldest unit as it grew. Each time the view reaches the
upper mark it is brought down toward the lower one, first by superseding snapshots, then
by masking results, measured again after each. What happened at an earlier mark does
not depend on what came later, so between two marks a view only grows at its end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import cast

from memory.context.strategies.mask import (
    MaskOptions,
    mask_snapshots,
    masked_item,
    results_of,
)
from memory.context.strategies.snapshot_window import Mode, compact
from memory.context.strategies.window import within
from memory.context.strategy import OptionError, Strategy, option
from memory.context.summaries import (
    Shown,
    SummaryOptions,
    Verdict,
    decide,
    limit_of,
    show_summary,
    threshold_of,
    tokens_now,
)
from memory.context.types import Budget
from memory.context.units import Fate, History, Plan, Unit, in_one_turn, turn_start

_WHY = "The view reached its upper mark; a note with its handle is sent."
#: Where a compaction frees little, the next waits until the view grew by this share.
_PATIENCE = 4


@dataclass(frozen=True, slots=True)
class TieredOptions(SummaryOptions, MaskOptions):
    """Everything of masks and summaries, and the marks between which a view moves."""

    hi: float = option(
        0.70,
        "The share of the window from which on the view is compacted.",
        minimum=0,
        maximum=1,
    )
    lo: float = option(
        0.45, "The share that it is brought down to.", minimum=0, maximum=1
    )
    window: int = option(
        0, "How many of the newest messages are considered; 0 for all.", minimum=0
    )
    prune: str = option(
        "prune",
        "Leave old snapshots out with their call, or leave a one-line stub.",
        choices=("prune", "stub"),
    )

    def __post_init__(self) -> None:
        """Refuse marks that no view can move between (OptionError)."""
        if self.lo > self.hi:
            raise OptionError("options.lo: must not be above options.hi")

    def trigger(self, budget: Budget) -> int:
        """The upper mark, or the threshold of summaries where that is lower."""
        mark = max(1, ceil(self.hi * (budget.tokens - budget.reserve)))
        return min(mark, self.threshold_in(budget) or mark)


@dataclass(slots=True)
class Tiers:
    """The view as it grew: its units, their tokens and what became of rows.

    `around` is what stands beside the units, the summary before them included, and
    `closed` is the index before which every tool loop is over.
    """

    history: History
    options: TieredOptions
    around: int
    size: int = 0
    units: list[Unit] = field(default_factory=list)
    fates: dict[int, Fate] = field(default_factory=dict)
    closed: int = 0
    mark: float = 0

    def grow(self, units: Sequence[Unit]) -> None:
        """Take the units up one by one, compacting where the mark is reached."""
        self.mark = self._share(self.options.hi)
        self.size = self.around
        for unit in units:
            ends_loop = self._ends_loop(unit)
            self.units.append(unit)
            self.size += unit.tokens
            if ends_loop:
                self._close_loop()
            if self.size >= self.mark:
                self._compact()

    def _share(self, share: float) -> float:
        return share * self.history.window

    def _ends_loop(self, unit: Unit) -> bool:
        """Whether the tool loop before a unit is over with it."""
        if unit.role != "assistant":
            return False
        before = self.units[-1] if self.units else None
        if before is None or before.role == "user" or not unit.items[0].calls:
            return True
        return not in_one_turn(before, unit)

    def _close_loop(self) -> None:
        """A25: what the loop before the newest unit fetched is now a note."""
        end = len(self.units) - 1
        for at in range(self.closed, end):
            unit = self.units[at]
            noted = mask_snapshots(unit, self.history, self.fates)
            self.units[at] = noted
            self.size += noted.tokens - unit.tokens
        self.closed = end

    def _compact(self) -> None:
        """Supersede, measure, mask; the turn that is going on is left whole (A16)."""
        cut = min(turn_start(self.units), len(self.units) - 1)
        mode = cast("Mode", self.options.prune)
        older, fates = compact(self.units[:cut], self.history, mode)
        self.fates.update(fates)
        self.closed = max(0, self.closed - (cut - len(older)))
        self.units[:cut] = older
        self.size = self._measured()
        if self.size > self._share(self.options.lo):
            self._mask(len(older))
        low, high = self._share(self.options.lo), self._share(self.options.hi)
        step = max(high - low, self.size / _PATIENCE)
        self.mark = max(high, self.size + step)

    def _measured(self) -> int:
        return self.around + sum(unit.tokens for unit in self.units)

    def _mask(self, cut: int) -> None:
        """The oldest results before `cut`, until the lower mark; a batch or nothing."""
        places = results_of(self.units)
        places = places[: max(0, len(places) - self.options.keep_results)]
        excess = self.size - self._share(self.options.lo)
        chosen, freed = [], 0
        for at, place in places:
            unit = self.units[at]
            item = unit.items[place]
            if at >= cut or freed >= excess:
                break
            if unit.pending or item.tokens <= self.options.min_tokens:
                continue
            saved = item.tokens - masked_item(unit, item, self.history).tokens
            if saved:
                chosen.append((at, place))
                freed += saved
        if freed < self._share(self.options.batch_fraction):
            return
        for at, place in chosen:
            unit = self.units[at]
            items = list(unit.items)
            source = items[place].source
            items[place] = masked_item(unit, items[place], self.history)
            self.units[at] = unit.with_items(tuple(items))
            if source is not None:
                self.fates[source] = Fate("masked", "mask", _WHY)
        self.size -= freed


# SECTION `tiered`: supersede, then mask, then summarise, no sooner than each has to be.


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
