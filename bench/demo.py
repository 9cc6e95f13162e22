"""What a demo fleet costs: its start, its memory, its page and its model calls."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench import bare, contexts, page
from bench.bare import Bare
from bench.figures import Figure
from bench.fleet import flying
from bench.footprint import Process, footprint
from bench.visitor import Visitor

START_TARGET = 20.0
PAGE_TARGET = 300_000
STEPS = 7


def measure(
    play: int, step: Callable[[str], None]
) -> tuple[list[Figure], list[Process]]:
    """Run a fleet for ``play`` seconds; its figures and its processes.

    Every second of play is a step of its own.
    """
    step("Measuring the baseline")
    with tempfile.TemporaryDirectory(prefix="zoea-bench-") as folder:
        before = bare.measure(Path(folder) / "before")
        step("Starting a demo fleet")
        with flying(Path(folder) / "fleet") as fleet:
            answered = fleet.wait_for_link()
            finished = fleet.wait_for_turn()
            for second in range(play):
                step(f"Letting it play, {play - second} s to go")
                time.sleep(1)
            step("Weighing the memory")
            processes = footprint([fleet.pid])
            step("Weighing the fleet page")
            visitor = Visitor(fleet.link)
            visitor.get(fleet.link)
            weight = page.weigh(visitor, "/")
            step("Reading what the models were sent")
            sizes = contexts.measure(visitor)
            step("Stopping the fleet")
            fleet.stop()
        step("Measuring the baseline again")
        after = bare.measure(Path(folder) / "after")
    # Whatever else the machine did, the quicker of the two was hindered less.
    plain = min(before, after, key=lambda bare: bare.seconds)
    figures = [_answering(answered, plain), _first_turn(finished, plain)]
    figures += [_memory(processes, plain), _page(weight), *_contexts(sizes)]
    return figures, processes


def _answering(seconds: float, plain: Bare) -> Figure:
    return Figure(
        "dashboard answers",
        seconds,
        "s",
        baseline=plain.seconds,
        baseline_is="initdb, migrate and loading Django, by themselves",
    )


def _first_turn(seconds: float, plain: Bare) -> Figure:
    return Figure(
        "first finished turn",
        seconds,
        "s",
        baseline=plain.seconds,
        baseline_is="initdb, migrate and loading Django, by themselves",
        target=START_TARGET,
        note="manage.py up, warm .venv, empty data folder",
    )


def _memory(processes: list[Process], plain: Bare) -> Figure:
    return Figure(
        "memory of the fleet (PSS)",
        sum(process.pss for process in processes),
        "bytes",
        baseline=plain.pss,
        baseline_is="one loaded Django and an idle PostgreSQL",
        note=f"{len(processes)} processes",
    )


def _page(weight: page.Weight) -> Figure:
    return Figure(
        "page /",
        weight.sent,
        "bytes",
        baseline=weight.plain,
        baseline_is="the same without compression",
        target=PAGE_TARGET,
        note=f"HTML and all it loads, {weight.requests} requests",
    )


def _contexts(sizes: contexts.Sizes) -> list[Figure]:
    of_history = "the whole stored history in place of each view"
    return [
        Figure(
            "last model call (mean)",
            sizes.last_sent / max(sizes.myses, 1),
            "bytes",
            baseline=sizes.last_full / max(sizes.myses, 1),
            baseline_is=of_history,
        ),
        Figure(
            "all model calls",
            sizes.sent,
            "bytes",
            baseline=sizes.full,
            baseline_is=of_history,
            note=f"{sizes.calls} calls in {sizes.turns} turns",
        ),
        Figure(
            "model calls in a turn",
            sizes.calls / max(sizes.turns, 1),
            "",
            baseline=1,
            baseline_is="one call that answers at once",
        ),
    ]
