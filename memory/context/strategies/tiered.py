"""`tiered`: supersede, then mask, then summarise, none sooner than it must (I25, I26).

The log is replayed from its oldest unit. Each time the view reaches the upper mark it
is brought down toward the lower one: superseded snapshots first, then masked results,
measured again after each. What happened at an earlier mark does not depend on what
came later, so between two marks a view only grows at its end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import ceil

from memory.context.strategies.mask import (
    MaskOptions,
    find_savings,
    mask_result,
    mask_snapshots,
)
from memory.context.strategies.snapshot_window import compact_snapshots
from memory.context.strategies.window import select_window
from memory.context.strategy import OptionError, Strategy, option
from memory.context.summaries import (
    Decision,
    SummarizedLog,
    SummaryOptions,
    apply_summary,
    decide_summary,
    estimate_next_call,
    limit_summary,
    plan_view,
)
from memory.context.types import Budget
from memory.context.units import (
    Fate,
    History,
    Plan,
    Unit,
    find_turn_start,
    may_share_turn,
)

_WHY = "The view reached its upper mark; a note with its handle is sent."
# Where a compaction frees little, the next waits until the view grew by this share.
_PATIENCE = 4


@dataclass(frozen=True, slots=True)
class TieredOptions(SummaryOptions, MaskOptions):
    """The options of masks and summaries, and the marks between which a view moves."""

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
        if self.lo > self.hi:
            raise OptionError("options.lo: must not be above options.hi")

    def trigger(self, budget: Budget) -> int:
        """The upper mark, or the threshold of summaries where that is lower."""
        mark = max(1, ceil(self.hi * (budget.tokens - budget.reserve)))
        return min(mark, self.threshold_in(budget) or mark)


def plan_tiered(history: History, options: TieredOptions) -> Plan:
    """The view between its marks; a summary is asked for where that is not enough."""
    shown = apply_summary(history)
    units = shown.units
    if options.window:
        inside = {unit.start for unit in select_window(history, options.window)}
        units = tuple(unit for unit in units if unit.start in inside)
    head = sum(unit.tokens for unit in shown.head)
    tiers = _grow_tiers(history, options, units, head)
    fates = {**shown.fates, **tiers.fates}
    left = replace(shown, units=tuple(tiers.units), fates=fates)
    decision = _decide_summary(left, tiers, history, options)
    return plan_view(left, decision, options)


def _grow_tiers(
    history: History, options: TieredOptions, units: Sequence[Unit], head: int
) -> Tiers:
    """The view of these units; where they only go on, so does that of the call before."""
    around = history.window - history.room + head
    known: Tiers | None = history.notes.pop("tiered", None)
    if known is None or not known.leads_to(history, options, around, units):
        known = Tiers(history, options, around)
    known.history = history
    known.grow(units)
    history.notes["tiered"] = known
    return known


def _decide_summary(
    left: SummarizedLog, tiers: Tiers, history: History, options: TieredOptions
) -> Decision:
    """The last tier, a summary: with what the provider reported (A13)."""
    threshold = options.threshold_in(history.request.budget)
    if not threshold:
        return Decision()
    mark = min(threshold, options.hi * history.window)
    if estimate_next_call((*left.head, *left.units), history) < max(1, mark):
        return Decision()
    keep = options.lo * history.window - tiers.around - limit_summary(options, history)
    return decide_summary(left, history, options, max(1, keep))


@dataclass(slots=True)
class Tiers:
    """The view as it grew. `around` and `size` are tokens: beside the units, and in all.

    The summary counts as `around`. Every tool loop before the index `closed` is over;
    `mark` is the size at which the next compaction is due. `grown` are the units that
    it grew by.
    """

    history: History
    options: TieredOptions
    around: int
    size: int = 0
    units: list[Unit] = field(default_factory=list)
    fates: dict[int, Fate] = field(default_factory=dict)
    closed: int = 0
    mark: float = 0
    grown: Sequence[Unit] = ()

    def leads_to(
        self,
        history: History,
        options: TieredOptions,
        around: int,
        units: Sequence[Unit],
    ) -> bool:
        """Whether the view of these units goes on from this one."""
        mine = self.history.window, self.options, self.around
        same = mine == (history.window, options, around)
        return same and units[: len(self.grown)] == self.grown

    def grow(self, units: Sequence[Unit]) -> None:
        """Add the units one by one, compacting each time the mark is reached."""
        known, self.grown = len(self.grown), units
        if not known:
            self.mark, self.size = self._share(self.options.hi), self.around
        for unit in units[known:]:
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
        if unit.role != "assistant":
            return False
        before = self.units[-1] if self.units else None
        if before is None or before.role == "user" or not unit.items[0].calls:
            return True
        return not may_share_turn(before, unit)

    def _close_loop(self) -> None:
        """A25: snapshots of the loop before the newest unit become notes."""
        end = len(self.units) - 1
        for at in range(self.closed, end):
            unit = self.units[at]
            noted = mask_snapshots(unit, self.history, self.fates)
            self.units[at] = noted
            self.size += noted.tokens - unit.tokens
        self.closed = end

    def _compact(self) -> None:
        """Supersede, measure, mask; the current turn is left whole (A16)."""
        cut = min(find_turn_start(self.units), len(self.units) - 1)
        prune = self.options.prune
        older, fates = compact_snapshots(self.units[:cut], self.history, prune)
        self.fates.update(fates)
        self.closed = max(0, self.closed - (cut - len(older)))
        self.units[:cut] = older
        self.size = self.around + sum(unit.tokens for unit in self.units)
        low, high = self._share(self.options.lo), self._share(self.options.hi)
        if self.size > low:
            self._mask(len(older))
        step = max(high - low, self.size / _PATIENCE)
        self.mark = max(high, self.size + step)

    def _mask(self, cut: int) -> None:
        """Mask the oldest results before `cut`, if that frees a whole batch of tokens."""
        excess = self.size - self._share(self.options.lo)
        chosen, freed = [], 0
        for place, saved in find_savings(self.units, self.history, self.options):
            if place[0] >= cut:
                break
            chosen.append(place)
            freed += saved
            if freed >= excess:
                break
        if freed < self._share(self.options.batch_fraction):
            return
        for each in chosen:
            mask_result(self.units, each, self.history, self.fates, _WHY)
        self.size -= freed


STRATEGY = Strategy("tiered", plan_tiered, TieredOptions, reads="unsummarized")
