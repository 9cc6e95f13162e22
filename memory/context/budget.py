"""Fit a view into the hard budget: what must be sent first, then the newest (I13).

Tools, system, pins, notes, required units, the newest unit and the newest order come
first, the last two shortened where they must be, and the short form of the state block.
Older units follow as one unbroken run, so that a larger budget never keeps fewer of
them (I15). The state block grows into what is left. Where notes cut the newest order or
the state block's short form, `assemble` makes the view again without them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from memory.context.result_types import Impossible
from memory.context.seams import Seams
from memory.context.tokens import TokenCounter
from memory.context.types import Budget
from memory.context.units import (
    Fate,
    History,
    Item,
    Unit,
    count_message_tokens,
    count_shortest_item,
    cut_call,
    shorten_item,
)

_DROPPED = Fate("dropped_for_budget", "budget", "No room was left for it.")
_TRUNCATED = Fate("truncated", "budget", "Cut to fit the budget; head and tail stay.")
# The tokens of a call's arguments that are left where they must be cut.
_MOST_CUT = 256
# Below this many bytes a state block says nothing worth sending.
_SMALLEST_STATE = 64
_STATE_TRIES = 6
# The short form of a state block: what is known of the account and where it is.
SHORT_STATE_BYTES = 768


# What may need more room than there is, and what helps beside a larger budget.
_NEEDS: Mapping[str, tuple[str, str]] = {
    "tools": (
        "the tools need",
        ", send tools on demand (`tools: on_demand`), or allow fewer (`allow`)",
    ),
    "system": ("the system prompt needs", ", or shorten the prompt"),
    "pins": ("the standing orders need", ", or shorten them"),
    "intent": ("the newest order needs", ", or shorten it"),
    "newest_unit": ("the newest message needs", ""),
    "summary": ("the summary needs", ", or take the summary back"),
}


class BudgetImpossible(Exception):
    """What must be sent does not fit; raised before any network call."""

    def __init__(self, component: str, need: int, have: int) -> None:
        have = max(0, have)
        self.impossible = Impossible(component, need, have)
        super().__init__(f"{component} needs {need} tokens and {have} are left for it")

    def explain(self, budget: Budget) -> str:
        """What has no room in a budget, and what an operator can do about it."""
        need, have = f"{self.impossible.need:,}", f"{self.impossible.have:,}"
        if self.impossible.component == "reserve":
            return (
                f"No room: {need} tokens are kept for the answer, of a budget of {have}. "
                "Lower the reserve of the context policy, or choose a model with a "
                "larger window."
            )
        part = self.impossible.component
        what, also = _NEEDS.get(part, ("what must be sent needs", ""))
        return (
            f"No room: {what} {need} tokens, and {have} are left (budget "
            f"{budget.tokens:,}, of which {budget.reserve:,} for the answer). "
            f"Raise the budget{also}."
        )


@dataclass(frozen=True, slots=True)
class Frame:
    """What surrounds the units, in tokens, and the seams between them.

    `catalogue` is the part of `system` that lists tools.
    """

    tokens: int
    reserve: int
    tools: int
    system: int
    pins: int
    seams: Seams
    notes: int = 0
    catalogue: int = 0

    def room(self) -> int:
        """What is left for units; BudgetImpossible names what cannot fit."""
        if self.reserve > self.tokens:
            raise BudgetImpossible("reserve", self.reserve, self.tokens)
        left = self.tokens - self.reserve
        for component in ("tools", "system", "pins", "notes"):
            need: int = getattr(self, component)
            if need > left:
                if component == "system" and need - self.catalogue <= left:
                    component = "tools"
                raise BudgetImpossible(component, need, left)
            left -= need
        return left


@dataclass(slots=True)
class FittedUnits:
    """The units that fit, the tokens they use, and what became of the other rows."""

    units: list[Unit]
    used: int
    over_budget: bool = False
    fates: dict[int, Fate] = field(default_factory=dict)


@dataclass(slots=True)
class Anchors:
    """The indexes of the units that are kept before others.

    `newest` and `intent` are sent in any case, shortened where they must be. What was
    `asked` for goes before the whole length of the newest.
    """

    newest: int | None = None
    intent: int | None = None
    asked: list[int] = field(default_factory=list)


def fit_units(
    units: Sequence[Unit],
    anchors: Anchors,
    frame: Frame,
    history: History,
    state: int = 0,
) -> FittedUnits:
    """What fits, newest unit and order in any case; else BudgetImpossible.

    Beside it `state` tokens stay free, unless what must be sent leaves no room for them.
    """
    room = frame.room()
    if not units:
        nudge = frame.seams.tokens["end"]
        if nudge > room:
            raise BudgetImpossible("nudge", nudge, room)
        return FittedUnits([], nudge)
    used = _count_tokens(units, frame)
    if used <= room - state:
        return FittedUnits(list(units), used)
    try:
        kept = _keep_beside(units, anchors, frame, history, state)
    except BudgetImpossible:
        edited = _cut_newest_calls(units, anchors.newest, history, room)
        kept = _keep_beside(edited, anchors, frame, history, state)
    # Older ones never get that room, or a larger budget could keep fewer of them.
    best = _find_oldest_fitting(units, kept, frame, room - state)
    fitted = FittedUnits([], 0, over_budget=True)
    for index, unit in enumerate(units):
        sent = kept.get(index, unit if index >= best else None)
        if sent is None:
            fitted.fates.update(dict.fromkeys(unit.sources, _DROPPED))
            continue
        fitted.units.append(sent)
        if sent is not unit:
            pairs = zip(unit.items, sent.items, strict=True)
            cut = [old.source for old, new in pairs if old is not new]
            fitted.fates.update({row: _TRUNCATED for row in cut if row is not None})
    fitted.used = _count_tokens(fitted.units, frame)
    return fitted


def _count_tokens(units: Sequence[Unit], frame: Frame) -> int:
    """The tokens of units and of all seams of a view of them."""
    seams = frame.seams.between([None, *units, None]) if units else 0
    return sum(unit.tokens for unit in units) + seams


def _keep_beside(
    units: Sequence[Unit],
    anchors: Anchors,
    frame: Frame,
    history: History,
    state: int,
) -> dict[int, Unit]:
    """As `_keep_required` beside `state`, or without it where there is no room else."""
    room = frame.room()
    try:
        return _keep_required(units, anchors, frame, history, room - state)
    except BudgetImpossible:
        return _keep_required(units, anchors, frame, history, room)


def _cut_newest_calls(
    units: Sequence[Unit], newest: int | None, history: History, room: int
) -> Sequence[Unit]:
    """The units, the long arguments of the newest one cut, where it may be edited (I12)."""
    head = units[newest].items[0] if newest is not None else None
    if newest is None or head is None or head.source is None or units[newest].signed:
        return units
    limit = min(_MOST_CUT, room // max(1, 2 * len(head.calls)))
    handle = history.handle(head.source)
    calls = tuple(cut_call(call, limit, history.count, handle) for call in head.calls)
    if calls == head.calls:
        return units
    tokens = count_message_tokens(head.content, calls, history.count)
    items = (replace(head, calls=calls, tokens=tokens), *units[newest].items[1:])
    return [*units[:newest], units[newest].with_items(items), *units[newest + 1 :]]


def _keep_required(
    units: Sequence[Unit],
    anchors: Anchors,
    frame: Frame,
    history: History,
    room: int,
) -> dict[int, Unit]:
    """The units that stay whatever the budget, by index, shortened to fit `room`."""
    newest, intent = anchors.newest, anchors.intent
    kept = {index: unit for index, unit in enumerate(units) if unit.required}
    left = room
    for unit in kept.values():
        if unit.tokens > left:
            raise BudgetImpossible(unit.items[0].kind or "required", unit.tokens, left)
        left -= unit.tokens
    indexes = {*kept, *(i for i in (newest, intent) if i is not None)}
    if not indexes:
        return kept
    seams = _count_seams(units, indexes, frame)
    left -= seams
    order = intent if intent != newest and intent not in kept else None
    floor = count_least_tokens(units[order], history) if order is not None else 0
    if newest is not None and newest not in kept:
        spare = left - floor - count_least_tokens(units[newest], history)
        for index in reversed(anchors.asked):
            with_it = _count_seams(units, {*indexes, index}, frame)
            cost = units[index].tokens + with_it - seams
            if index != newest and index not in kept and cost <= spare:
                kept[index] = units[index]
                spare, left = spare - cost, left - cost
                indexes, seams = {*indexes, index}, with_it
        kept[newest] = _shrink_or_fail(
            "newest_unit", units[newest], left - floor, history
        )
        left -= kept[newest].tokens
    if order is not None:
        kept[order] = _shrink_or_fail("intent", units[order], left, history)
    return kept


def _count_seams(units: Sequence[Unit], indexes: Set[int], frame: Frame) -> int:
    """The tokens of all seams of a view of these units alone."""
    return frame.seams.between([None, *(units[i] for i in sorted(indexes)), None])


def _shrink_or_fail(component: str, unit: Unit, limit: int, history: History) -> Unit:
    shrunk = shrink_unit(unit, limit, history)
    if shrunk is None:
        raise BudgetImpossible(component, count_least_tokens(unit, history), limit)
    return shrunk


def _find_oldest_fitting(
    units: Sequence[Unit], kept: dict[int, Unit], frame: Frame, room: int
) -> int:
    """The lowest index from which on all units fit beside those that must stay."""
    used = sum(unit.tokens for unit in kept.values())
    best, after = len(units), None
    for index in range(len(units) - 1, -1, -1):
        unit = units[index]
        used += frame.seams.between([unit, after])
        after = unit
        if index in kept:
            continue
        used += unit.tokens
        if used > room:
            break
        older = [units[i] for i in sorted(kept) if i < index]
        if used + frame.seams.between([None, *older, unit]) <= room:
            best = index
    return best


def count_least_tokens(unit: Unit, history: History) -> int:
    """The fewest tokens that `shrink_unit` can bring a unit down to."""
    return sum(_least_item_tokens(item, history) for item in unit.items)


def _least_item_tokens(item: Item, history: History) -> int:
    if item.source is None:
        return item.tokens
    calls = item.tokens - history.count(item.content)
    handle = history.handle(item.source)
    return calls + count_shortest_item(item, history.count, handle)


def shrink_unit(unit: Unit, limit: int, history: History) -> Unit | None:
    """The unit within `limit`: results are cut first, calls not; None if too long."""
    if unit.tokens <= limit:
        return unit
    floors = [_least_item_tokens(item, history) for item in unit.items]
    if sum(floors) > limit:
        return None
    results = {i for i, item in enumerate(unit.items) if item.role == "tool"}
    whole = [item.tokens for item in unit.items]
    others = sum(whole[i] for i in range(len(whole)) if i not in results)
    if results and others + sum(floors[i] for i in results) <= limit:
        shares = _share_out(whole, floors, results, limit - others)
    else:
        texts = set(range(len(whole))) - results
        taken = sum(floors[i] for i in results)
        shares = _share_out(whole, floors, texts, limit - taken)
        shares.update({i: floors[i] for i in results})
    items = [
        _cut_item(item, shares.get(i, item.tokens), history)
        for i, item in enumerate(unit.items)
    ]
    return unit.with_items(tuple(items))


def _share_out(
    whole: list[int], floors: list[int], indexes: set[int], limit: int
) -> dict[int, int]:
    """Tokens for each item: small ones whole, the large ones the same amount."""
    shares: dict[int, int] = {}
    left = limit
    later = sum(floors[i] for i in indexes)
    for done, i in enumerate(sorted(indexes, key=lambda i: (whole[i], i))):
        later -= floors[i]
        fair = min(whole[i], left // (len(indexes) - done))
        shares[i] = min(max(fair, floors[i]), left - later)
        left -= shares[i]
    return shares


def _cut_item(item: Item, limit: int, history: History) -> Item:
    if item.tokens <= limit or item.source is None:
        return item
    calls = item.tokens - history.count(item.content)
    handle = history.handle(item.source)
    text = shorten_item(item, limit - calls, history.count, handle)
    if text is None:
        return item
    tokens = calls + history.count(text)
    return item.with_text(text, tokens, item.whole or item.content)


def fit_state(
    render: Callable[[int], str], size: int, room: int, count: TokenCounter
) -> tuple[str, bool]:
    """The state block within `size` bytes and `room` tokens, and whether it was cut.

    When room is scarce it is shortened, at last to its short form, then left out: the
    text is empty.
    """
    text = render(size).strip()
    if not text:
        return "", False
    tokens = count(text)
    if tokens <= room:
        return text, False
    size = min(size, len(text.encode()))
    for _ in range(_STATE_TRIES):
        size = min(size - 1, size * max(0, room) // tokens)
        if size < _SMALLEST_STATE:
            break
        text = render(size).strip()
        tokens = count(text)
        if text and tokens <= room:
            return text, True
        if not text:
            break
    text = render(min(size, SHORT_STATE_BYTES)).strip()
    return (text if text and count(text) <= room else ""), True
