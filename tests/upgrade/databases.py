"""The databases of landed releases, each as its own program left it in mid-flight."""

from __future__ import annotations

import lzma
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import psycopg
from psycopg import sql

from bench.processes import ROOT
from zoea.postgres import USER
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

Columns = dict[str, list[str]]
Rows = dict[str, Counter[str]]


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
