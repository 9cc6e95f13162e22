"""`mask`: old tool results become one-line notes with a handle; calls stay (A25, I26).

Results are masked in batches, oldest first. A batch is closed once it frees a given
share of the window, and its ends depend only on what is older: a longer log masks the
same batches and at times one more (I26).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from memory.context.strategy import CommonOptions, Strategy, option
from memory.context.units import Fate, History, Item, Plan, Unit, find_loop_start

_START = "[masked "
_LOOP_OVER = "The tool loop that fetched it is over; a note with its handle is sent."
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
    """All units, with old tool results replaced."""
    units, fates = mask_results(history.units, history, options)
    return Plan(tuple(units), fates)


def mask_results(
    units: Sequence[Unit], history: History, options: MaskOptions
) -> tuple[list[Unit], dict[int, Fate]]:
    """The units with old results masked, and what became of these.

    State snapshots stay whole only in the tool loop that fetched them (A25). The
    newest unit and units with an interim result are left alone (A31).
    """
    masked = list(units)
    fates: dict[int, Fate] = {}
    for at in range(min(find_loop_start(units), len(units) - 1)):
        masked[at] = mask_snapshots(masked[at], history, fates)
    why = f"Older than the {options.keep_results} newest results; a note is sent."
    for place in _find_batches(units, history, options):
        mask_result(masked, place, history, fates, why)
    return masked, fates


def mask_result(
    units: list[Unit], place: Place, history: History, fates: dict[int, Fate], why: str
) -> None:
    """Put a note in place of one result."""
    at, index = place
    items = list(units[at].items)
    source = items[index].source
    items[index] = mask_item(units[at], items[index], history)
    units[at] = units[at].with_items(tuple(items))
    if source is not None:
        fates[source] = Fate("masked", "mask", why)


def mask_snapshots(unit: Unit, history: History, fates: dict[int, Fate]) -> Unit:
    """The unit as it is sent once its tool loop is over (A25)."""
    if unit.pending or not unit.items[0].calls:
        return unit
    items = list(unit.items)
    changed = False
    for place, item in enumerate(items):
        if item.role != "tool" or not _is_snapshot(unit, item, history):
            continue
        masked = mask_item(unit, item, history)
        if masked is not item and item.source is not None:
            items[place], changed = masked, True
            fates[item.source] = Fate("masked", "mask", _LOOP_OVER)
    return unit.with_items(tuple(items)) if changed else unit


def mask_item(unit: Unit, item: Item, history: History) -> Item:
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
    old = find_results(units)
    old = old[: max(0, len(old) - options.keep_results)]
    found: list[Place] = []
    batch: list[Place] = []
    freed = 0
    for at, place in old:
        unit = units[at]
        item = unit.items[place]
        if at == len(units) - 1 or unit.pending or item.tokens <= options.min_tokens:
            continue
        # Snapshots go when their loop ends, so they must not move the batches.
        if _is_snapshot(unit, item, history):
            continue
        saved = item.tokens - mask_item(unit, item, history).tokens
        if not saved:
            continue
        batch.append((at, place))
        freed += saved
        if freed >= wanted:
            found.extend(batch)
            batch, freed = [], 0
    return found


def find_results(units: Sequence[Unit]) -> list[Place]:
    """The unit and item index of every result that came, in order."""
    return [
        (at, place)
        for at, unit in enumerate(units)
        if unit.items[0].calls
        for place, item in enumerate(unit.items)
        if item.role == "tool" and item.source is not None and not item.filled
    ]


def _is_snapshot(unit: Unit, item: Item, history: History) -> bool:
    return history.policy_of(unit.items[0].calls[item.call].name) == "snapshot"


def _write_note(unit: Unit, item: Item, history: History) -> str:
    """The note for a result; empty where it must stay."""
    if item.source is None or item.content.startswith(_START):
        return ""
    name = unit.items[0].calls[item.call].name
    size = len(item.content)
    return f"{_START}{name} result of {size} characters, see {history.handle(item.source)}]"


STRATEGY = Strategy("mask", plan_mask, MaskOptions)
