"""What a benchmark measured, beside what it is to be held against."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table


class Aim(StrEnum):
    """How a figure meets its target: by its value or by its ratio."""

    BELOW = "below"
    AT_LEAST = "at least"
    RATIO_BELOW = "ratio below"


@dataclass(frozen=True)
class Figure:
    """One measured value.

    ``baseline`` is a value of the same unit from the same run and
    ``baseline_is`` says of what; the ratio of the two is what can be compared
    between machines. ``aim`` says on which side of ``target``, and by what, the
    figure is met.
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
        """The value in terms of the baseline, None without one."""
        return self.value / self.baseline if self.baseline else None

    @property
    def met(self) -> bool | None:
        """Whether the target is kept, None where there is none.

        A ratio that there is no baseline for keeps no target.
        """
        if self.target is None:
            return None
        if self.aim is Aim.AT_LEAST:
            return self.value >= self.target
        if self.aim is Aim.RATIO_BELOW:
            return self.ratio is not None and self.ratio < self.target
        return self.value < self.target

    @property
    def goal(self) -> str:
        """The target for a person, empty where there is none."""
        if self.target is None:
            return ""
        if self.aim is Aim.RATIO_BELOW:
            return f"< {self.target:.2f} x"
        sign = ">=" if self.aim is Aim.AT_LEAST else "<"
        return f"{sign} {amount(self.target, self.unit)}"

    def document(self) -> dict[str, Any]:
        """All of it as JSON."""
        return asdict(self) | {"ratio": self.ratio, "met": self.met}


def table_of(title: str, figures: list[Figure]) -> Table:
    """The figures for a person."""
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
            amount(figure.value, figure.unit),
            amount(figure.baseline, figure.unit),
            "" if figure.ratio is None else f"{figure.ratio:.2f}",
            figure.goal,
            {True: "[green]met[/green]", False: "[red]missed[/red]", None: ""}[
                figure.met
            ],
        )
    return table


def key_of(figures: list[Figure]) -> str:
    """What the baselines are, one line each; "a: b" and "a: c" are told as "a"."""
    names: dict[str, dict[str, None]] = {}
    for figure in figures:
        kind = figure.name.partition(": ")[0]
        names.setdefault(figure.baseline_is, {})[kind] = None
    names.pop("", None)
    return "\n".join(f"Baseline of {', '.join(of)}: {it}." for it, of in names.items())


def amount(value: float | None, unit: str) -> str:
    """A value with its unit, short enough for a table."""
    if value is None:
        return ""
    if unit == "tokens":
        return f"{value:,.0f} tok"
    if unit == "ms":
        return f"{value:.{2 if value < 10 else 1}f} {unit}"
    if unit != "bytes":
        return f"{value:.1f} {unit}".rstrip()
    if value < 1_000_000:
        return f"{value / 1000:.1f} KB"
    return f"{value / 1_000_000:.{1 if value < 10_000_000 else 0}f} MB"
