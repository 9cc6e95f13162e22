"""``make bench``: runs a real demo fleet and measures it, in about two minutes.

Everything happens in temporary folders and on the loopback address; every
process that was started has ended when this has. Times depend on the machine
and on what else it does, so each figure stands beside a baseline of the same
run.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from subprocess import SubprocessError
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn
from rich.progress import TimeElapsedColumn as Elapsed
from rich.table import Table

from . import bare, contexts, page
from .bare import Bare
from .figures import Figure, amount, key_of, table_of
from .fleet import FleetError, flying
from .footprint import Process, by_name, footprint
from .visitor import Visitor

START_TARGET = 20.0
PAGE_TARGET = 300_000
STEPS = 7


def run(play: int, progress: Progress) -> tuple[list[Figure], list[Process]]:
    """Measure everything; ``play`` is how many seconds the fleet plays."""
    task = progress.add_task("Measuring the baseline", total=STEPS + play)

    def step(said: str) -> None:
        progress.update(task, advance=1, description=said)

    with tempfile.TemporaryDirectory(prefix="zoea-bench-") as folder:
        before = bare.measure(Path(folder) / "before")
        step("Starting a demo fleet")
        with flying(Path(folder) / "fleet") as fleet:
            answered = fleet.wait_for_link()
            finished = fleet.wait_for_turn()
            step(f"Letting it play for {play} s")
            for _ in range(play):
                time.sleep(1)
                progress.advance(task)
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


def memory_table(processes: list[Process]) -> Table:
    """The memory by kind of process."""
    table = Table(title="Memory by process (PSS)", title_justify="left")
    table.add_column("process")
    table.add_column("number", justify="right")
    table.add_column("together", justify="right")
    for name, (count, total) in by_name(processes).items():
        table.add_row(name, str(count), amount(total, "bytes"))
    return table


def document(figures: list[Figure], processes: list[Process]) -> dict[str, Any]:
    """The whole run as JSON, with what is to be known of the machine."""
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {
            "cores": os.cpu_count(),
            "load": os.getloadavg(),
            "python": platform.python_version(),
            "system": platform.platform(),
        },
        "figures": [figure.document() for figure in figures],
        "processes": [asdict(process) for process in processes],
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; status 1 where something could not be measured."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write it there too")
    parser.add_argument(
        "--play",
        type=int,
        default=60,
        metavar="SECONDS",
        help="how long the fleet plays before it is measured (default 60)",
    )
    wishes = parser.parse_args(argv)
    # Ends by an exception, so that what was started is ended too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    console = Console()
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        Elapsed(),
    )
    try:
        with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
            figures, processes = run(wishes.play, shown)
    except (FleetError, OSError, RuntimeError, SubprocessError, ValueError) as error:
        console.print(f"bench: {error}", style="red", highlight=False)
        return 1
    console.print(table_of(figures), key_of(figures), memory_table(processes), sep="\n")
    if wishes.json:
        text = json.dumps(document(figures, processes), indent=2)
        wishes.json.write_text(f"{text}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
