"""A replay as its page shows it: a table of figures, charts, and rows of calls.

Charts are paths of an SVG that is stretched to its place, with time across and one line
a policy. How a line looks stands in ``static/css/lab.css``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from django.contrib.humanize.templatetags.humanize import intcomma

from agents.dashboard.shared_results import shared
from agents.lab.kept_replays import list_names
from agents.lab.policies import OWN
from agents.models import Mysis, Replay, ReplayCall
from agents.templatetags.zoea import money, share
from memory.models import fetch_rows

WIDTH, HEIGHT = 600, 150
# Above the highest point, so that its stroke is not cut.
MARGIN = 4
# Points of a line at most, and patterns of lines; more policies begin again.
POINTS, LOOKS = 200, 8
# Each point is the mean of the calls of its part of the time.
_SERIES = """
WITH span AS (
  SELECT min(at) AS first, greatest(extract(epoch FROM max(at) - min(at)), 1) AS seconds
  FROM agents_replaycall WHERE replay_id = %(replay)s
)
SELECT each.key, min(at),
  avg((each.value->>'tokens')::float8), avg((each.value->>'cached_cost')::float8),
  avg((each.value->>'shared_bytes')::float8 / nullif((each.value->>'bytes')::float8, 0))
FROM agents_replaycall, span, jsonb_each(figures) AS each
WHERE replay_id = %(replay)s
GROUP BY each.key, floor(extract(epoch FROM at - span.first) * %(points)s / span.seconds)
ORDER BY 2
"""
Point = tuple[datetime, float]
Json = Mapping[str, Any]


# --- Figures of each policy


class Cell(NamedTuple):
    """A figure of one policy; ``look`` is "best", "bad" or nothing."""

    text: str
    look: str = ""


@dataclass(frozen=True, slots=True)
class FigureRow:
    """One figure under each policy."""

    label: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class FigureGroup:
    """Figures that belong together."""

    title: str
    rows: tuple[FigureRow, ...]


class _Kind(NamedTuple):
    label: str
    read: Callable[[Json], Any]
    write: Callable[[Any], str] = intcomma
    # Whether less is better, more is, or anything but 0 is bad.
    better: str = ""


def _dollars(value: float | None) -> str:
    return "no price" if value is None else money(value)  # type: ignore[arg-type]


def _pair(name: str) -> Callable[[Json], Any]:
    return lambda one: (one[name]["kept"], one[name]["of"])


def _write_pair(value: tuple[int, int]) -> str:
    return f"{value[0]:,} of {value[1]:,}"


_GROUPS: Mapping[str, tuple[_Kind, ...]] = {
    "Size of a request": (
        _Kind("Requests", lambda one: one["requests"]),
        _Kind("Tokens, mean", lambda one: one["tokens"]["mean"], better="less"),
        _Kind("Tokens, 95 of 100 below", lambda one: one["tokens"]["p95"]),
        _Kind("Tokens, most", lambda one: one["tokens"]["most"]),
        _Kind("Messages, mean", lambda one: one["messages"]),
        _Kind("Bytes, mean", lambda one: one["bytes"]),
    ),
    "Cost of all": (
        _Kind("Without a cache", lambda one: one["cost"], _dollars, "less"),
        _Kind(
            "With the provider's cache",
            lambda one: one["cached_cost"],
            _dollars,
            "less",
        ),
        _Kind("Shared with the call before", lambda one: one["shared"], share, "more"),
        _Kind("Summaries asked for", lambda one: one["compactions"]),
    ),
    "Kept": (
        _Kind("Not sent", lambda one: one["unsent"], better="none"),
        _Kind("Not valid", lambda one: one["invalid"], better="none"),
        _Kind("Budget missed", lambda one: one["over_budget"], better="none"),
        _Kind("Standing orders", _pair("pins"), _write_pair, "all"),
        _Kind("Open orders", _pair("orders"), _write_pair, "all"),
        _Kind("Notes", _pair("notes"), _write_pair, "all"),
        _Kind("Values of the game's state", _pair("state_values"), _write_pair, "all"),
        _Kind("Results of tools lost", lambda one: one["facts_lost"]),
        _Kind("of these with a handle", lambda one: one["facts_with_handle"]),
    ),
}


def list_figures(replay: Replay) -> list[FigureGroup]:
    """The figures of all policies so far, side by side; none before the first call."""
    if not replay.report.get("calls"):
        return []
    figures = replay.report["policies"]
    return [
        FigureGroup(title, tuple(_make_row(kind, figures) for kind in kinds))
        for title, kinds in _GROUPS.items()
    ]


def _make_row(kind: _Kind, figures: Sequence[Json]) -> FigureRow:
    values = [kind.read(one) for one in figures]
    best = _find_best(kind.better, values)
    cells = (Cell(kind.write(each), _choose_look(kind, each, best)) for each in values)
    return FigureRow(kind.label, tuple(cells))


def _find_best(better: str, values: Sequence[Any]) -> Any:
    known = [each for each in values if each is not None]
    if better not in ("less", "more") or len({*known}) < 2:
        return None
    return min(known) if better == "less" else max(known)


def _choose_look(kind: _Kind, value: Any, best: Any) -> str:
    if kind.better == "none" and value:
        return "bad"
    if kind.better == "all" and value[0] < value[1]:
        return "bad"
    return "best" if best is not None and value == best else ""


# --- Charts


@dataclass(frozen=True, slots=True)
class ChartLine:
    """One policy's line; ``look`` names its colour and pattern."""

    name: str
    look: int
    path: str


@dataclass(frozen=True, slots=True)
class LineChart:
    """Lines from ``since`` to ``until``, with ``most`` at the top and 0 at the bottom."""

    title: str
    lines: tuple[ChartLine, ...]
    most: str
    since: datetime
    until: datetime


def draw_charts(replay: Replay) -> list[LineChart]:
    """Tokens, cost and shared beginnings over time; those that have any points."""
    # As many calls of one attempt are the same calls.
    key = ("replay charts", replay.pk, replay.attempts, replay.done)
    return shared.get(key, lambda: _draw_charts(replay))


def _draw_charts(replay: Replay) -> list[LineChart]:
    names = list_names(replay)
    columns: list[dict[str, list[Point]]] = [
        {name: [] for name in names} for _ in "123"
    ]
    rows = fetch_rows(_SERIES, {"replay": replay.pk, "points": POINTS})
    for name, at, *values in rows:
        for column, value in zip(columns, values, strict=True):
            if value is not None and name in column:
                column[name].append((at, value))
    titles = (
        ("Tokens of a call", lambda most: f"{most:,.0f}"),
        ("Cost of a call, with the cache", lambda most: f"${most:.4f}"),
        ("Shared with the call before", share),
    )
    drawn = (
        _draw_chart(title, column, write)
        for (title, write), column in zip(titles, columns, strict=True)
    )
    return [chart for chart in drawn if chart is not None]


def _draw_chart(
    title: str, series: Mapping[str, Sequence[Point]], write: Callable[[float], str]
) -> LineChart | None:
    """The chart of some series by name, in their order; None without a point."""
    points = [point for each in series.values() for point in each]
    if not points:
        return None
    since, until = min(at for at, _ in points), max(at for at, _ in points)
    most = max(value for _, value in points)
    seconds = (until - since).total_seconds()

    def place(point: Point) -> str:
        passed = (point[0] - since).total_seconds()
        x = WIDTH * passed / seconds if seconds else WIDTH / 2
        y = HEIGHT - (HEIGHT - MARGIN) * point[1] / most if most else HEIGHT
        return f"{x:.1f} {y:.1f}"

    lines = (
        ChartLine(name, number % LOOKS, _write_path([*map(place, values)]))
        for number, (name, values) in enumerate(series.items())
    )
    return LineChart(title, tuple(lines), write(most), since, until)


def _write_path(places: Sequence[str]) -> str:
    if len(places) == 1:
        # A line without a length is drawn as a dot.
        return f"M{places[0]}h0.1"
    return f"M{'L'.join(places)}" if places else ""


# --- Calls


class CallCell(NamedTuple):
    """A call under one policy; ``same``: its view is that of the call's own policy."""

    name: str
    tokens: int
    bad: bool
    same: bool

    @property
    def is_own(self) -> bool:
        return self.name == OWN


@dataclass(frozen=True, slots=True)
class CallRow:
    """One call under each policy."""

    call: ReplayCall
    mysis: str
    cells: tuple[CallCell, ...]


def list_calls(replay: Replay, rows: Sequence[ReplayCall]) -> list[CallRow]:
    """Rows of a replay, with the names of their Myses as far as they are still there."""
    owners = {row.mysis_id for row in rows}
    myses = dict(Mysis.objects.filter(pk__in=owners).values_list("pk", "name"))
    names = list_names(replay)
    return [
        CallRow(row, myses.get(row.mysis_id, "deleted"), _list_cells(row, names))
        for row in rows
    ]


def _list_cells(row: ReplayCall, names: Sequence[str]) -> tuple[CallCell, ...]:
    own = row.figures[OWN]["view"]
    found = ((name, row.figures[name]) for name in names)
    return tuple(
        CallCell(
            name,
            one["tokens"],
            one["over_budget"] or not one["valid"],
            one["view"] == own,
        )
        for name, one in found
    )
