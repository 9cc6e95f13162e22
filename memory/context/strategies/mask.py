"""`mask`: old tool results become one-line notes with a handle; calls stay (A25, I26).

Results are masked in batches, oldest first. A batch is closed once it frees a given
share of the window, and its ends depend only on what is older: a longer log masks the
same batches and at times one more (I26).
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from memory.context.strategy import CommonOptions, Strategy, option
from memory.context.units import Fate, History, Item, Plan, Unit, find_loop_start

_START = "[masked "
_LOOP_OVER = "The tool loop that fetched it is over; a note with its handle is sent."
_MASKED = Fate("masked", "mask", _LOOP_OVER)
Place = tuple[int, int]


@dataclass(frozen=True)  # with slots it could not be joined with others
class MaskOptions(CommonOptions):
    """Which results stay whole, and how much a batch must free."""

    keep_results: int = option(
        5, "How many of the newest tool results are always sent whole.", minimum=0
    )
    min_tokens: int = option(
        400, "Results of up to so many tokens are not masked.", minimum=0
    )
    batch_fraction: float = option(
        0.10,
        "The share of the window that a batch of masked results must free.",
        minimum=0,
        maximum=1,
    )


def plan_mask(history: History, options: MaskOptions) -> Plan:
    """All units, with old tool results replaced.

    State snapshots stay whole only in the tool loop that fetched them (A25). The
    newest unit and units with an interim result are left alone (A31).
    """
    units = history.units
    masked = list(units)
    fates: dict[int, Fate] = {}
    for at in range(min(find_loop_start(units), len(units) - 1)):
        masked[at] = mask_snapshots(masked[at], history, fates)
    why = f"Older than the {options.keep_results} newest results; a note is sent."
    for place in _find_batches(units, history, options):
        mask_result(masked, place, history, fates, why)
    return Plan(tuple(masked), fates)


def mask_result(
    units: list[Unit], place: Place, history: History, fates: dict[int, Fate], why: str
) -> None:
    """Put a note in place of one result."""
    at, index = place
    items = list(units[at].items)
    source = items[index].source
    items[index] = _mask_item(units[at], items[index], history)
    units[at] = units[at].with_items(tuple(items))
    if source is not None:
        fates[source] = Fate("masked", "mask", why)


def mask_snapshots(unit: Unit, history: History, fates: dict[int, Fate]) -> Unit:
    """The unit as it is sent once its tool loop is over (A25)."""
    if unit.pending or not unit.items[0].calls:
        return unit
    # What was noted of the very same unit for the view before.
    known: dict[tuple[int, ...], tuple[Unit, Unit]]
    known = history.notes.setdefault("mask", {})
    whole, masked = known.get(unit.rows, (None, unit))
    if whole is not unit:
        masked = _mask_snapshots(unit, history)
        known[unit.rows] = unit, masked
    if masked is not unit:
        for before, after in zip(unit.items, masked.items, strict=True):
            if after is not before and before.source is not None:
                fates[before.source] = _MASKED
    return masked


def _mask_snapshots(unit: Unit, history: History) -> Unit:
    items = tuple(
        _mask_item(unit, item, history)
        if item.role == "tool" and _is_snapshot(unit, item, history)
        else item
        for item in unit.items
    )
    same = all(map(operator.is_, items, unit.items))
    return unit if same else unit.with_items(items)


def _mask_item(unit: Unit, item: Item, history: History) -> Item:
    """The item as a note, or as it is where the note would be no shorter (I14)."""
    note = _write_note(unit, item, history)
    tokens = history.count(note)
    if not note or tokens >= item.tokens:
        return item
    return item.with_text(note, tokens)


def _find_batches(
    units: Sequence[Unit], history: History, options: MaskOptions
) -> list[Place]:
    """The results of every closed batch; the newest `keep_results` are in none."""
    wanted = max(1.0, options.batch_fraction * history.window)
    found: list[Place] = []
    batch: list[Place] = []
    freed = 0
    # Snapshots go when their loop ends, so they must not move the batches.
    for place, saved in find_savings(units, history, options, but_snapshots=True):
        if place[0] == len(units) - 1:
            break
        batch.append(place)
        freed += saved
        if freed >= wanted:
            found.extend(batch)
            batch, freed = [], 0
    return found


def find_savings(
    units: Sequence[Unit],
    history: History,
    options: MaskOptions,
    *,
    but_snapshots: bool = False,
) -> Iterator[tuple[Place, int]]:
    """The results before the newest `keep_results`, and the tokens a mask frees."""
    places = [
        (at, place)
        for at, unit in enumerate(units)
        if unit.items[0].calls
        for place, item in enumerate(unit.items)
        if item.role == "tool" and item.source is not None and not item.filled
    ]
    for at, place in places[: max(0, len(places) - options.keep_results)]:
        unit = units[at]
        item = unit.items[place]
        if unit.pending or item.tokens <= options.min_tokens:
            continue
        if but_snapshots and _is_snapshot(unit, item, history):
            continue
        saved = item.tokens - _mask_item(unit, item, history).tokens
        if saved:
            yield (at, place), saved


def _is_snapshot(unit: Unit, item: Item, history: History) -> bool:
    call = unit.items[0].calls[item.call]
    return history.policy_of(call.name, call.arguments) == "snapshot"


def _write_note(unit: Unit, item: Item, history: History) -> str:
    """The note for a result; empty where it must stay."""
    if item.source is None or item.content.startswith(_START):
        return ""
    name = unit.items[0].calls[item.call].name
    size = len(item.content)
    return f"{_START}{name} result of {size} characters, see {history.handle(item.source)}]"


STRATEGY = Strategy("mask", plan_mask, MaskOptions)
