"""Which commands get a database, and how bad settings are refused."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from zoea.commandline import needs_database
from zoea.postgres import data_directory

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("words", "needed"),
    [
        ("", False),
        ("help", False),
        ("sandbox --port 0", False),
        ("assemble -", False),
        ("check --deploy", False),
        ("check --database default", True),
        ("search --help", False),
        ("search Ada ore", True),
        ("procrastinate worker", True),
        ("a-command-of-tomorrow", True),
    ],
)
def test_a_command_gets_a_database_unless_it_needs_none(
    words: str, needed: bool
) -> None:
    assert needs_database(["manage.py", *words.split()]) is needed


def _run(data: Path, *words: str, **environment: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "manage.py", *words],
        cwd=ROOT,
        env={**os.environ, "DATABASE_URL": "", "ZOEA_DATA": str(data), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def test_a_command_starts_its_database_and_lets_go_of_it(tmp_path: Path) -> None:
    status, output, errors = _run(tmp_path, "showmigrations", "agents")
    assert (status, errors) == (0, "")
    assert "0001_initial" in output
    assert data_directory(tmp_path).exists()
    assert not (data_directory(tmp_path) / "postmaster.pid").exists()


def test_a_command_without_database_starts_none(tmp_path: Path) -> None:
    status, _, errors = _run(tmp_path, "check")
    assert (status, errors) == (0, "")
    assert not data_directory(tmp_path).exists()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DATABASE_URL", "postgresql://zoea:secret@127.0.0.1:1/zoea"),
        ("DATABASE_URL", "sqlite:///file"),
        ("ZOEA_DB_POOL", "many"),
        ("METRICS_PUBLIC", "perhaps"),
    ],
)
def test_a_bad_setting_is_one_line(tmp_path: Path, name: str, value: str) -> None:
    status, _, errors = _run(tmp_path, "showmigrations", **{name: value})
    assert status == 2
    assert errors.count("\n") == 1
    assert name in errors
    assert "secret" not in errors
