"""Backup and restore by the very commands of the documents."""

from __future__ import annotations

import os
import re
import stat
import subprocess
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import psycopg
import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from agents import actions, fence
from agents.models import Mysis
from bench.processes import ROOT, clean_environment, database_url
from memory.models import AuditEntry
from tests import postgres
from tests.commands import Commands
from tests.factories import make_account, make_memory
from tests.upgrade.landed import (
    KEY,
    NAME,
    count_lost,
    open_landed,
    read_columns,
    read_rows,
)
from zoea import backups
from zoea.postgres import acquire
from zoea.postgres.cluster import Cluster

SECTION = re.compile(r"^## Backup and restore\n(.*?)^## ", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
# All that is in a table, of whatever columns, in one number.
SUM = "SELECT count(*), md5(string_agg(t::text, '' ORDER BY t::text)) FROM {} AS t"
OF_TOMORROW = """
INSERT INTO django_migrations (app, name, applied)
VALUES ('agents', '9999_of_tomorrow', now())
"""
PREPARE = ".venv/bin/python manage.py prepare > ~/said"
TABLES = "SELECT relname FROM pg_stat_user_tables ORDER BY relname"


def documented() -> tuple[str, str]:
    """The commands that back up, and those that restore."""
    section = SECTION.search((ROOT / "docs" / "operations.md").read_text())
    assert section is not None
    backup, restore = BLOCK.findall(section[1])
    return backup, restore


def run(commands: str, data: Path, home: Path, database: str = "") -> None:
    """In the folder of the program, as the documents say."""
    told = {"HOME": str(home), "DATABASE_URL": database}
    environment = clean_environment(data) | told
    subprocess.run(["sh", "-e", "-c", commands], cwd=ROOT, env=environment, check=True)


def sum_up(conninfo: str) -> dict[str, object]:
    """The number of rows and the checksum of each table."""
    with psycopg.connect(conninfo) as database:
        names = [name for (name,) in database.execute(TABLES)]
        return {
            name: database.execute(SUM.format(f'"{name}"').encode()).fetchone()
            for name in names
        }


@pytest.fixture
def flying(transactional_db: None) -> Mysis:
    """A Mysis with a turn due, a history, and an account with a password."""
    ada = actions.create_mysis(name="Ada", by="test")
    make_memory(ada, content="Ünïcode\n\tand \\ all")
    make_account(username="Ada", password="of Ada", assigned_to=ada)
    return actions.start_mysis(mysis=ada, by="test")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    # The server's own user has to come to the data folder in it.
    for folder in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        folder.chmod(folder.stat().st_mode | stat.S_IXOTH)
    return tmp_path


@pytest.fixture
def empty(transactional_db: None) -> Iterator[str]:
    """The address of a new database beside that of the tests."""
    name = "restored"
    here = database_url()
    with psycopg.connect(here, autocommit=True) as every:
        every.execute(f"CREATE DATABASE {name} TEMPLATE template0".encode())
        try:
            yield f"{here.rpartition('/')[0]}/{name}"
        finally:
            every.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


def test_a_backup_comes_up_elsewhere_by_the_documented_commands(
    flying: Mysis, home: Path
) -> None:
    """From a server of one's own to an embedded one, with the key and without it."""
    backup, restore = documented()
    here, new = Path(os.environ["ZOEA_DATA"]), home / "new"
    before = sum_up(database_url())
    run(backup, here, home, database_url())
    for name in ("zoea.dump", "zoea.key"):
        assert stat.S_IMODE((home / name).stat().st_mode) & 0o077 == 0, name
    run(restore, new, home)
    with acquire(new) as server:
        assert sum_up(server.conninfo()) == before
    run(PREPARE, new, home)
    assert "cannot read" not in (home / "said").read_text()
    (new / "secret.key").write_text("another key")
    with pytest.raises(subprocess.CalledProcessError):
        run(PREPARE, new, home)


def test_a_restored_fleet_plays_the_game_of_whoever_starts_it_first(
    flying: Mysis, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The local game of another data folder is another one."""
    fence.enter()
    monkeypatch.setattr(backups, "_run", lambda *_: None)
    tables = iter([[], ["agents_fence"]])
    monkeypatch.setattr(connection.introspection, "table_names", tables.__next__)
    file = home / "zoea.dump"
    file.touch()
    backups.restore_backup(file)
    monkeypatch.setattr(fence, "name_game", lambda: "another game")
    assert fence.enter() == ""


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("backup", "File exists"),
        ("restore", "pg_restore failed: input file does not appear to be a valid"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_in_one_line(
    commands: Commands, tmp_path: Path, command: str, said: str
) -> None:
    kept = tmp_path / "kept"
    kept.write_text("of somebody")
    ended = commands.run(command, str(kept))
    assert (ended.status, ended.stderr.count("\n")) == (1, 1)
    assert said in ended.stderr
    assert kept.read_text() == "of somebody"


def test_a_database_with_tables_is_not_written_over(flying: Mysis, home: Path) -> None:
    file = home / "zoea.dump"
    call_command("backup", str(file), stdout=StringIO())
    assert AuditEntry.objects.get(action="backup").after == {"file": file.name}
    with pytest.raises(CommandError, match="is not empty, and nothing in it"):
        call_command("restore", str(file))
    assert Mysis.objects.get() == flying


@pytest.mark.skipif(postgres.OUTSIDE, reason="its database is made in the embedded one")
def test_a_backup_of_the_landed_release_is_brought_up_to_date(
    empty: str, home: Path
) -> None:
    """Made by PostgreSQL's own program, as without a command of Zoea's."""
    server = Cluster(postgres.DATA)
    with open_landed(server) as database:
        columns = read_columns(database)
        before = read_rows(database, columns)
        words = ["--format=custom", f"--file={home / 'zoea.dump'}"]
        subprocess.run(
            [server.programs / "pg_dump", *words, f"--dbname={server.conninfo(NAME)}"],
            check=True,
        )
    (home / "zoea.key").write_text(KEY)
    _, restore = documented()
    run(restore, home / "new", home, empty)
    run(PREPARE, home / "new", home, empty)
    assert "cannot read" not in (home / "said").read_text()
    with psycopg.connect(empty) as restored:
        assert count_lost(before, read_rows(restored, columns)) == {}


def test_a_backup_of_a_newer_release_is_refused_in_one_line(
    flying: Mysis, empty: str, home: Path
) -> None:
    file = home / "zoea.dump"
    call_command("backup", str(file), stdout=StringIO())
    with Commands(DATABASE_URL=empty) as program:
        assert program.run("restore", str(file)).status == 0
        with psycopg.connect(empty) as database:
            database.execute(OF_TOMORROW.encode())
        refused = program.run("prepare")
    assert (refused.status, refused.stdout) == (2, "")
    assert refused.stderr == (
        "manage.py: The database is of a newer release (agents.9999_of_tomorrow is not "
        "known here): start that release, or choose another data folder (ZOEA_DATA) or "
        "database (DATABASE_URL).\n"
    )
