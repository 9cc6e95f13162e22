"""A database of each landed release comes up with nothing lost, and its fleet flies on."""

from __future__ import annotations

import lzma
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from urllib.parse import quote

import psycopg
import pytest
from psycopg import sql

from sandbox.game.testing import SandboxServer
from tests import postgres
from tests.commands import Commands
from tests.upgrade.releases import GOLDEN, KEY, RELEASES
from zoea.postgres.cluster import Cluster

NAME = "of_a_release"
OURS = ("agents_", "memory_", "zoea_")
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
READ = "from tests.upgrade.reading import read_all; read_all()"
WORK = ("procrastinate", "worker", "--one-shot", "--shutdown-graceful-timeout=240")
# What all of these need that are run for each release, and most of their time goes into.
LOADED = (
    "zoea.urls",
    "agents.runtime.turn",
    "agents.llm.wires.pilot",
    "tests.upgrade.reading",
)
# The others' fleets stand in the same tables by then.
FLOWN = (min(RELEASES), max(RELEASES))
# Of worker runs; each takes what is due.
MOST_RUNS = 20

pytestmark = pytest.mark.skipif(
    postgres.OUTSIDE, reason="its databases are made in the server of the tests"
)
Columns = dict[str, list[str]]
Rows = dict[str, Counter[str]]


@pytest.fixture(scope="module")
def game() -> Iterator[SandboxServer]:
    with SandboxServer(tick=0.2) as running:
        yield running


@pytest.fixture(scope="module")
def server() -> Cluster:
    postgres.start()
    return Cluster(postgres.DATA)


@pytest.fixture(scope="module")
def program(server: Cluster, game: SandboxServer) -> Iterator[Commands]:
    """``manage.py`` of now, on the database of a release."""
    host = quote(str(server.sockets), safe="")
    with Commands(
        *LOADED,
        DATABASE_URL=f"postgresql://postgres@{host}/{NAME}",
        SPACEMOLT_MCP_URL=game.url,
        ZOEA_SECONDS_PER_TICK="0.2",
        ZOEA_SECRET_KEY=KEY,
    ) as loaded:
        yield loaded


@pytest.fixture
def database(server: Cluster) -> Iterator[psycopg.Connection]:
    """An empty database, for one release."""
    with psycopg.connect(server.conninfo("postgres"), autocommit=True) as every:
        every.execute(f"CREATE DATABASE {NAME} TEMPLATE template0".encode())
        try:
            with psycopg.connect(server.conninfo(NAME), autocommit=True) as one:
                yield one
        finally:
            every.execute(f"DROP DATABASE {NAME} WITH (FORCE)".encode())


def load(release: str, server: Cluster) -> None:
    packed = (GOLDEN / f"{release}.sql.xz").read_bytes()
    words = ["--quiet", "--no-psqlrc", "--set=ON_ERROR_STOP=1", "--output=/dev/null"]
    subprocess.run(
        [server.programs / "psql", *words, f"--dbname={server.conninfo(NAME)}"],
        input=lzma.decompress(packed),
        check=True,
    )


def read_columns(database: psycopg.Connection) -> Columns:
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


def count_turns(database: psycopg.Connection) -> dict[int, int]:
    query = (
        b"SELECT mysis_id, count(*) FROM agents_turn WHERE outcome = 'done' GROUP BY 1"
    )
    return dict(database.execute(query).fetchall())


@pytest.mark.parametrize("release", RELEASES)
def test_its_database_comes_up_whole(
    release: str, server: Cluster, program: Commands, database: psycopg.Connection
) -> None:
    load(release, server)
    columns = read_columns(database)
    before = read_rows(database, columns)
    empty = {table for table, rows in before.items() if not rows}
    assert not any(table.startswith(OURS) for table in empty)

    prepared = program.run("prepare")
    assert (prepared.status, prepared.stderr) == (0, "")
    assert "cannot read" not in prepared.stdout

    now = read_columns(database)
    for table, names in columns.items():
        assert set(names) <= set(now.get(table, ())), table
    after = read_rows(database, columns)
    assert {
        table: before[table] - after[table]
        for table in before
        if before[table] - after[table]
    } == {}

    read = program.run("shell", "--no-imports", "-c", READ)
    assert (read.status, read.stderr) == (0, "")
    assert re.fullmatch(r"all \d{2,} as they should be\n", read.stdout)

    if release in FLOWN:
        fly_on(program, database)


def fly_on(program: Commands, database: psycopg.Connection) -> None:
    """Let every Mysis take a turn."""
    flown = count_turns(database)
    for _ in range(MOST_RUNS):
        worked = program.run(*WORK)
        assert "Traceback" not in worked.stderr
        if all(count > flown[mysis] for mysis, count in count_turns(database).items()):
            return
    pytest.fail("a Mysis flies no more")
