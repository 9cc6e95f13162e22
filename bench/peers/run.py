"""Zoea beside other libraries' stores, on one PostgreSQL server.

Each gets the same histories and searches through its public interface, in a Python
environment of its own, which is installed below ``.venv/peers`` when it is missing. Only
the ratios to raw psycopg of the same run can be compared between machines. All lengths
take about half an hour, the first time longer.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg

from bench.figures import Found, Step, Table, format_amount
from bench.peers.environments import (
    PEERS,
    PLAIN,
    EnvironmentFailed,
    Peer,
    find_python,
)
from bench.peers.workload import SEARCHED_FROM, WORDS
from bench.processes import PYTHON, ROOT, clean_environment
from zoea.postgres import USER, acquire
from zoea.postgres.cluster import Cluster

LENGTHS = (100, 1_000, 10_000, 100_000)
SECONDS = 10.0
#: A fill, or all cells of one length, that takes longer is given up.
GIVE_UP_SECONDS = 1_200.0
TURN_CELLS = ("append", "context")
OWN = "zoea"
VERSION = "SHOW server_version"
MARK = "peers"
TITLES = {
    "append": "Append a turn",
    "context": "Fetch the next context",
    "rare": "Search a rare word",
    "medium": "Search a medium word",
}
SEARCHES = ("rare", "medium")
#: A median of fewer runs is marked.
FEW = 5

Document = dict[str, Any]


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--lengths",
        type=_read_lengths,
        default=list(LENGTHS),
        metavar="N,N",
        help=f"messages of the histories (default {','.join(map(str, LENGTHS))})",
    )
    parser.add_argument(
        "--only",
        action="append",
        choices=[peer.name for peer in PEERS],
        help=f"beside {PLAIN} measure this one alone; may be repeated",
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=SECONDS,
        help=f"about how long a cell is measured at most (default {SECONDS:g})",
    )


def _read_lengths(text: str) -> list[int]:
    lengths = [int(each.replace("_", "")) for each in text.split(",")]
    if any(length < 2 or length % 2 for length in lengths):
        raise argparse.ArgumentTypeError("a history has an even number of messages")
    return sorted(lengths)


def choose_peers(names: Sequence[str] | None) -> list[Peer]:
    """The peers of these names, all without any; always what they are compared with."""
    return [
        peer for peer in PEERS if not names or peer.name == PLAIN or peer.name in names
    ]


def measure(options: argparse.Namespace, step: Step) -> Found:
    """Measure what the options say; a fault where a peer could not be measured."""
    bounds = Bounds(options.lengths, options.seconds)
    document = measure_peers(choose_peers(options.only), bounds, step)
    failed = [row["failed"] for row in document["peers"] if row.get("failed")]
    return Found(build_tables(document), failed, document)


class ProgramFailed(Exception):
    """A store's program that ended without a result; one line with the reason."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The lengths of histories, and the seconds for a cell and for a program."""

    lengths: Sequence[int] = LENGTHS
    cell: float = SECONDS
    program: float = GIVE_UP_SECONDS


def measure_peers(peers: Sequence[Peer], bounds: Bounds, step: Step) -> Document:
    """Measure all of them on a server of this run's own; the whole run as JSON."""
    step("Starting PostgreSQL")
    with (
        tempfile.TemporaryDirectory(prefix="zoea-peers-") as folder,
        acquire(Path(folder)) as server,
    ):
        measured = [measure_peer(peer, server, bounds, step) for peer in peers]
        with connect(server) as connection:
            [found] = connection.execute(VERSION).fetchall()
    return {
        "postgresql": str(found[0]).split()[0],
        "lengths": list(bounds.lengths),
        "seconds": bounds.cell,
        "peers": [peer for peer, _ in measured],
        "cells": [cell for _, cells in measured for cell in cells],
    }


def connect(server: Cluster, database: str = "postgres") -> psycopg.Connection:
    """A connection that commits by itself."""
    return psycopg.connect(server.conninfo(database), autocommit=True)


def measure_peer(
    peer: Peer, server: Cluster, bounds: Bounds, step: Step
) -> tuple[Document, list[Document]]:
    """One row: what it is, and its cells. What cannot be measured says why."""
    names = ("name", "title", "context", "search")
    row: Document = {name: getattr(peer, name) for name in names} | {"versions": {}}
    cells: list[Document] = []
    reason = ""
    with connect(server) as connection:
        connection.execute(f'CREATE DATABASE "{peer.name}"'.encode())
    for length in bounds.lengths:
        known: Document = {}
        if not reason:
            step(f"{peer.title}: {length:,} messages")
            try:
                found = _measure_length(peer, server, length, bounds)
                row["versions"], known = found["versions"], found["cells"]
            except (EnvironmentFailed, ProgramFailed) as error:
                reason = str(error)
                row["failed"] = f"{peer.title}: {reason}"
        for name in list_cells(peer, length):
            cell = known.get(name, {"error": reason})
            cells.append({"peer": peer.name, "length": length, "cell": name} | cell)
    return row, cells


def list_cells(peer: Peer, length: int) -> list[str]:
    """What is measured of a peer at a length."""
    searched = peer.search and length >= SEARCHED_FROM
    return [*TURN_CELLS, *(WORDS if searched else ())]


def _measure_length(
    peer: Peer, server: Cluster, length: int, bounds: Bounds
) -> Document:
    # Filling is not timed, and some can fill only one turn a transaction.
    change = f'ALTER DATABASE "{peer.name}" {{}} synchronous_commit'
    with connect(server) as connection:
        connection.execute(f"{change.format('SET')} = off".encode())
        _run_program(peer, server, "fill", length, bounds)
        connection.execute(change.format("RESET").encode())
    with connect(server, peer.name) as connection:
        connection.execute("VACUUM ANALYZE")
        connection.execute("CHECKPOINT")
    return _run_program(peer, server, "measure", length, bounds)


def _run_program(
    peer: Peer, server: Cluster, stage: str, length: int, bounds: Bounds
) -> Document:
    """Run one stage of a store's program; its last line, read."""
    place = quote(str(server.sockets), safe="")
    # As libpq and SQLAlchemy read it, and as Zoea's settings do.
    address = f"postgresql://{USER}@/{peer.name}?host={place}"
    known = {"DATABASE_URL": f"postgresql://{USER}@{place}/{peer.name}"}
    given = [stage, address, str(length), str(bounds.cell), *peer.options]
    what = f"{stage} of {length:,} messages"
    with tempfile.TemporaryDirectory(prefix="zoea-peer-") as folder:
        command, options = _build_command(peer, find_python(peer), Path(folder))
        options["env"] |= known if peer.program == OWN else {}
        try:
            done = subprocess.run(
                [*command, *given],
                capture_output=True,
                text=True,
                check=False,
                timeout=bounds.program,
                **options,
            )
        except subprocess.TimeoutExpired as error:
            raise ProgramFailed(
                f"{what} took longer than {bounds.program:g} s"
            ) from error
    last = (done.stdout.strip().splitlines() or [""])[-1]
    if done.returncode or not last.startswith("{"):
        said = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise ProgramFailed(f"{what} failed (status {done.returncode}): {said[:200]}")
    result: Document = json.loads(last)
    return result


def _build_command(
    peer: Peer, python: Path, folder: Path
) -> tuple[list[str], dict[str, Any]]:
    """The program of a peer, and where and with which environment it runs.

    Outside Zoea's own it sees no more of this tree than ``bench``: one of the libraries
    has a package of the same name as one of ours.
    """
    module = f"bench.peers.{peer.program}"
    environment = clean_environment(folder)
    if peer.program == OWN:
        command = [*PYTHON, "-m", "bench.processes", f"{module}:run"]
        return command, {"cwd": ROOT, "env": environment}
    (folder / "bench").symlink_to(ROOT / "bench")
    environment |= {"PYTHONPATH": str(folder)}
    command = [str(python), "-W", "ignore", "-m", module]
    return command, {"cwd": folder, "env": environment}


# --- Tables


def build_tables(document: Document) -> list[Table]:
    """One table for each kind of cell, a row for each peer, a column for each length."""
    tables = [_build_table(document, name) for name in TITLES]
    versions = Table("Versions", ["", "versions"], mark=MARK)
    for peer in document["peers"]:
        told = ", ".join(f"{name} {each}" for name, each in peer["versions"].items())
        versions.rows.append([peer["title"], told or "not measured"])
    versions.notes = [
        f"PostgreSQL {document['postgresql']}; at most about {document['seconds']:g} s a cell."
    ]
    return [*(table for table in tables if table.headings[1:]), versions]


def _build_table(document: Document, name: str) -> Table:
    search = name in SEARCHES
    lengths = [
        length
        for length in document["lengths"]
        if not search or length >= SEARCHED_FROM
    ]
    table = Table(TITLES[name], ["", *(f"{length:,}" for length in lengths)], mark=MARK)
    cells = _cells_of(document, name)
    for peer in document["peers"]:
        texts = []
        for length in lengths:
            if search and not peer["search"]:
                texts.append("none")
                continue
            cell = cells.get((peer["name"], length), {"error": "it was not measured"})
            base = cells.get((PLAIN, length), {}).get("ms")
            texts.append(_format_cell(cell, base, peer, table))
        how = peer["search"] if search else peer["context"] if name == "context" else ""
        title = f"{peer['title']} ({how})" if how else peer["title"]
        table.rows.append([title, *texts])
    table.notes = [f"[{place}] {note}" for place, note in enumerate(table.notes, 1)]
    return table


def _cells_of(document: Document, name: str) -> dict[tuple[str, int], Document]:
    return {
        (cell["peer"], cell["length"]): cell
        for cell in document["cells"]
        if cell["cell"] == name
    }


def _format_cell(
    cell: Document, base: float | None, peer: Document, table: Table
) -> str:
    if "ms" not in cell:
        note = f"{peer['title']}: {cell['error']}"
        if note not in table.notes:
            table.notes.append(note)
        return f"failed [{table.notes.index(note) + 1}]"
    parts = [f"{format_ratio(cell['ms'] / base)} x"] if base else []
    parts.append(format_amount(cell["ms"], "ms"))
    if "messages" in cell:
        parts.append(f"{cell['messages']:,}")
    if cell["repeats"] < FEW:
        parts.append("once" if cell["repeats"] == 1 else f"{cell['repeats']} runs")
    return ", ".join(parts)


def format_ratio(ratio: float) -> str:
    """A ratio with two digits that count."""
    return f"{ratio:,.{0 if ratio >= 9.95 else 1 if ratio >= 0.95 else 2}f}"
