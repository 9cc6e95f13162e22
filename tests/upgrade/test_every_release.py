"""A database of each landed release comes up with nothing lost, and its fleet flies on."""

from __future__ import annotations

import re
from collections.abc import Iterator

import psycopg
import pytest

from sandbox.game.testing import SandboxServer
from tests import postgres
from tests.commands import Commands
from tests.upgrade.databases import (
    KEY,
    count_lost,
    list_releases,
    name_database,
    open_release,
    read_columns,
    read_rows,
)
from tests.upgrade.releases import RELEASES
from zoea.postgres.cluster import Cluster

OURS = ("agents_", "memory_", "zoea_")
READ = "from tests.upgrade.reading import read_all; read_all()"
WORK = ("procrastinate", "worker", "--one-shot", "--shutdown-graceful-timeout=240")
# What all of these need that are run for each release, and most of their time goes into.
LOADED = (
    "zoea.urls",
    "agents.runtime.turn",
    "agents.llm.wires.pilot",
    "tests.upgrade.reading",
)
# Of worker runs; each takes what is due.
MOST_RUNS = 20

pytestmark = pytest.mark.skipif(
    postgres.OUTSIDE, reason="its databases are made in the server of the tests"
)


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
    with Commands(
        *LOADED,
        DATABASE_URL=name_database(server),
        SPACEMOLT_MCP_URL=game.url,
        ZOEA_SECONDS_PER_TICK="0.2",
        ZOEA_SECRET_KEY=KEY,
    ) as loaded:
        yield loaded


@pytest.fixture
def database(release: str, server: Cluster) -> Iterator[psycopg.Connection]:
    """The database of one release."""
    with open_release(release, server) as opened:
        yield opened


def count_turns(database: psycopg.Connection) -> dict[int, int]:
    query = (
        b"SELECT mysis_id, count(*) FROM agents_turn WHERE outcome = 'done' GROUP BY 1"
    )
    return dict(database.execute(query).fetchall())


def test_a_database_of_every_release_is_kept() -> None:
    assert list_releases() == list(RELEASES)


@pytest.mark.parametrize("release", RELEASES)
def test_its_database_comes_up_whole_and_flies_on(
    release: str, program: Commands, database: psycopg.Connection
) -> None:
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
    assert count_lost(before, read_rows(database, columns)) == {}

    read = program.run("shell", "--no-imports", "-c", READ)
    assert (read.status, read.stderr) == (0, "")
    assert re.fullmatch(r"all \d{2,} as they should be\n", read.stdout)

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
