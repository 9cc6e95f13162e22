"""``manage.py up`` as an operator runs it: from outside, to the last process."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from http.cookiejar import CookieJar
from pathlib import Path

import psutil
import pytest
from django.core.management import CommandError

from tests.commands import Commands
from zoea.management.commands.up import Command
from zoea.postgres import data_directory

from .running import LINK, ROOT, Up, eventually, left, rows


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Callable[..., Up]]:
    started: list[Up] = []

    def start(*options: str, data: Path | None = None, **environment: str) -> Up:
        started.append(Up(data or tmp_path / "data", *options, **environment))
        return started[-1]

    yield start
    for one in started:
        one.clean_up()


@pytest.fixture(scope="module")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with a database that has all tables and no fleet."""
    data = tmp_path_factory.mktemp("migrated") / "data"
    subprocess.run(
        [sys.executable, "manage.py", "migrate", "--verbosity=0"],
        cwd=ROOT,
        env={**os.environ, "DATABASE_URL": "", "ZOEA_DATA": str(data)},
        check=True,
    )
    return data


@pytest.fixture
def ready(migrated: Path, tmp_path: Path) -> Path:
    """A copy of that folder, for a test to fly on."""
    data = tmp_path / "ready"
    subprocess.run(["cp", "-a", migrated, data], check=True)
    return data


def _status(url: str, jar: CookieJar | None = None) -> int:
    opener = urllib.request.build_opener(
        urllib.request.HTTPCookieProcessor(CookieJar() if jar is None else jar)
    )
    try:
        with opener.open(url, timeout=20) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0  # ended in the middle of the answer, or not listening yet


def _workers(up: Up) -> int:
    """How many of its processes take turns."""
    children = psutil.Process(up.process.pid).children()
    return sum("procrastinate" in child.cmdline() for child in children)


def _addresses(up: Up) -> set[str]:
    """Where its processes can be reached over a network."""
    processes = psutil.Process(up.process.pid).children(recursive=True)
    return {
        open_.laddr.ip
        for process in processes
        for open_ in process.net_connections("inet")
        if open_.status == psutil.CONN_LISTEN
    }


def _fleet(data: Path) -> list[tuple[object, ...]]:
    return rows(data, "SELECT id, name FROM agents_mysis ORDER BY id")


def _finished(data: Path) -> int:
    query = "SELECT count(*) FROM agents_turn WHERE outcome = 'done'"
    (row,) = rows(data, query)
    return int(str(row[0]))


def test_a_fleet_from_first_start_to_second(up: Callable[..., Up]) -> None:
    running = up("--port=0", "--myses=3", "--tick=0.5")
    url, path = running.wait_for(LINK.pattern).groups()
    assert sum("http" in line for line in running.lines) == 1
    assert _status(f"{url}/readyz") == 200
    jar, stranger = CookieJar(), CookieJar()
    assert _status(url + path, jar) == 200
    assert "sessionid" in {cookie.name for cookie in jar}
    _status(url + path, stranger)
    assert "sessionid" not in {cookie.name for cookie in stranger}, "it is for once"
    fleet = _fleet(running.data)
    assert len(fleet) == 3
    assert eventually(lambda: _finished(running.data) > 0)

    again = up("--port=0").refused()
    assert f"already running at {url} (pid {running.process.pid})" in again

    assert set(running.family()) == {"sandbox", "worker", "daphne", "postgres"}
    assert _addresses(running) == {"127.0.0.1"}
    assert running.end() == (0, "")
    assert left(running.data) == []

    second = up("--port=0", "--tick=0.5", "--workers=2")
    second.wait_for(LINK.pattern)
    assert _fleet(second.data) == fleet
    before = _finished(second.data)
    assert before > 0
    assert eventually(lambda: _finished(second.data) > before)
    assert eventually(lambda: _workers(second) == 2)
    assert second.end(signal.SIGINT) == (0, "")
    assert left(second.data) == []


SETTINGS = """
from django.conf import settings
print(settings.SPACEMOLT_MCP_URL, settings.ZOEA_SECONDS_PER_TICK)
"""


def _run_by_hand(data: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a program on this data folder to which nobody named a game."""
    told = {"ZOEA_DATA": str(data), "SPACEMOLT_MCP_URL": "", "DATABASE_URL": ""}
    told |= {"DJANGO_SETTINGS_MODULE": "zoea.settings"}
    return subprocess.run(
        [sys.executable, *words],
        cwd=ROOT,
        env=os.environ | told,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_worker_started_by_hand_plays_the_game_of_up(
    up: Callable[..., Up], ready: Path
) -> None:
    worker = ("manage.py", "procrastinate", "worker", "--one-shot")
    running = up("--port=0", "--no-demo", "--tick=0.5", data=ready)
    running.wait_for(LINK.pattern)
    port = (ready / "sandbox.port").read_text().strip()
    found = _run_by_hand(ready, "-c", SETTINGS)
    assert found.stdout.split() == [f"http://127.0.0.1:{port}/mcp", "0.5"]
    assert _run_by_hand(ready, *worker).returncode == 0
    assert running.end() == (0, "")
    # Where none runs it says so, instead of playing against nobody.
    refused = _run_by_hand(ready, *worker)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert "No local game runs at http://127.0.0.1:" in refused.stderr
    assert "set SPACEMOLT_MCP_URL" in refused.stderr
    assert left(ready) == []


LOCKED_WORKERS = "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted"


def test_a_killed_process_is_started_again(up: Callable[..., Up], ready: Path) -> None:
    running = up("--port=0", "--no-demo", data=ready)
    url, _ = running.wait_for(LINK.pattern).groups()
    assert eventually(lambda: len(running.family()) == 4)
    # A worker that still starts would bring the database back itself.
    assert eventually(lambda: rows(running.data, LOCKED_WORKERS) != [])
    killed = running.family()
    # The database first: one that starts again would bring it back before it is missed.
    for name in ("postgres", "worker", "daphne", "sandbox"):
        killed[name].kill()
        running.wait_for("starting it again")

    def all_are_back() -> bool:
        family = running.family()
        return len(family) == 4 and all(
            family[name].pid != killed[name].pid for name in killed
        )

    assert eventually(all_are_back)
    assert eventually(lambda: _status(f"{url}/readyz") == 200)
    # Two signals are as good as one.
    running.process.send_signal(signal.SIGINT)
    running.wait_for("Stopping")
    assert running.end(signal.SIGINT) == (0, "")
    assert left(running.data) == []


def test_killed_itself_it_takes_its_children_along(
    up: Callable[..., Up], ready: Path
) -> None:
    running = up("--port=0", "--no-demo", data=ready)
    running.wait_for(LINK.pattern)
    assert eventually(lambda: len(running.family()) == 4)
    assert _fleet(running.data) == []
    running.process.kill()
    running.process.communicate()

    def only_the_database_is_left() -> bool:
        return all("postgres" in one.name() for one in left(running.data))

    assert eventually(only_the_database_is_left)
    second = up("--port=0", "--no-demo", data=ready)
    second.wait_for(LINK.pattern)
    assert second.end() == (0, "")
    assert left(running.data) == []


def test_a_signal_while_it_starts_ends_it_cleanly(up: Callable[..., Up]) -> None:
    running = up("--port=0", "--no-demo")
    running.wait_for("Starting the database")
    assert running.end() == (0, "")
    assert left(running.data) == []


def test_a_taken_port_is_refused_before_anything_starts(
    up: Callable[..., Up],
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = up(f"--port={port}")
        assert f"Port {port} is taken" in refused.refused()
        assert not data_directory(refused.data).exists()


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("postgresql://zoea:secret@127.0.0.1:1/zoea", "Connection refused"),
        ("mysql://zoea:secret@127.0.0.1/zoea", "must begin with postgresql://"),
        ("nonsense", "DATABASE_URL"),
    ],
)
def test_a_database_that_cannot_be_used_is_refused(
    up: Callable[..., Up], url: str, said: str
) -> None:
    line = up("--port=0", DATABASE_URL=url).refused()
    assert said in line
    assert "secret" not in line


def test_a_data_folder_that_cannot_be_used_is_refused(
    up: Callable[..., Up], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    refused = up("--port=0", data=tmp_path / "file" / "data")
    assert "set ZOEA_DATA to another folder" in refused.refused()


@pytest.mark.parametrize("readable", [True, False])
def test_a_key_that_cannot_be_kept_is_refused_before_anything_starts(
    up: Callable[..., Up], tmp_path: Path, readable: bool
) -> None:
    key = tmp_path / "data" / "secret.key"
    key.parent.mkdir()
    key.touch() if readable else key.symlink_to(key.parent)
    refused = up("--port=0", ZOEA_SECRET_KEY="")
    assert "The secret key could not be stored" in refused.refused()
    assert not data_directory(refused.data).exists()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("port", "99999"),
        ("port", "x"),
        ("myses", "-1"),
        ("tick", "0"),
        ("workers", "0"),
        ("tick", "soon"),
    ],
)
def test_a_bad_option_is_named(name: str, value: str) -> None:
    parser = Command().create_parser("manage.py", "up")
    with pytest.raises(CommandError, match=f"argument --{name}: '{value}' is not a"):
        parser.parse_args([f"--{name}={value}"])


def test_a_bad_option_ends_with_status_2(commands: Commands) -> None:
    ended = commands.run("up", "--port=x")
    assert ended.status == 2
    assert "Traceback" not in ended.stderr
