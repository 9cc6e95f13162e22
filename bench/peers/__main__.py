"""``make bench-peers``: Zoea beside other libraries' stores, on one PostgreSQL server.

Each gets the same histories and searches through its public interface, in a Python
environment of its own, which is installed below ``.venv/peers`` when it is missing. Only
the ratios to raw psycopg of the same run can be compared between machines. All lengths
take about half an hour, the first time longer.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from bench.figures import show_steps
from bench.peers import report
from bench.peers.environments import PEERS, PLAIN, Peer
from bench.peers.run import LENGTHS, SECONDS, Bounds, Document, measure_peers
from bench.processes import ROOT
from bench.tables import rich_table
from zoea.postgres import PostgresError

DOCS = ROOT / "docs"


def parse_options(argv: Sequence[str] | None) -> argparse.Namespace:
    """Who is measured, how long, and where the result goes."""
    parser = argparse.ArgumentParser(prog="make bench-peers", description=__doc__)
    parser.add_argument(
        "--lengths",
        type=_read_lengths,
        default=list(LENGTHS),
        metavar="N,N",
        help=f"messages of the histories (default {','.join(map(str, LENGTHS))})",
    )
    names = ", ".join(peer.name for peer in PEERS)
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="NAME",
        help=f"beside {PLAIN} measure this one alone; may be repeated ({names})",
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=SECONDS,
        help=f"about how long a cell is measured at most (default {SECONDS:g})",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write it there too")
    parser.add_argument(
        "--from",
        dest="source",
        type=Path,
        metavar="FILE",
        help="measure nothing: show what an earlier run wrote with --json",
    )
    parser.add_argument(
        "--docs",
        action="store_true",
        help="rewrite the tables of docs/benchmarks.md, and docs/benchmarks.svg",
    )
    options = parser.parse_args(argv)
    unknown = [name for name in options.only if name not in names.split(", ")]
    if unknown:
        parser.error(f"nothing is called {unknown[0]}: use {names}")
    return options


def _read_lengths(text: str) -> list[int]:
    lengths = [int(each.replace("_", "")) for each in text.split(",")]
    if any(length < 2 or length % 2 for length in lengths):
        raise argparse.ArgumentTypeError("a history has an even number of messages")
    return sorted(lengths)


def choose_peers(names: Sequence[str]) -> list[Peer]:
    """The peers of these names, all without any; always what they are held against."""
    return [
        peer for peer in PEERS if not names or peer.name == PLAIN or peer.name in names
    ]


def measure(options: argparse.Namespace) -> Document:
    """Measure what the options say, with progress on standard error."""
    bounds = Bounds(options.lengths, options.seconds)
    with show_steps(Console(stderr=True)) as step:
        return measure_peers(choose_peers(options.only), bounds, step)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; status 1 where a peer could not be measured."""
    options = parse_options(argv)
    # Ends by an exception, so that what was started is ended too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    console, errors = Console(), Console(stderr=True)
    try:
        if options.source:
            document = json.loads(options.source.read_text())
        else:
            document = measure(options)
    except (OSError, PostgresError, ValueError) as error:
        errors.print(f"bench-peers: {escape(str(error))}", style="red", soft_wrap=True)
        return 1
    if options.json:
        options.json.write_text(f"{json.dumps(document, indent=2)}\n")
    for table in report.build_tables(document):
        console.print(rich_table(table), *map(escape, table.notes), sep="\n")
    if options.docs:
        report.write_docs(document, DOCS)
    failed = [row["failed"] for row in document["peers"] if row.get("failed")]
    for reason in failed:
        errors.print(f"bench-peers: {escape(reason)}", style="red", soft_wrap=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
