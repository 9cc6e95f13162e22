"""A database of the landed release goes on, and has the tables of a new one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator

import psycopg
import pytest

from sandbox.game.testing import SandboxServer
from tests import postgres
from tests.commands import ROOT, Commands
from tests.upgrade.landed import (
    KEY,
    NAME,
    count_lost,
    dump,
    load,
    name_database,
    open_empty,
    open_landed,
    read_columns,
    read_rows,
)
from zoea.postgres.cluster import Cluster

OURS = ("agents_", "memory_", "zoea_")
READ = "from tests.upgrade.reading import read_all; read_all()"
WORK = ("procrastinate", "worker", "--one-shot", "--shutdown-graceful-timeout=240")
# What all of these need, and most of their time goes into.
LOADED = (
    "zoea.urls",
    "agents.runtime.turn",
    "agents.llm.wires.pilot",
    "tests.upgrade.reading",
)
# Of worker runs; each takes what is due.
MOST_RUNS = 20
# The columns that an INSERT may not leave out.
WANTED = """
SELECT table_name || '.' || column_name FROM information_schema.columns
WHERE table_schema = 'public' AND is_nullable = 'NO' AND column_default IS NULL
  AND is_identity = 'NO' AND is_generated = 'NEVER'
"""
# What a new database begins with. The numbers and moments of rows may differ.
BEGINNINGS = """
SELECT concat_ws(' ', app_label, model) FROM django_content_type
UNION ALL
SELECT concat_ws(' ', app_label, model, codename, permission.name)
FROM auth_permission AS permission
JOIN django_content_type AS type ON type.id = content_type_id
UNION ALL
SELECT concat_ws(' ', name, strategy, options, budget_tokens, budget_reserve, is_default)
FROM memory_contextpolicy WHERE is_default
"""

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
    """``manage.py`` of now, on the database of the landed release."""
    with Commands(
        *LOADED,
        DATABASE_URL=name_database(server),
        SPACEMOLT_MCP_URL=game.url,
        ZOEA_SECONDS_PER_TICK="0.2",
        ZOEA_SECRET_KEY=KEY,
    ) as loaded:
        yield loaded


@pytest.fixture
def database(server: Cluster) -> Iterator[psycopg.Connection]:
    with open_landed(server) as opened:
        yield opened


def count_turns(database: psycopg.Connection) -> dict[int, int]:
    query = (
        b"SELECT mysis_id, count(*) FROM agents_turn WHERE outcome = 'done' GROUP BY 1"
    )
    return dict(database.execute(query).fetchall())


def read_wanted(database: psycopg.Connection) -> set[str]:
    return {name for (name,) in database.execute(WANTED.encode())}


def test_its_database_comes_up_whole_and_flies_on(
    program: Commands, database: psycopg.Connection
) -> None:
    columns, wanted = read_columns(database), read_wanted(database)
    before = read_rows(database, columns)
    empty = {table for table, rows in before.items() if not rows}
    assert not any(table.startswith(OURS) for table in empty)

    prepared = program.run("prepare")
    assert (prepared.status, prepared.stderr) == (0, "")
    assert "cannot read" not in prepared.stdout

    now = read_columns(database)
    for table, names in columns.items():
        assert set(names) <= set(now.get(table, ())), table
    # What the release before leaves out has a default: its workers may fly meanwhile.
    new = {name for name in read_wanted(database) if name.split(".")[0] in columns}
    assert new <= wanted
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


def read_schema(server: Cluster, name: str) -> set[str]:
    """All statements that make its tables and what belongs to them.

    The order of columns is left out: one that came later stands last, and no statement of
    the program goes by their order.
    """
    text = dump(server, name, "--schema-only").decode()
    # Lines of psql hold a key of this dump.
    text = re.sub(r"^\\.*\n", "", text, flags=re.MULTILINE)
    return {
        "\n".join(sorted(line.rstrip(",") for line in statement.splitlines()))
        if "CREATE TABLE" in statement
        else statement
        for statement in text.split("\n\n--\n-- Name: ")
    }


def read_beginnings(database: psycopg.Connection) -> list[str]:
    return sorted(line for (line,) in database.execute(BEGINNINGS.encode()))


def test_a_new_database_has_the_tables_of_an_upgraded_one(
    program: Commands, server: Cluster, database: psycopg.Connection
) -> None:
    """So nothing is to be done on its tables."""
    found = program.run("migrate")
    assert "No migrations to apply" in found.stdout, found.stderr
    with open_empty("brand_new", server) as new, open_empty("read_back", server):
        subprocess.run(
            [sys.executable, "manage.py", "migrate", "--verbosity=0"],
            cwd=ROOT,
            env=os.environ | {"DATABASE_URL": name_database(server, "brand_new")},
            check=True,
        )
        # As the other was: PostgreSQL writes some expressions in another way once they
        # have been read back.
        load(server, "read_back", dump(server, "brand_new", "--schema-only"))
        upgraded, made = read_schema(server, NAME), read_schema(server, "read_back")
        assert len(made) > 400
        assert sorted(made ^ upgraded) == []
        assert read_beginnings(new) == read_beginnings(database)
