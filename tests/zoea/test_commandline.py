"""Arguments that a command cannot use: one line, status 2, no traceback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from django.core.management import get_commands, load_command_class
from django.db import connection
from django.db.migrations.loader import MigrationLoader

from bench.processes import database_url
from tests.commands import ROOT, Commands, Ended
from tests.postgres import OUTSIDE
from zoea import commandline


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["create_token"], "name"),
        (["create_token", "x", "--role", "king"], "--role"),
        (["create_token", "x", "--role", "viewer", "--days", "0"], "--days"),
        (["create_token", "x", "--role", "viewer", "--colour", "red"], "--colour"),
        (["search", "Ada"], "query"),
        (["search", "Ada", "iron", "--limit", "0"], "--limit"),
        (["search", "Ada", "iron", "--in", "dreams"], "--in"),
        (["export", "Ada", "--format", "xml"], "--format"),
        (["import_history", "some.db"], "--mysis"),
        (["prune"], "--keep-days"),
        (["prune", "--keep-days", "-1"], "--keep-days"),
    ],
)
def test_bad_arguments_are_one_line(
    django_db_setup: None, commands: Commands, arguments: list[str], named: str
) -> None:
    found = commands.run(*arguments)
    assert found.status == 2
    assert found.stdout == ""
    assert len(found.stderr.strip().splitlines()) == 1
    assert named in found.stderr


def test_a_process_of_its_own_ends_so_too(
    django_db_setup: None, commands: Commands
) -> None:
    found = subprocess.run(
        [sys.executable, "manage.py", "prune"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert Ended(found.returncode, found.stdout, found.stderr) == commands.run("prune")


@pytest.fixture
def unprivileged(transactional_db: None) -> Iterator[str]:
    """The address of an empty database, as a role that may create nothing in it."""
    name = "zoea_without_rights"
    quoted = connection.ops.quote_name(name)
    known = connection.settings_dict
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE ROLE {quoted} LOGIN PASSWORD 's3cret'")
        cursor.execute(f"CREATE DATABASE {quoted}")
    try:
        yield (
            database_url()
            .replace(f"//{known['USER']}@", f"//{name}:s3cret@")
            .replace(f"/{known['NAME']}", f"/{name}")
        )
    finally:
        with connection.cursor() as cursor:
            cursor.execute(f"DROP DATABASE {quoted} WITH (FORCE)")
            cursor.execute(f"DROP ROLE {quoted}")


@pytest.mark.skipif(OUTSIDE, reason="for the server of the tests only")
def test_a_role_that_may_create_nothing_is_refused_in_one_line(
    unprivileged: str, tmp_path: Path
) -> None:
    found = subprocess.run(
        [sys.executable, "manage.py", "up", "--port=0"],
        cwd=ROOT,
        env=os.environ | {"DATABASE_URL": unprivileged, "ZOEA_DATA": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (found.returncode, found.stderr.count("\n")) == (2, 1), found.stderr
    assert "permission denied for schema public" in found.stderr
    assert 'GRANT ALL ON SCHEMA public TO "zoea_without_rights"' in found.stderr
    assert "s3cret" not in found.stderr


def test_it_is_known_without_the_apps_whether_all_is_migrated(
    transactional_db: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = list(commandline._migration_folders())
    there = Counter(path.stem for _, f in folders for path in f.glob("[!_]*.py"))
    loader = MigrationLoader(connection, ignore_no_migrations=True)
    assert there == Counter(name for _, name in loader.disk_migrations)
    assert commandline.can_serve_before_migration(None)
    (tmp_path / "0001_initial.py").touch()
    # Of another app the name is known, of this one it is not.
    unknown = (["some", "new"], tmp_path)
    monkeypatch.setattr(
        commandline, "_migration_folders", lambda: iter([*folders, unknown])
    )
    assert not commandline.can_serve_before_migration(None)


def test_the_admin_is_checked_though_no_route_has_loaded_it(tmp_path: Path) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "__init__.py").touch()
    (tmp_path / "broken" / "admin.py").write_text(
        "from django.contrib import admin\n"
        "from django.contrib.contenttypes.models import ContentType\n"
        "@admin.register(ContentType)\n"
        "class Broken(admin.ModelAdmin):\n"
        "    list_display = ['nothing_of_the_kind']\n"
    )
    (tmp_path / "with_broken.py").write_text(
        "from zoea.settings import *\nINSTALLED_APPS += ['broken']\n"
    )
    found = subprocess.run(
        [sys.executable, "manage.py", "check", "--tag=admin"],
        cwd=ROOT,
        env={
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "with_broken",
            "PYTHONPATH": str(tmp_path),
            "ZOEA_DATA": str(tmp_path / "data"),
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert found.returncode == 1, found.stderr
    assert "admin.E108" in found.stderr


def test_no_command_loads_the_pages_to_check_them() -> None:
    ours = {
        name: app
        for name, app in get_commands().items()
        if app in ("zoea", "memory", "agents")
    }
    commands = [load_command_class(app, name) for name, app in ours.items()]
    assert len(commands) > 10
    loads = {
        type(command).__module__
        for command in commands
        if command.requires_system_checks not in ([], ["zoea"])
    }
    assert loads == set()


@pytest.mark.parametrize("words", [["worker"], ["--skip-checks", "worker"]])
def test_a_worker_that_starts_waits_for_its_database(
    words: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    tries: list[int] = []
    worked: list[list[str]] = []

    @contextmanager
    def open_database() -> Iterator[None]:
        tries.append(len(tries))
        if len(tries) < 4:
            raise commandline.DatabaseAwayError("Nobody answers.")
        yield

    monkeypatch.setattr(commandline, "open_database", open_database)
    monkeypatch.setattr(commandline, "LOOK_SECONDS", 0)
    loaded: list[int] = []
    monkeypatch.setattr(
        commandline, "import_module", lambda _: loaded.append(len(tries))
    )
    before = signal.getsignal(signal.SIGTERM)
    try:
        argv = ["manage.py", "procrastinate", *words]
        assert commandline.run_command(argv, worked.append) == 0
        assert worked == [argv]
        assert loaded == [1, 2, 3]
        said = capsys.readouterr().err
        assert said == "manage.py: Nobody answers. It is waited for.\n"
        tries.clear()
        assert commandline.run_command(["manage.py", "prune"], worked.append) == 2
    finally:
        signal.signal(signal.SIGTERM, before)
    assert worked == [argv]


def test_an_address_where_nobody_answers_may_only_be_on_its_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse() -> None:
        raise psycopg.OperationalError("Connection refused")

    monkeypatch.setattr(commandline, "connect_directly", refuse)
    with pytest.raises(commandline.DatabaseAwayError, match="start that server"):
        commandline._check_outside_server()
