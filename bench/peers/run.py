"""Run every store's program on one PostgreSQL server, each in a database of its own."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from bench.figures import Step, describe_machine
from bench.peers.environments import EnvironmentFailed, Peer, find_python
from bench.peers.workload import HITS, NEWEST, SEARCHED_FROM, WORDS
from bench.processes import PYTHON, ROOT, clean_environment
from zoea.postgres import acquire

LENGTHS = (100, 1_000, 10_000, 100_000)
SECONDS = 10.0
#: A fill, or all cells of one length, that takes longer is given up.
GIVE_UP_SECONDS = 1_200.0
TURN_CELLS = ("append", "context")
OWN = "zoea"
VERSION = "SHOW server_version"

Document = dict[str, Any]


class ProgramFailed(Exception):
    """A store's program that ended without a result; one line with the reason."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The lengths of histories, and the seconds for a cell and for a program."""

    lengths: Sequence[int] = LENGTHS
    cell: float = SECONDS
    program: float = GIVE_UP_SECONDS


@dataclass(frozen=True, slots=True)
class Server:
    """Where the server listens: the folder of its socket, or a host."""

    host: str
    port: str
    user: str
    password: str = ""

    @property
    def account(self) -> str:
        """User and password, as they stand in an address."""
        word = f":{quote(self.password, safe='')}" if self.password else ""
        return f"{quote(self.user, safe='')}{word}"

    def library_url(self, database: str) -> str:
        """An address as libpq and SQLAlchemy read it."""
        place = f"host={quote(self.host, safe='/')}&port={self.port}"
        return f"postgresql://{self.account}@/{database}?{place}"

    def settings_url(self, database: str) -> str:
        """The same as Zoea's settings read it."""
        place = f"{quote(self.host, safe='')}:{self.port}"
        return f"postgresql://{self.account}@{place}/{database}"

    @contextmanager
    def connect(self, database: str = "postgres") -> Iterator[psycopg.Connection]:
        """A connection that commits by itself."""
        place = make_conninfo(
            host=self.host,
            port=self.port,
            user=self.user,
            password=self.password or None,
            dbname=database,
        )
        with psycopg.connect(place, autocommit=True) as connection:
            yield connection


def measure_peers(peers: Sequence[Peer], bounds: Bounds, step: Step) -> Document:
    """Measure all of them on a server of this run's own; the whole run as JSON."""
    step("Starting PostgreSQL")
    with (
        tempfile.TemporaryDirectory(prefix="zoea-peers-") as folder,
        acquire(Path(folder)) as own,
    ):
        known = conninfo_to_dict(own.conninfo())
        server = Server(*(str(known[each]) for each in ("host", "port", "user")))
        with server.connect() as connection:
            [found] = connection.execute(VERSION).fetchall()
        measured = [measure_peer(peer, server, bounds, step) for peer in peers]
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": describe_machine(),
        "postgresql": str(found[0]).split()[0],
        "lengths": list(bounds.lengths),
        "seconds": bounds.cell,
        "newest": NEWEST,
        "hits": HITS,
        "peers": [peer for peer, _ in measured],
        "cells": [cell for _, cells in measured for cell in cells],
    }


def measure_peer(
    peer: Peer, server: Server, bounds: Bounds, step: Step
) -> tuple[Document, list[Document]]:
    """One row: what it is, and its cells. What cannot be measured says why."""
    row: Document = {
        "name": peer.name,
        "title": peer.title,
        "context": peer.context,
        "search": peer.search,
        "versions": {},
    }
    database = f"bench_{peer.name.replace('-', '_')}"
    cells: list[Document] = []
    reason = ""
    try:
        step(f"{peer.title}: its environment")
        python = find_python(peer)
        _make_database(server, database)
    except EnvironmentFailed as error:
        row["failed"] = reason = str(error)
    for length in bounds.lengths:
        found: Document = {}
        if not reason:
            step(f"{peer.title}: {length:,} messages")
            try:
                found = _measure_length(peer, python, server, length, bounds)
                row["versions"] = found["versions"]
            except ProgramFailed as error:
                reason = f"{error} (at {length:,} messages)"
        known = found.get("cells", {})
        for name in list_cells(peer, length):
            cell = known.get(name, {"error": reason})
            cells.append({"peer": peer.name, "length": length, "cell": name} | cell)
    if reason and "failed" not in row:
        row["failed"] = f"{peer.title}: {reason}"
    return row, cells


def list_cells(peer: Peer, length: int) -> list[str]:
    """What is measured of a peer at a length."""
    searched = peer.search and length >= SEARCHED_FROM
    return [*TURN_CELLS, *(WORDS if searched else ())]


def _make_database(server: Server, database: str) -> None:
    name = sql.Identifier(database)
    with server.connect() as connection:
        connection.execute(sql.SQL("DROP DATABASE IF EXISTS {}").format(name))
        connection.execute(sql.SQL("CREATE DATABASE {}").format(name))


def _measure_length(
    peer: Peer, python: Path, server: Server, length: int, bounds: Bounds
) -> Document:
    database = f"bench_{peer.name.replace('-', '_')}"
    name = sql.Identifier(database)
    # Filling is not timed, and some can fill only one turn a transaction.
    quick = sql.SQL("ALTER DATABASE {} SET synchronous_commit = off").format(name)
    safe = sql.SQL("ALTER DATABASE {} RESET synchronous_commit").format(name)
    with server.connect() as connection:
        connection.execute(quick)
        _run_program(peer, python, server, ["fill", database, length], bounds)
        connection.execute(safe)
    with server.connect(database) as connection:
        connection.execute("VACUUM ANALYZE")
        connection.execute("CHECKPOINT")
    return _run_program(peer, python, server, ["measure", database, length], bounds)


def _run_program(
    peer: Peer, python: Path, server: Server, words: list[Any], bounds: Bounds
) -> Document:
    """Run one stage of a store's program; its last line, read."""
    stage, database, length = words
    given = [stage, server.library_url(database), str(length), str(bounds.cell)]
    with tempfile.TemporaryDirectory(prefix="zoea-peer-") as folder:
        command, options = _build_command(peer, python, Path(folder))
        if peer.program == OWN:
            options["env"] |= {"DATABASE_URL": server.settings_url(database)}
        try:
            done = subprocess.run(
                [*command, *given, *peer.options],
                capture_output=True,
                text=True,
                check=False,
                timeout=bounds.program,
                **options,
            )
        except subprocess.TimeoutExpired as error:
            raise ProgramFailed(
                f"{stage} took longer than {bounds.program:g} s"
            ) from error
    last = (done.stdout.strip().splitlines() or [""])[-1]
    if done.returncode or not last.startswith("{"):
        said = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise ProgramFailed(f"{stage} failed (status {done.returncode}): {said[:200]}")
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
