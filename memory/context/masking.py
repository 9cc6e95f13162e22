"""Old tool results as one-line notes with a handle; their calls stay (A25, I26).

Results are masked in batches, oldest first. A batch is closed once it frees a given
share of the window, and where it begins and ends depends on what is older only: a
longer log masks the same batches and at times one more (I26).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from memory.context.options import CommonOptions, option
from memory.context.turns import loop_start
from memory.context.units import Fate, History, Item, Unit

_START = "[masked "
_Place = tuple[int, int]


@dataclass(frozen=True, slots=True)
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


def mask_results(
    units: Sequence[Unit], history: History, options: MaskOptions
) -> tuple[list[Unit], dict[int, Fate]]:
    """The units with old results masked, and what became of these.

    State snapshots are whole inside the tool loop that fetched them only (A25); the
    newest unit is left alone, and so is one with an interim result (A31).
    """
    chosen = {**_old_snapshots(units, history), **_batches(units, history, options)}
    masked = list(units)
    fates: dict[int, Fate] = {}
    for (at, place), (note, why) in chosen.items():
        items = list(masked[at].items)
        item = items[place]
        items[place] = replace(item, content=note, tokens=history.count(note))
        masked[at] = masked[at].with_items(tuple(items))
        if item.source is not None:
            fates[item.source] = Fate("masked", "mask", why)
    return masked, fates


def _old_snapshots(
    units: Sequence[Unit], history: History
) -> dict[_Place, tuple[str, str]]:
    """The snapshots of tool loops that are over."""
    why = "The tool loop that fetched it is over; a note with its handle is sent."
    found = {}
    for at in range(min(loop_start(units), len(units) - 1)):
        unit = units[at]
        if unit.pending or not unit.items[0].calls:
            continue
        for place, item in enumerate(unit.items):
            if item.role == "tool" and _is_snapshot(unit, item, history):
                note = _note(unit, item, history)
                if note and history.count(note) < item.tokens:
                    found[at, place] = (note, why)
    return found


def _batches(
    units: Sequence[Unit], history: History, options: MaskOptions
) -> dict[_Place, tuple[str, str]]:
    """The results of every batch that is closed and older than what stays whole."""
    why = f"Older than the {options.keep_results} newest results; a note is sent."
    wanted = max(1.0, options.batch_fraction * history.window)
    old = _results(units)
    old = old[: max(0, len(old) - options.keep_results)]
    found: dict[_Place, tuple[str, str]] = {}
    batch: dict[_Place, tuple[str, str]] = {}
    freed = 0
    for at, place in old:
        unit = units[at]
        item = unit.items[place]
        if at == len(units) - 1 or unit.pending or item.tokens <= options.min_tokens:
            continue
        # Snapshots go when their loop ends, so they must not move the batches.
        if _is_snapshot(unit, item, history):
            continue
        note = _note(unit, item, history)
        saved = item.tokens - history.count(note) if note else 0
        if saved <= 0:
            continue
        batch[at, place] = (note, why)
        freed += saved
        if freed >= wanted:
            found.update(batch)
            batch, freed = {}, 0
    return found


def _results(units: Sequence[Unit]) -> list[_Place]:
    """The place of every stored result, in order."""
    return [
        (at, place)
        for at, unit in enumerate(units)
        if unit.items[0].calls
        for place, item in enumerate(unit.items)
        if item.role == "tool" and item.source is not None
    ]


def _is_snapshot(unit: Unit, item: Item, history: History) -> bool:
    return history.policy_of(unit.items[0].calls[item.call].name) == "snapshot"


def _note(unit: Unit, item: Item, history: History) -> str:
    """What stands in for a result; empty where nothing may."""
    if item.source is None or item.content.startswith(_START):
        return ""
    name = unit.items[0].calls[item.call].name
    size = len(item.content)
    return f"{_START}{name} result of {size} characters, see {history.handle(item.source)}]"
