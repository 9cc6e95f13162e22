"""Figures beside a baseline of the same run; timing them, and tables for people."""

from __future__ import annotations

import os
import platform
import re
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from time import perf_counter
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table as RichTable

REPEATS = 9
#: A sample is as many runs as take this long, for tasks of less than it.
SAMPLE_SECONDS = 0.02
PERCENTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
_COLOURS = {"met": "green", "missed": "red"}

Task = Callable[[], object]
Step = Callable[[str], None]
"""Called at the beginning of each step of a measurement, with its description."""


# --- Figures


class Aim(StrEnum):
    """Whether the value or the ratio meets the target, and on which side."""

    BELOW = "<"
    AT_MOST = "at most"
    RATIO_BELOW = "ratio <"


@dataclass(frozen=True)
class Figure:
    """One measured value.

    ``baseline`` is a value of the same unit from the same run, and ``baseline_is``
    says of what: only the ratio of the two can be compared between machines.
    """

    name: str
    value: float
    unit: str
    baseline: float | None = None
    baseline_is: str = ""
    target: float | None = None
    aim: Aim = Aim.BELOW
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """The value divided by the baseline; None without one."""
        return self.value / self.baseline if self.baseline else None

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None without a target.

        Without a baseline no target of a ratio is met.
        """
        if self.target is None:
            return None
        if self.aim is Aim.AT_MOST:
            return self.value <= self.target
        if self.aim is Aim.RATIO_BELOW:
            return self.ratio is not None and self.ratio < self.target
        return self.value < self.target

    @property
    def goal(self) -> str:
        """The target as text, empty without one."""
        if self.target is None:
            return ""
        if self.aim is Aim.RATIO_BELOW:
            return f"< {self.target:.2f} x"
        return f"{self.aim} {format_amount(self.target, self.unit)}"


def format_amount(value: float | None, unit: str) -> str:
    """A value with its unit, short enough for a table."""
    if value is None:
        return ""
    if unit == "tokens":
        return f"{value:,.0f} tok"
    if unit == "ms":
        return f"{value:.{2 if value < 10 else 1}f} {unit}"
    if not unit and value == int(value):
        return f"{value:,.0f}"
    if unit != "bytes":
        return f"{value:.1f} {unit}".rstrip()
    if value < 1_000_000:
        return f"{value / 1000:.1f} KB"
    return f"{value / 1_000_000:.{1 if value < 10_000_000 else 0}f} MB"


# --- Timing


def measure_medians(
    tasks: Mapping[str, Task], repeats: int = REPEATS
) -> dict[str, float]:
    """The median seconds of one run of each task, after one run to warm up.

    The tasks take turns, so that whatever else the machine does hits all of them.
    """
    runs = {name: _runs_in_a_sample(task) for name, task in tasks.items()}
    samples: dict[str, list[float]] = {name: [] for name in tasks}
    for _ in range(repeats):
        for name, task in tasks.items():
            samples[name].append(_sample(task, runs[name]))
    return {name: statistics.median(each) for name, each in samples.items()}


def _runs_in_a_sample(task: Task) -> int:
    task()
    once = _sample(task, 1)
    return max(1, int(SAMPLE_SECONDS / max(once, 1e-6)))


def _sample(task: Task, runs: int) -> float:
    begun = perf_counter()
    for _ in range(runs):
        task()
    return (perf_counter() - begun) / runs


def percentile(ordered: Sequence[float], share: float) -> float:
    """The value that this share of sorted values does not exceed."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def describe_times(found: Iterable[float]) -> dict[str, float]:
    """Percentiles of milliseconds, and of how many; nothing without any."""
    ordered = sorted(found)
    if not ordered:
        return {}
    shares = {name: percentile(ordered, share) for name, share in PERCENTILES.items()}
    return shares | {"most": ordered[-1], "count": len(ordered)}


def describe_counts(late: Mapping[Any, int]) -> dict[str, float]:
    """The same of a count for each whole millisecond."""
    total, passed = sum(late.values()), 0
    found: dict[str, float] = {}
    for milliseconds, count in sorted((int(ms), count) for ms, count in late.items()):
        passed += count
        for name, share in PERCENTILES.items():
            if passed > total * share:
                found.setdefault(name, milliseconds)
        found["most"] = milliseconds
    return found | {"count": total} if found else {}


# --- What a benchmark found


@dataclass
class Table:
    """A table of texts; ``notes`` follow it.

    ``mark`` names its place in the documents, empty for none.
    """

    title: str
    headings: list[str]
    rows: list[list[str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    mark: str = ""


@dataclass
class Found:
    """Tables, what must not have happened, and all that was measured, as JSON."""

    tables: list[Table]
    faults: list[str] = field(default_factory=list)
    document: Any = None


def find_figures(title: str, figures: Sequence[Figure], mark: str) -> Found:
    """What a benchmark found that measures figures; of one kind a baseline is told once."""
    headings = ["what", "measured", "baseline", "ratio", "target", ""]
    table = Table(title, headings, mark=mark)
    baselines: dict[str, dict[str, None]] = {}
    for figure in figures:
        baselines.setdefault(figure.baseline_is, {})[figure.name.partition(": ")[0]] = (
            None
        )
        table.rows.append(
            [
                figure.name + (f" ({figure.note})" if figure.note else ""),
                format_amount(figure.value, figure.unit),
                format_amount(figure.baseline, figure.unit),
                "" if figure.ratio is None else f"{figure.ratio:.2f}",
                figure.goal,
                {True: "met", False: "missed", None: ""}[figure.met],
            ]
        )
    baselines.pop("", None)
    of_all = len(baselines) == 1
    table.notes = [
        f"Baseline: {it}." if of_all else f"Baseline of {', '.join(of)}: {it}."
        for it, of in baselines.items()
    ]
    return Found([table], document=[asdict(figure) for figure in figures])


def rich_table(table: Table) -> RichTable:
    shown = RichTable(title=table.title, title_justify="left", box=SIMPLE_HEAD)
    for place, heading in enumerate(table.headings):
        shown.add_column(heading, justify="right" if place else "left")
    for row in table.rows:
        shown.add_row(*map(_rich_cell, row))
    return shown


def _rich_cell(text: str) -> str:
    colour = _COLOURS.get(text)
    return f"[{colour}]{text}[/]" if colour else escape(text.replace("`", ""))


def markdown_table(table: Table) -> str:
    """The same for a document, with its title and notes."""
    ruler = ["---", *("---:" for _ in table.headings[1:])]
    lines = [_row(table.headings), _row(ruler), *map(_row, table.rows)]
    return "\n\n".join([f"### {table.title}", "\n".join(lines), *table.notes])


def _row(texts: Iterable[str]) -> str:
    return f"| {' | '.join(text.replace('|', '/') for text in texts)} |"


def has_mark(name: str, pages: Iterable[Path]) -> bool:
    """Whether a page has a place for tables of this benchmark."""
    begin = re.compile(rf"<!-- bench {name}( [a-z ]+)?: begin -->")
    return any(begin.search(page.read_text()) for page in pages)


def write_docs(tables: Sequence[Table], said: str, pages: Iterable[Path]) -> list[str]:
    """Write tables where the pages have their marks; the marks that were found.

    Tables of one mark follow each other, after what is ``said`` of the run.
    """
    texts: dict[str, list[str]] = {}
    for table in tables:
        texts.setdefault(table.mark, [said]).append(markdown_table(table))
    found = []
    for page in pages:
        for mark, parts in texts.items():
            begin, end = (
                f"<!-- bench {mark}: {which} -->" for which in ("begin", "end")
            )
            before, opened, rest = page.read_text().partition(begin)
            _, closed, after = rest.partition(end)
            if opened and closed:
                text = "\n\n".join(parts)
                page.write_text(f"{before}{begin}\n\n{text}\n\n{end}{after}")
                found.append(mark)
    return found


def describe_run(command: str) -> str:
    """When, on what and by which command something was measured."""
    machine = describe_machine()
    return (
        f"Measured {datetime.now(UTC).date()} on {machine['cores']} cores under a load of "
        f"{machine['load'][0]:.1f}, Python {machine['python']}, by `{command}`."
    )


def describe_machine() -> dict[str, Any]:
    """The facts of the machine that a run's figures depend on, as JSON."""
    return {
        "cores": os.cpu_count(),
        "load": os.getloadavg(),
        "python": platform.python_version(),
        "system": platform.platform(),
    }


@contextmanager
def show_steps(console: Console) -> Iterator[Step]:
    """What is done, in place on a terminal and else line by line."""
    if not console.is_terminal:
        yield lambda said: console.print(said, markup=False, soft_wrap=True)
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False))
    with Progress(
        *columns, TimeElapsedColumn(), console=console, transient=True
    ) as shown:
        task = shown.add_task("Beginning", total=None)
        yield lambda said: shown.update(task, description=said)
