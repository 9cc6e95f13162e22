"""Timing, and figures: measured values beside a baseline of the same run."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import StrEnum
from time import perf_counter
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

REPEATS = 9
#: A sample is as many runs as take this long, for tasks of less than it.
SAMPLE_SECONDS = 0.02

Task = Callable[[], object]
Step = Callable[[str], None]
"""Called at the beginning of each step of a measurement, with its description."""


class Aim(StrEnum):
    """Whether the value or the ratio meets the target, and on which side."""

    BELOW = "below"
    AT_MOST = "at most"
    AT_LEAST = "at least"
    RATIO_BELOW = "ratio below"


_SIGNS = {Aim.BELOW: "<", Aim.AT_MOST: "at most", Aim.AT_LEAST: ">="}


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
        if self.aim is Aim.AT_LEAST:
            return self.value >= self.target
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
        return f"{_SIGNS[self.aim]} {format_amount(self.target, self.unit)}"

    def document(self) -> dict[str, Any]:
        """The figure as JSON."""
        return asdict(self) | {"ratio": self.ratio, "met": self.met}


def figure_table(title: str, figures: list[Figure]) -> Table:
    """The figures as a table for the terminal."""
    load = os.getloadavg()[0]
    title = f"{title}, measured on {os.cpu_count()} cores under a load of {load:.1f}"
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD)
    table.add_column("what")
    for heading in ("measured", "baseline", "ratio", "target"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("")
    for figure in figures:
        table.add_row(
            figure.name + (f"\n[dim]{figure.note}[/dim]" if figure.note else ""),
            format_amount(figure.value, figure.unit),
            format_amount(figure.baseline, figure.unit),
            "" if figure.ratio is None else f"{figure.ratio:.2f}",
            figure.goal,
            {True: "[green]met[/green]", False: "[red]missed[/red]", None: ""}[
                figure.met
            ],
        )
    return table


def list_baselines(figures: list[Figure]) -> str:
    """Explain the baselines, one line each; "a: b" and "a: c" appear as "a"."""
    names: dict[str, dict[str, None]] = {}
    for figure in figures:
        kind = figure.name.partition(": ")[0]
        names.setdefault(figure.baseline_is, {})[kind] = None
    names.pop("", None)
    return "\n".join(f"Baseline of {', '.join(of)}: {it}." for it, of in names.items())


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


def describe_machine() -> dict[str, Any]:
    """The facts of the machine that a run's figures depend on, as JSON."""
    return {
        "cores": os.cpu_count(),
        "load": os.getloadavg(),
        "python": platform.python_version(),
        "system": platform.platform(),
    }


def describe_moment() -> str:
    """When, on how many cores and under what load, as a page says it of its table."""
    machine = describe_machine()
    return (
        f"Measured {datetime.now(UTC).date()} on {machine['cores']} cores under a load of "
        f"{machine['load'][0]:.0f}"
    )
