"""``make soak``: a whole fleet for 20 minutes, many events at once, a very long memory.

load: Myses of the pilot on what ``manage.py up`` runs, with open dashboards, JSON streams
and a search all the time. events: 100,000 events through one stream, from the log and
live. large: search, pages, turns, prune and start in a database of 3,000,000 memories,
which is made once and kept in ``.zoea``, beside a small one. Ends with status 1 where
something was lost, an error was logged, or memory grows.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from subprocess import SubprocessError
from typing import Any

import psycopg
from rich.console import Console
from rich.markup import escape

from bench.figures import Step, describe_machine, show_steps
from bench.fleet import FleetError
from bench.processes import ROOT, run_function
from bench.soak import large, load, report
from bench.tables import rich_table
from zoea.postgres import PostgresError

DOCS = ROOT / "docs"
LOAD, EVENTS, LARGE = "load", "events", "large"
PARTS = (LOAD, EVENTS, LARGE)
#: What says how large each part is.
SIZES = {
    LOAD: ("myses", "minutes", "dashboards", "sockets"),
    EVENTS: ("events",),
    LARGE: ("memories", "myses"),
}


def parse_options(argv: Sequence[str] | None) -> argparse.Namespace:
    """What is measured, how large it is, and where the result goes."""
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__)
    usual = load.Options()
    for name, default, what in (
        ("myses", usual.myses, "Myses that fly, and that remember"),
        ("minutes", usual.minutes, "how long they fly"),
        ("dashboards", usual.dashboards, "dashboards that look on"),
        ("sockets", usual.sockets, "JSON streams"),
        ("events", 100_000, "events through one stream"),
        (
            "memories",
            3_000_000,
            "memories of the large database, if the disk holds them",
        ),
    ):
        parser.add_argument(
            f"--{name}",
            type=_read_minutes if name == "minutes" else _read_count,
            default=default,
            metavar="N",
            help=f"{what} (default {default})",
        )
    parser.add_argument(
        "--only",
        choices=PARTS,
        action="append",
        help="this part alone; may be repeated",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write it there too")
    parser.add_argument(
        "--docs", action="store_true", help="rewrite the tables of docs/benchmarks.md"
    )
    options = parser.parse_args(argv)
    if options.memories < large.SMALL:
        parser.error(f"--memories: the small database has {large.SMALL:,} already")
    return options


def _read_count(text: str) -> int:
    number = int(text.replace("_", "").replace(",", ""))
    if number < 1:
        raise argparse.ArgumentTypeError("give a whole number from 1 on")
    return number


def _read_minutes(text: str) -> float:
    minutes = float(text)
    if minutes <= 0:
        raise argparse.ArgumentTypeError("give more than no time")
    return minutes


def measure(options: argparse.Namespace, step: Step) -> dict[str, Any]:
    """Each part that was asked for, one after the other, as JSON."""
    before = os.getloadavg()[0]
    parts = [part for part in PARTS if not options.only or part in options.only]
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "load": before,
        "machine": describe_machine(),
        "commands": {part: write_command(options, part) for part in parts},
        "parts": {part: _measure_part(part, options, step) for part in parts},
    }


def write_command(options: argparse.Namespace, part: str) -> str:
    """The command that measures this part alone, in this size."""
    words = [f"--{name} {getattr(options, name)}" for name in SIZES[part]]
    return f'make soak ARGS="--only {part} {" ".join(words)}"'


def _measure_part(part: str, options: argparse.Namespace, step: Step) -> Any:
    if part == LARGE:
        return large.measure(options.memories, options.myses, step)
    if part == LOAD:
        sizes = {name: getattr(options, name) for name in SIZES[LOAD]}
        return load.measure(load.Options(**sizes), step)
    with tempfile.TemporaryDirectory(prefix="zoea-soak-") as folder:
        return run_function(
            "bench.soak.events:measure", Path(folder), step, str(options.events)
        )


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; 1 where something is wrong or could not be measured."""
    options = parse_options(argv)
    # Ends by an exception, so that what was started is ended too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    console, errors = Console(), Console(stderr=True)
    try:
        with show_steps(errors) as step:
            document = measure(options, step)
    except (
        FleetError,
        OSError,
        PostgresError,
        RuntimeError,
        SubprocessError,
        psycopg.Error,
    ) as error:
        errors.print(f"soak: {escape(str(error))}", style="red", soft_wrap=True)
        return 1
    except KeyboardInterrupt:
        errors.print("soak: ended; what it had started is gone.")
        return 128 + signal.SIGINT
    if options.json:
        options.json.write_text(f"{json.dumps(document, indent=2)}\n")
    for part, found in document["parts"].items():
        for table in report.build_tables(part, found):
            console.print(rich_table(table), *map(escape, table.notes), sep="\n")
    if options.docs:
        report.write_docs(document, DOCS)
    faults = report.list_faults(document)
    for fault in faults:
        console.print(escape(fault), style="red", highlight=False, soft_wrap=True)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
