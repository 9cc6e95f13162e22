"""Fifty Myses for two hundred turns each, while everything goes wrong."""

from __future__ import annotations

from collections.abc import Callable

from bench.chaos.play import Options, Report, fly
from bench.figures import Aim, Figure

STEPS = 20


def measure(step: Callable[[str], None]) -> list[Figure]:
    """Fly the whole run. Raises RuntimeError where a row is not accounted for."""
    options = Options()
    wanted, told = options.myses * options.turns, 0

    def tell(turns: int) -> None:
        nonlocal told
        while told < STEPS and turns * STEPS >= told * wanted:
            told += 1
            step(f"Chaos: {turns} of {wanted} turns")

    report = fly(options, tell)
    if report.faults:
        raise RuntimeError("; ".join(report.faults))
    return figures_of(report, options)


def figures_of(report: Report, options: Options) -> list[Figure]:
    """The figures of a run in which all was accounted for."""
    turns = sum(report.turns.values())
    actions = sum(report.actions.values())
    struck = ", ".join(f"{name} {count}" for name, count in report.struck.items())
    wanted = options.myses * options.turns
    return [
        Figure(
            "turns, each accounted for",
            turns,
            "",
            target=wanted,
            aim=Aim.AT_LEAST,
            note=", ".join(f"{name} {count}" for name, count in report.turns.items()),
        ),
        Figure("turns a second, all workers", turns / report.seconds, "/s"),
        Figure("actions in the game, none twice", actions, ""),
        Figure("kills and crashes", sum(report.struck.values()), "", note=struck),
        Figure("messages, none lost", report.messages, ""),
    ]
