"""``make chaos``: a fleet that plays while everything goes wrong, and the audit.

Real workers and web servers, a provider over HTTP that refuses what the real one
refuses, the local game with faults; workers and web servers are killed, PostgreSQL
crashes. Ends with status 1 where a row is not accounted for.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.progress import TimeElapsedColumn as Elapsed
from rich.table import Table

from bench.chaos.run import Options, Report, fly


def parse_options(argv: Sequence[str] | None) -> tuple[Options, Path | None]:
    """How large the run is, and where its figures go."""
    parser = argparse.ArgumentParser(prog="make chaos", description=__doc__)
    for field in fields(Options):
        kind = type(field.default)
        parser.add_argument(
            f"--{field.name}",
            type=kind,
            default=field.default,
            metavar="N",
            help=f"default {field.default}",
        )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write it there too")
    found = vars(parser.parse_args(argv))
    file = found.pop("json")
    return Options(**found), file


def report_table(report: Report) -> Table:
    """What happened, in lines."""
    table = Table(title="What the fleet went through", title_justify="left")
    table.add_column("what")
    table.add_column("how often")
    total = sum(report.turns.values())
    table.add_row(
        "turns", f"{total} in {report.seconds:.0f} s: {_format_counts(report.turns)}"
    )
    table.add_row("killed or crashed", _format_counts(report.struck))
    table.add_row("starts again", str(report.deaths))
    table.add_row("model", _format_counts(report.model))
    table.add_row("faults of the game", _format_counts(report.game))
    table.add_row("actions in the game", _format_counts(report.actions))
    table.add_row("messages taken", str(report.messages))
    return table


def _format_counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items())) or "-"


def main(argv: Sequence[str] | None = None) -> int:
    """Fly and print; 1 where something is not accounted for."""
    options, file = parse_options(argv)
    columns = (TextColumn("turns"), BarColumn(), MofNCompleteColumn(), Elapsed())
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task("turns", total=options.myses * options.turns)
        report = fly(options, lambda turns: shown.update(task, completed=turns))
    console = Console()
    console.print(report_table(report))
    for fault in report.faults:
        console.print(fault, style="red", highlight=False)
    if not report.faults:
        console.print("Every turn, call, action and message is accounted for.")
    if file:
        file.write_text(json.dumps(asdict(report), indent=2) + "\n")
    return 1 if report.faults else 0


if __name__ == "__main__":
    # Ends by an exception, so that programs and the disk are let go of too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    sys.exit(main())
