"""CSV without formulas, and so the calls of a replay: a line for each and each policy."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from agents.lab.call_figures import SURVIVING
from agents.models import Mysis, Replay, ReplayCall

# Calls that are read at once.
BATCH = 200
PLACE = ("place", "mysis", "turn", "call", "at", "policy")
FIGURES = (
    *("status", "valid", "messages", "bytes", "tokens", "shared_bytes"),
    *("cost", "cached_cost", "asks_summary", "over_budget"),
)
LOSSES = ("facts_lost", "facts_with_handle", "view")
PAIRS = tuple(name for pair in SURVIVING for name in (f"{pair}_kept", pair))
COLUMNS = (*PLACE, *FIGURES, *PAIRS, *LOSSES, "differs")
# A cell that begins so is a formula to a spreadsheet.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def write_table(replay: Replay) -> Iterator[str]:
    """A kept replay in pieces, each read by itself: nothing is held in between."""
    yield write_lines([COLUMNS])
    last = 0
    while batch := list(replay.calls.filter(place__gt=last).order_by("place")[:BATCH]):
        names = dict(
            Mysis.objects.filter(pk__in={row.mysis_id for row in batch}).values_list(
                "pk", "name"
            )
        )
        yield write_lines(
            line
            for row in batch
            for line in list_lines(row, names.get(row.mysis_id, str(row.mysis_id)))
        )
        last = batch[-1].place


def list_lines(row: ReplayCall, name: str) -> Iterator[list[Any]]:
    """The lines of one call, that of its own policy first; only that may differ."""
    place = [row.place, name, row.turn_number, row.call_number, row.at.isoformat()]
    differs = row.differs
    for policy, figures in row.figures.items():
        yield [*place, policy, *_list_cells(figures), differs]
        differs = ""


def _list_cells(figures: Mapping[str, Any]) -> Iterator[Any]:
    yield from (figures[name] for name in FIGURES)
    for name in SURVIVING:
        yield from figures[name]
    yield from (figures[name] for name in LOSSES)


def write_lines(lines: Iterable[Iterable[Any]]) -> str:
    """Lines of CSV; no cell of them is a formula."""
    text = io.StringIO()
    csv.writer(text).writerows([map(_write_cell, line) for line in lines])
    return text.getvalue()


def _write_cell(value: Any) -> Any:
    plain = isinstance(value, str) and value.startswith(_FORMULA)
    return f"'{value}" if plain else value
