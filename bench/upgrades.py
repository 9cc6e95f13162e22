"""``python -m bench.upgrades``: the database of each release, brought up to date.

Each was flown by its own program and is kept in ``tests/golden/upgrade``. It is brought up
to date by ``manage.py prepare``, as `make up` does, and compared row by row.
"""

from __future__ import annotations

import argparse
import lzma
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from urllib.parse import quote

import psycopg
from psycopg import sql
from rich.console import Console

from bench.figures import describe_moment
from bench.processes import PYTHON, ROOT, clean_environment
from bench.tables import TableData, markdown_table, replace_between, rich_table
from zoea.postgres import USER, acquire
from zoea.postgres.cluster import Cluster

KEPT = ROOT / "tests" / "golden" / "upgrade"
ENDING = ".sql.xz"
#: What secrets in the databases are sealed with.
KEY = "the key of then"
NAME = "of_a_release"
COLUMNS = """
SELECT table_name::text, array_agg(column_name::text ORDER BY ordinal_position)
FROM information_schema.columns
JOIN information_schema.tables USING (table_schema, table_name)
WHERE table_schema = 'public' AND table_type = 'BASE TABLE' GROUP BY 1
"""
ROWS = "SELECT md5(row::text) FROM (SELECT {columns} FROM {table}) AS row"
# What is another after an upgrade: derived from other columns, and a number of
# transactions that means nothing on another server (`events.settle_foreign`).
DERIVED = {
    "memory_memory": {"content_vector", "reasoning_vector"},
    "agents_event": {"xid"},
}
PAGE = ROOT / "docs" / "benchmarks.md"
BEGIN, END = "<!-- upgrades: begin -->", "<!-- upgrades: end -->"
HEADINGS = ["release", "rows", "rows lost", "brought up to date in", "once more"]

Columns = dict[str, list[str]]
Rows = dict[str, Counter[str]]


@dataclass(frozen=True)
class Upgrade:
    """One database that was brought up to date; ``again``: seconds with nothing to do."""

    release: str
    rows: int
    lost: dict[str, int]
    seconds: float
    again: float


# --- A database of a release


def list_releases() -> list[str]:
    """The releases whose databases are kept, the oldest first."""
    return sorted(path.name.removesuffix(ENDING) for path in KEPT.glob(f"*{ENDING}"))


@contextmanager
def open_release(release: str, server: Cluster) -> Iterator[psycopg.Connection]:
    """The database ``NAME`` of a server as a release left it, until the block ends."""
    with psycopg.connect(server.conninfo("postgres"), autocommit=True) as every:
        every.execute(f"CREATE DATABASE {NAME} TEMPLATE template0".encode())
        try:
            _load(KEPT / f"{release}{ENDING}", server)
            with psycopg.connect(server.conninfo(NAME), autocommit=True) as one:
                yield one
        finally:
            every.execute(f"DROP DATABASE {NAME} WITH (FORCE)".encode())


def _load(packed: Path, server: Cluster) -> None:
    words = ["--quiet", "--no-psqlrc", "--set=ON_ERROR_STOP=1", "--output=/dev/null"]
    subprocess.run(
        [server.programs / "psql", *words, f"--dbname={server.conninfo(NAME)}"],
        input=lzma.decompress(packed.read_bytes()),
        check=True,
    )


def name_database(server: Cluster) -> str:
    """What ``DATABASE_URL`` says of the database that `open_release` makes."""
    return f"postgresql://{USER}@{quote(str(server.sockets), safe='')}/{NAME}"


def read_columns(database: psycopg.Connection) -> Columns:
    """The columns of each table, without those that an upgrade makes anew."""
    return {
        table: [name for name in names if name not in DERIVED.get(table, ())]
        for table, names in database.execute(COLUMNS.encode())
    }


def read_rows(database: psycopg.Connection, columns: Columns) -> Rows:
    """A checksum of each row by table, of these columns; of equal ones how many."""
    return {
        table: Counter(
            digest
            for (digest,) in database.execute(
                sql.SQL(ROWS).format(
                    columns=sql.SQL(", ").join(map(sql.Identifier, names)),
                    table=sql.Identifier(table),
                )
            )
        )
        for table, names in columns.items()
    }


def count_lost(before: Rows, after: Rows) -> dict[str, int]:
    """How many rows of each table are gone or are others; empty where all are there."""
    lost = {table: (rows - after[table]).total() for table, rows in before.items()}
    return {table: count for table, count in lost.items() if count}


# --- Upgrades, measured


def measure_upgrade(release: str, server: Cluster) -> Upgrade:
    """Bring the database of a release up to date, twice."""
    with open_release(release, server) as database:
        columns = read_columns(database)
        before = read_rows(database, columns)
        seconds = _prepare(server)
        lost = count_lost(before, read_rows(database, columns))
        again = _prepare(server)
    rows = sum(each.total() for each in before.values())
    return Upgrade(release, rows, lost, seconds, again)


def _prepare(server: Cluster) -> float:
    """Run ``manage.py prepare``; the seconds that it took."""
    named = {"DATABASE_URL": name_database(server), "ZOEA_SECRET_KEY": KEY}
    begun = perf_counter()
    subprocess.run(
        [*PYTHON, "manage.py", "prepare"],
        cwd=ROOT,
        env=clean_environment(server.data) | named,
        stdout=subprocess.DEVNULL,
        check=True,
    )
    return perf_counter() - begun


def build_table(upgrades: Sequence[Upgrade]) -> TableData:
    """A row for each release; what is lost by table."""
    table = TableData("From release to release", HEADINGS)
    for one in upgrades:
        lost = ", ".join(f"{count} of {name}" for name, count in one.lost.items())
        times = (f"{one.seconds:.1f} s", f"{one.again:.1f} s")
        table.rows.append([one.release, f"{one.rows:,}", lost or "none", *times])
    return table


def write_docs(table: TableData) -> None:
    """Rewrite what docs/benchmarks.md tells of upgrades."""
    text = f"{describe_moment()}.\n\n{markdown_table(table)}"
    replace_between(PAGE, BEGIN, END, text)


def parse_options(argv: Sequence[str] | None) -> argparse.Namespace:
    """Which releases, and where the table goes."""
    parser = argparse.ArgumentParser(prog="bench.upgrades", description=__doc__)
    known = list_releases()
    parser.add_argument(
        "releases",
        nargs="*",
        metavar="RELEASE",
        help=f"of {', '.join(known)}; else all",
    )
    parser.add_argument(
        "--docs", action="store_true", help="write the table into docs/benchmarks.md"
    )
    options = parser.parse_args(argv)
    unknown = [name for name in options.releases if name not in known]
    if unknown:
        parser.error(f"no release is called {unknown[0]}: use {' or '.join(known)}")
    return options


def main(argv: Sequence[str] | None = None) -> int:
    """Bring them up to date on a server of this run's own; 1 where a row was lost."""
    options, console = parse_options(argv), Console()
    with tempfile.TemporaryDirectory(prefix="zoea-upgrades-") as folder:
        # PostgreSQL's own user has to pass through it.
        Path(folder).chmod(0o755)
        with acquire(Path(folder)) as server:
            upgrades = [
                measure_upgrade(release, server)
                for release in options.releases or list_releases()
            ]
    table = build_table(upgrades)
    console.print(rich_table(table))
    if options.docs:
        write_docs(table)
    return int(any(one.lost for one in upgrades))


if __name__ == "__main__":
    sys.exit(main())
