"""The landed release: its program out of the history, and a database that it flew.

``python -m tests.upgrade.landed`` flies its fleet with its own program and keeps the
database, as it was in mid-flight, in ``tests/golden/upgrade``. To be done once, when a
release has landed.
"""

from __future__ import annotations

import io
import lzma
import os
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import psycopg
from psycopg import sql

from bench.processes import ROOT, clean_environment
from zoea.postgres import DATABASE, USER
from zoea.postgres.cluster import Cluster

LANDED = "a3ff10bd"
"""The commit with which it ended."""

KEPT = ROOT / "tests" / "golden" / "upgrade" / f"{LANDED}.sql.xz"
KEY = "the key of then"
"""What secrets in the database are sealed with."""

NAME = "of_the_landed_release"
FLY = ("up", "--port=0", "--myses=2", "--tick=0.5")
COLUMNS = """
SELECT table_name::text, array_agg(column_name::text ORDER BY ordinal_position)
FROM information_schema.columns
JOIN information_schema.tables USING (table_schema, table_name)
WHERE table_schema = 'public' AND table_type = 'BASE TABLE' GROUP BY 1
"""
ROWS = "SELECT md5(row::text) FROM (SELECT {columns} FROM {table}) AS row"
# What is another after an upgrade: which game is played, and the number of a transaction
# that means nothing on another server (`events.settle_foreign`).
CHANGING = {"agents_event": {"xid"}, "agents_fence": {"game", "seconds_per_tick"}}

Columns = dict[str, list[str]]
Rows = dict[str, Counter[str]]


# --- Its program, and how its database was made


def missing_history(commit: str) -> str:
    """Why a release cannot be had from the history here; empty where it can."""
    try:
        found = subprocess.run(
            ["git", "cat-file", "-e", f"{commit}^{{commit}}"],
            cwd=ROOT,
            capture_output=True,
            check=False,
        )
    except FileNotFoundError:
        return "git is not installed"
    said = found.stderr.decode().strip()
    return f"no history with {commit} here: {said}" if found.returncode else ""


def unpack(commit: str, folder: Path) -> None:
    """Put the program of a commit into a folder; the repository is only read."""
    packed = subprocess.run(
        ["git", "archive", commit], cwd=ROOT, capture_output=True, check=True
    ).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as files:
        files.extractall(folder, filter="data")


def pack_flight(commit: str, folder: Path) -> bytes:
    """Fly the fleet of a release; its database in mid-flight, as compressed SQL."""
    tree, data = folder / "tree", folder / "data"
    unpack(commit, tree)
    environment = clean_environment(data) | {
        "ZOEA_SECRET_KEY": KEY,
        "DJANGO_SETTINGS_MODULE": "zoea.settings",
        "PYTHONPATH": str(tree),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    words = [sys.executable, "manage.py", *FLY]
    with subprocess.Popen(
        words, cwd=tree, env=environment, stdout=subprocess.PIPE, text=True
    ) as up:
        try:
            assert up.stdout is not None
            while not up.stdout.readline().startswith("Dashboard: "):
                assert up.poll() is None
            flight = [sys.executable, str(Path(__file__).with_name("flight.py"))]
            subprocess.run(flight, cwd=tree, env=environment, check=True)
            packed = dump(Cluster(data), DATABASE)
            return lzma.compress(packed, preset=9 | lzma.PRESET_EXTREME)
        finally:
            up.terminate()


def main() -> None:
    """Keep its database."""
    with tempfile.TemporaryDirectory(prefix="zoea-release-") as folder:
        # PostgreSQL's own user has to pass through it.
        Path(folder).chmod(0o755)
        packed = pack_flight(LANDED, Path(folder))
    KEPT.write_bytes(packed)
    sys.stdout.write(f"{KEPT.name}: {len(packed):,} bytes\n")


# --- Databases


def dump(server: Cluster, name: str, *options: str) -> bytes:
    """A database as SQL."""
    where = [f"--host={server.sockets}", f"--username={USER}", name]
    words = [str(server.programs / "pg_dump"), "--no-owner", *options, *where]
    return subprocess.run(words, stdout=subprocess.PIPE, check=True).stdout


def load(server: Cluster, name: str, text: bytes) -> None:
    """Run SQL in a database."""
    words = ["--quiet", "--no-psqlrc", "--set=ON_ERROR_STOP=1", "--output=/dev/null"]
    subprocess.run(
        [server.programs / "psql", *words, f"--dbname={server.conninfo(name)}"],
        input=text,
        check=True,
    )


def name_database(server: Cluster, name: str = NAME) -> str:
    """What ``DATABASE_URL`` says of a database."""
    return f"postgresql://{USER}@{quote(str(server.sockets), safe='')}/{name}"


@contextmanager
def open_empty(name: str, server: Cluster) -> Iterator[psycopg.Connection]:
    """A database that is made for the block."""
    with psycopg.connect(server.conninfo("postgres"), autocommit=True) as every:
        every.execute(f"CREATE DATABASE {name} TEMPLATE template0".encode())
        try:
            with psycopg.connect(server.conninfo(name), autocommit=True) as one:
                yield one
        finally:
            every.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@contextmanager
def open_landed(server: Cluster) -> Iterator[psycopg.Connection]:
    """The database ``NAME`` as the landed release left it, until the block ends."""
    with open_empty(NAME, server) as database:
        load(server, NAME, lzma.decompress(KEPT.read_bytes()))
        # The game of then is gone: who comes first says which one is played.
        database.execute(b"UPDATE agents_fence SET game = ''")
        yield database


def read_columns(database: psycopg.Connection) -> Columns:
    """The columns of each table, without those that may be others after an upgrade."""
    return {
        table: [name for name in names if name not in CHANGING.get(table, ())]
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


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "zoea.settings")
    main()
