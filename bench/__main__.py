"""``make bench``: measures a demo fleet, the context core, memory, surfaces and pages.

The fleet part runs ``manage.py up`` and looks at it, also at rest; the core part
assembles made-up logs, in this process, out of a database and on the command line; the
turns part takes turns of the pilot, without pause and by a fleet of 200, and kills
workers; the memory part searches a million memories; the surfaces part asks a server for
summaries and opens sockets to it; the pages part looks at 200 Myses, of which 20 fly, as
browsers do; the lab part replays recorded calls under other policies; the chaos part, if it is named, is ``make chaos``. Everything happens on the loopback
address and in temporary folders, but the million memories, which are made once and kept
in ``.zoea``; every process that was started has ended when this has. Times depend on
the machine and on what else it does, so each figure stands beside a baseline of the
same run.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
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

from bench import fleet, rest
from bench.chaos import run as chaos
from bench.core import command, views
from bench.figures import (
    Figure,
    Step,
    describe_machine,
    figure_table,
    format_amount,
    list_baselines,
)
from bench.processes import (
    Measurement,
    Process,
    measurement_in_process,
    sum_by_name,
)

FLEET, CORE, TURNS = "fleet", "core", "turns"
MEMORY, SURFACES, PAGES = "memory", "surfaces", "pages"
LAB, CHAOS = "lab", "chaos"
TITLES = {
    FLEET: "A demo fleet",
    CORE: "The context core",
    TURNS: "Turns",
    MEMORY: "A million memories",
    SURFACES: "REST and sockets",
    PAGES: "The pages",
    LAB: "The lab",
    CHAOS: "A fleet in chaos",
}
DEFAULT_PARTS = [part for part in TITLES if part != CHAOS]
"""What is measured where nothing is named: chaos takes an hour."""

MEASUREMENTS: dict[str, tuple[Measurement, ...]] = {
    FLEET: (Measurement(rest.STEPS, rest.measure),),
    CORE: (
        Measurement(views.STEPS, views.measure),
        measurement_in_process("bench.core.histories:measure_contexts", 4),
        measurement_in_process("bench.core.histories:measure_merges", 3),
        Measurement(command.STEPS, command.measure),
    ),
    TURNS: (
        measurement_in_process("bench.turns:measure", 8),
        measurement_in_process("bench.kills:measure", 3),
    ),
    MEMORY: (measurement_in_process("bench.memory:measure", 8),),
    SURFACES: (measurement_in_process("bench.surfaces:measure", 3),),
    PAGES: (measurement_in_process("bench.pages.costs:measure", 7),),
    LAB: (measurement_in_process("bench.lab:measure", 5),),
    CHAOS: (Measurement(chaos.STEPS, chaos.measure),),
}
"""Each part, and of the fleet what is measured at rest; see README.md.

The numbers are the steps of progress.
"""


def measure_parts(
    parts: Sequence[str], play: int, progress: Progress
) -> tuple[dict[str, list[Figure]], list[Process]]:
    """The figures by part; ``play`` is how many seconds the fleet plays."""
    found: dict[str, list[Figure]] = {}
    processes: list[Process] = []
    step = _make_step(parts, play, progress)
    if FLEET in parts:
        found[FLEET], processes = fleet.measure(play, step)
    for part, measurements in MEASUREMENTS.items():
        if part in parts:
            figures = [fig for each in measurements for fig in each.measure(step)]
            found[part] = found.get(part, []) + figures
    return found, processes


def _make_step(parts: Sequence[str], play: int, progress: Progress) -> Step:
    total = (fleet.STEPS + play) * (FLEET in parts)
    total += sum(each.steps for part in parts for each in MEASUREMENTS.get(part, ()))
    task = progress.add_task("Beginning", total=total + 1)
    return lambda said: progress.update(task, advance=1, description=said)


def memory_table(processes: list[Process]) -> Table:
    """The memory by name of process."""
    table = Table(title="Memory by process (PSS)", title_justify="left")
    table.add_column("process")
    table.add_column("number", justify="right")
    table.add_column("together", justify="right")
    for name, (count, total) in sum_by_name(processes).items():
        table.add_row(name, str(count), format_amount(total, "bytes"))
    return table


def run_document(
    found: dict[str, list[Figure]], processes: list[Process]
) -> dict[str, Any]:
    """The whole run as JSON, with the facts of the machine."""
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": describe_machine(),
        "figures": [
            {"part": part} | figure.document()
            for part, figures in found.items()
            for figure in figures
        ],
        "processes": [asdict(process) for process in processes],
    }


def parse_options(argv: Sequence[str] | None) -> argparse.Namespace:
    """Which parts are measured, and how."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument(
        "parts",
        nargs="*",
        metavar="PART",
        help=f"of {', '.join(TITLES)}; all but {CHAOS} if none is named",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write it there too")
    parser.add_argument(
        "--play",
        type=int,
        default=60,
        metavar="SECONDS",
        help="how long the fleet plays before it is measured (default 60)",
    )
    options = parser.parse_args(argv)
    unknown = [part for part in options.parts if part not in TITLES]
    if unknown:
        known = " or ".join(TITLES)
        parser.error(f"no part is called {unknown[0]}: use {known}")
    options.parts = options.parts or DEFAULT_PARTS
    return options


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; status 1 where something could not be measured."""
    options = parse_options(argv)
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
            found, processes = measure_parts(options.parts, options.play, shown)
    except (
        fleet.FleetError,
        OSError,
        RuntimeError,
        SubprocessError,
        ValueError,
    ) as error:
        console.print(f"bench: {error}", style="red", highlight=False)
        return 1
    for part, figures in found.items():
        console.print(
            figure_table(TITLES[part], figures), list_baselines(figures), sep="\n"
        )
    if processes:
        console.print(memory_table(processes))
    if options.json:
        text = json.dumps(run_document(found, processes), indent=2)
        options.json.write_text(f"{text}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
