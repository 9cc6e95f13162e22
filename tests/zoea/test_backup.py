"""Backup and restore by the very commands of the documents."""

from __future__ import annotations

import os
import re
import stat
import subprocess
from io import StringIO
from pathlib import Path

import psycopg
import pytest
from django.core.management import CommandError, call_command

from agents import actions
from agents.models import Mysis
from bench.processes import ROOT, clean_environment, database_url
from memory.models import AuditEntry
from tests.commands import Commands
from tests.factories import make_account, make_memory
from zoea.postgres import acquire

SECTION = re.compile(r"^## Backup and restore\n(.*?)^## ", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
# All that is in a table, of whatever columns, in one number.
SUM = "SELECT count(*), md5(string_agg(t::text, '' ORDER BY t::text)) FROM {} AS t"
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


@pytest.mark.real_time
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
    prepare = ".venv/bin/python manage.py prepare > ~/said"
    run(prepare, new, home)
    assert "cannot read" not in (home / "said").read_text()
    (new / "secret.key").write_text("another key")
    run(prepare, new, home)
    assert "the present key cannot read: 1 (" in (home / "said").read_text()


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
