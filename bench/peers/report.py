"""A run as tables for the terminal and for docs/benchmarks.md, and as a chart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from bench.figures import format_amount
from bench.peers.environments import PLAIN
from bench.peers.workload import SEARCHED_FROM
from bench.tables import TableData, markdown_table, replace_between

PAGE, CHART = "benchmarks.md", "benchmarks.svg"
BEGIN, END = "<!-- of a run: begin -->", "<!-- of a run: end -->"
TITLES = {
    "append": "Append a turn",
    "context": "Fetch the next context",
    "rare": "Search a rare word",
    "medium": "Search a medium word",
}
SEARCHES = ("rare", "medium")
#: A median of fewer runs is marked.
FEW = 5

Document = dict[str, Any]


# --- Tables


def build_tables(document: Document) -> list[TableData]:
    """One table for each kind of cell, a row for each peer, a column for each length."""
    return [
        table for name in TITLES if (table := _build_table(document, name)).headings[1:]
    ]


def _build_table(document: Document, name: str) -> TableData:
    search = name in SEARCHES
    lengths = [
        length
        for length in document["lengths"]
        if not search or length >= SEARCHED_FROM
    ]
    table = TableData(TITLES[name], ["", *(f"{length:,}" for length in lengths)])
    cells = _cells_of(document, name)
    for peer in document["peers"]:
        texts = []
        for length in lengths:
            if search and not peer["search"]:
                texts.append("none")
                continue
            cell = cells.get((peer["name"], length), {"error": "it was not measured"})
            base = cells.get((PLAIN, length), {}).get("ms")
            texts.append(_format_cell(cell, base, peer, table))
        how = peer["search"] if search else peer["context"] if name == "context" else ""
        title = f"{peer['title']} ({how})" if how else peer["title"]
        table.rows.append([title, *texts])
    return table


def _cells_of(document: Document, name: str) -> dict[tuple[str, int], Document]:
    return {
        (cell["peer"], cell["length"]): cell
        for cell in document["cells"]
        if cell["cell"] == name
    }


def _format_cell(
    cell: Document, base: float | None, peer: Document, table: TableData
) -> str:
    if "ms" not in cell:
        note = f"{peer['title']}: {cell['error']}"
        if note not in table.notes:
            table.notes.append(note)
        return f"failed [{table.notes.index(note) + 1}]"
    parts = [f"{format_ratio(cell['ms'] / base)} x"] if base else []
    parts.append(format_amount(cell["ms"], "ms"))
    if "messages" in cell:
        parts.append(f"{cell['messages']:,}")
    if cell["repeats"] < FEW:
        parts.append("once" if cell["repeats"] == 1 else f"{cell['repeats']} runs")
    return ", ".join(parts)


def format_ratio(ratio: float) -> str:
    """A ratio with two digits that count."""
    return f"{ratio:,.{0 if ratio >= 9.95 else 1 if ratio >= 0.95 else 2}f}"


# --- The page


def write_docs(document: Document, folder: Path) -> None:
    """Rewrite what the page tells of a run, and the chart."""
    replace_between(folder / PAGE, BEGIN, END, describe_run(document))
    (folder / CHART).write_text(draw_chart(document))


def describe_run(document: Document) -> str:
    """The run as Markdown: when and on what, versions, tables."""
    machine = document["machine"]
    versions = TableData("", ["", "versions"])
    for peer in document["peers"]:
        told = ", ".join(f"{name} {each}" for name, each in peer["versions"].items())
        versions.rows.append([peer["title"], told or "not measured"])
    facts = (
        f"Measured {document['at'][:10]} on {machine['cores']} cores "
        f"(load {machine['load'][0]:.1f} at the end), Python {machine['python']}, "
        f"PostgreSQL {document['postgresql']}, {machine['system'].split('-')[0]}; "
        f"at most about {document['seconds']:g} s a cell."
    )
    tables = [
        f"### {table.title}\n\n{markdown_table(table)}"
        for table in build_tables(document)
    ]
    left = markdown_table(versions).replace("---:", "---")
    return "\n\n".join([facts, *tables, f"### Versions\n\n{left}"])


# --- The chart

WIDTH, PANEL, TOP, LEFT, RIGHT, GAP = 860, 330, 46, 60, 290, 40
LABEL_STEP = 15.0
#: Readable on white and on black; ours are the broad ones.
COLOURS = {
    "zoea": "#d9480f",
    "zoea-tiered": "#e8890c",
    "psycopg": "#868e96",
    "psycopg-search": "#868e96",
    "langgraph": "#1c7ed6",
    "langgraph-delta": "#1c7ed6",
    "openai": "#0ca678",
    "adk": "#ae3ec9",
    "agno": "#e64980",
    "langchain": "#845ef7",
}
DASHED = frozenset({"psycopg-search", "langgraph-delta", "zoea-tiered"})
TEXT, GRID = "#7d8590", "#7d8590"

Points = list[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Axes:
    """Logarithmic axes of one panel, from values to pixels."""

    x: tuple[float, float]
    y: tuple[float, float]
    top: float

    def place(self, length: float, value: float) -> tuple[float, float]:
        """Where a point stands."""
        across = _share(length, *self.x)
        up = _share(value, *self.y)
        return LEFT + across * (WIDTH - LEFT - RIGHT), self.top + (1 - up) * PANEL


def _share(value: float, low: float, high: float) -> float:
    return math.log(value / low) / math.log(high / low) if high > low else 0.5


def draw_chart(document: Document) -> str:
    """A panel for appends and one for contexts, a line for each peer."""
    panels = []
    top = float(TOP)
    for name in ("append", "context"):
        lines = _lines_of(document, name)
        if lines:
            panels.append(_draw_panel(TITLES[name], lines, document, top))
            top += PANEL + GAP + TOP
    height = max(top - TOP + 8, 80)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" '
        f'font-family="system-ui, sans-serif" font-size="12" fill="{TEXT}">\n'
        "<title>Milliseconds by messages in the history, both logarithmic</title>\n"
        f"{''.join(panels)}</svg>\n"
    )


def _lines_of(document: Document, name: str) -> dict[str, Points]:
    lines: dict[str, Points] = {}
    for cell in document["cells"]:
        if cell["cell"] == name and cell.get("ms"):
            lines.setdefault(cell["peer"], []).append((cell["length"], cell["ms"]))
    return {peer: sorted(points) for peer, points in lines.items()}


def _draw_panel(
    title: str, lines: dict[str, Points], document: Document, top: float
) -> str:
    values = [value for points in lines.values() for _, value in points]
    lengths = document["lengths"]
    low = 10.0 ** math.floor(math.log10(min(values)))
    high = 10.0 ** math.ceil(math.log10(max(values)))
    axes = Axes(
        (min(lengths), max(lengths)), (low, high if high > low else 10 * low), top
    )
    parts = [
        _text(LEFT, top - 16, f"{title}, milliseconds by messages", size=15),
        *_draw_grid(axes, lengths),
    ]
    titles = {
        peer["name"]: peer["title"].replace("`", "") for peer in document["peers"]
    }
    ends = {peer: axes.place(*points[-1])[1] for peer, points in lines.items()}
    labels = spread_labels(ends, top, top + PANEL)
    for peer, points in lines.items():
        parts += _draw_line(peer, [axes.place(*point) for point in points])
        parts += _draw_label(peer, titles[peer], axes.place(*points[-1]), labels[peer])
    return "".join(parts)


def spread_labels(
    ends: dict[str, float], top: float, bottom: float
) -> dict[str, float]:
    """Heights of labels, each near its line's end and none upon another."""
    placed: dict[str, float] = {}
    above = top - LABEL_STEP
    for name, height in sorted(ends.items(), key=lambda each: each[1]):
        above = placed[name] = max(height, above + LABEL_STEP)
    below = bottom + LABEL_STEP
    for name in reversed(placed):
        below = placed[name] = min(placed[name], below - LABEL_STEP)
    return placed


def _draw_grid(axes: Axes, lengths: Sequence[int]) -> list[str]:
    parts = []
    right, bottom = WIDTH - RIGHT, axes.top + PANEL
    power = axes.y[0]
    while power <= axes.y[1] * 1.001:
        _, height = axes.place(axes.x[0], power)
        parts.append(_stroke(LEFT, height, right, height))
        parts.append(_text(LEFT - 8, height + 4, f"{power:,g}", anchor="end"))
        power *= 10
    for length in lengths:
        across, _ = axes.place(length, axes.y[0])
        parts.append(_stroke(across, axes.top, across, bottom))
        parts.append(_text(across, bottom + 18, f"{length:,}", anchor="middle"))
    return parts


def _draw_line(peer: str, places: Points) -> list[str]:
    colour = COLOURS.get(peer, TEXT)
    dashes = ' stroke-dasharray="5 4"' if peer in DASHED else ""
    width = 3 if peer.startswith("zoea") else 1.8
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    return [
        f'<polyline points="{path}" fill="none" stroke="{colour}" '
        f'stroke-width="{width:g}" stroke-linejoin="round"{dashes}/>\n',
        *(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{width:g}" fill="{colour}"/>\n'
            for x, y in places
        ),
    ]


def _draw_label(
    peer: str, title: str, end: tuple[float, float], height: float
) -> list[str]:
    colour = COLOURS.get(peer, TEXT)
    start = WIDTH - RIGHT + 24
    return [
        _stroke(end[0] + 5, end[1], start - 4, height, colour=colour, opacity=0.5),
        _text(start, height + 4, title, colour=colour),
    ]


def _text(
    x: float, y: float, text: str, *, size: int = 0, anchor: str = "", colour: str = ""
) -> str:
    more = f' font-size="{size}"' if size else ""
    more += f' text-anchor="{anchor}"' if anchor else ""
    more += f' fill="{colour}"' if colour else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{more}>{escape(text)}</text>\n'


def _stroke(
    x1: float,
    y1: float,
    x2: float,
    y2: float,
    *,
    colour: str = GRID,
    opacity: float = 0.25,
) -> str:
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
        f'stroke="{colour}" stroke-opacity="{opacity:g}"/>\n'
    )
