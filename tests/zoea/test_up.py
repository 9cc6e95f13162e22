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
from contextlib import suppress
from dataclasses import dataclass
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any

import psutil
import pytest
from django.core.management import CommandError

from tests.commands import Commands
from zoea.management.commands.up import Command
from zoea.postgres import data_directory

from .running import LINK, ROOT, SECONDS, Up, eventually, left, rows

Start = Callable[..., Up]


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """Starts on a new folder, unless told another."""
    started: list[Up] = []

    def start(*options: str, data: Path | None = None, **more: Any) -> Up:
        data = data or tmp_path_factory.mktemp("up") / "data"
        started.append(Up(data, *options, **more))
        return started[-1]

    yield start
    for one in started:
        one.clean_up()


@dataclass(frozen=True)
class Flight:
    """A run of which the link has been read: where, the way to sign in once, and who."""

    up: Up
    url: str
    path: str
    fleet: list[tuple[object, ...]]

    @classmethod
    def begin(cls, up: Up) -> Flight:
        """Wait for the link."""
        url, path = up.wait_for(LINK.pattern).groups()
        return cls(up, url, path, rows(up.data, FLEET))


# Three flights of one fleet, for all tests that need no folder of their own: a start
# takes longer than all that is then looked at. So the tests stand in the order of the
# flights; each may be run alone, for the flights before its own are then flown for it.
SHARED_SECONDS = 3 * SECONDS
FLEET = "SELECT id, name FROM agents_mysis ORDER BY id"


@pytest.fixture(scope="module")
def first(up: Start) -> Flight:
    """The first start on a new folder."""
    return Flight.begin(
        up("--port=0", "--myses=3", "--tick=0.5", seconds=SHARED_SECONDS)
    )


@pytest.fixture(scope="module")
def landed(first: Flight) -> Path:
    """Its folder when it has ended, which it does in order."""
    assert first.up.end() == (0, "")
    return first.up.data


@pytest.fixture(scope="module")
def second(landed: Path, up: Start) -> Flight:
    """The second start, with two workers."""
    words = ("--port=0", "--tick=0.5", "--workers=2")
    return Flight.begin(up(*words, data=landed, seconds=SHARED_SECONDS))


def _status(url: str, jar: CookieJar | None = None) -> int:
    opener = urllib.request.build_opener(
        urllib.request.HTTPCookieProcessor(CookieJar() if jar is None else jar)
    )
    try:
        with opener.open(url, timeout=SECONDS) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0  # ended in the middle of the answer, or not listening yet


def _children(up: Up) -> list[psutil.Process]:
    found: list[psutil.Process] = psutil.Process(up.process.pid).children()
    return found


def _workers(up: Up) -> int:
    """How many of its processes take turns."""
    return sum("procrastinate" in child.cmdline() for child in _children(up))


def _addresses(up: Up) -> set[str]:
    """Where its processes can be reached over a network."""
    found = set()
    for process in psutil.Process(up.process.pid).children(recursive=True):
        # PostgreSQL's come and go.
        with suppress(psutil.NoSuchProcess):
            found |= {
                open_.laddr.ip
                for open_ in process.net_connections("inet")
                if open_.status == psutil.CONN_LISTEN
            }
    return found


def _count(data: Path, query: str) -> int:
    (row,) = rows(data, query)
    return int(str(row[0]))


def _finished(data: Path) -> int:
    return _count(data, "SELECT count(*) FROM agents_turn WHERE outcome = 'done'")


def test_the_first_start_makes_a_fleet_that_flies(first: Flight) -> None:
    url, path = first.url, first.path
    assert sum("http" in line for line in first.up.lines) == 1
    assert _status(f"{url}/readyz") == 200
    jar, stranger = CookieJar(), CookieJar()
    assert _status(url + path, jar) == 200
    assert "sessionid" in {cookie.name for cookie in jar}
    _status(url + path, stranger)
    assert "sessionid" not in {cookie.name for cookie in stranger}, "it is for once"
    assert len(first.fleet) == 3
    assert eventually(lambda: _finished(first.up.data) > 0)
    assert set(first.up.family()) == {"sandbox", "worker", "daphne", "postgres"}
    assert _addresses(first.up) == {"127.0.0.1"}


def test_a_second_run_of_the_same_folder_is_refused(first: Flight, up: Start) -> None:
    said = up("--port=0", data=first.up.data).refused()
    assert f"already running at {first.url} (pid {first.up.process.pid})" in said


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


# When nothing is due any more the turns under way have so long to end as they would.
PATIENCE = f"--shutdown-graceful-timeout={SECONDS}"
WORKER = ("manage.py", "procrastinate", "worker", "--one-shot", PATIENCE)
# The lock of a Mysis is its last job's for a moment longer than its last turn lasted.
WAITING = """
SELECT count(*) FROM procrastinate_jobs AS waiting
WHERE status = 'todo' AND task_name LIKE '%take_turn' AND NOT EXISTS (
  SELECT FROM procrastinate_jobs AS held
  WHERE held.lock = waiting.lock AND held.status = 'doing')
"""
DUE = "AND coalesce(scheduled_at, now()) <= now()"


def _hold(worker: psutil.Process, data: Path) -> bool:
    """Hold a worker at a moment at which not every turn is in its hands."""
    worker.suspend()
    if _count(data, WAITING):
        return True
    worker.resume()
    return False


def test_a_worker_started_by_hand_plays_the_game_of_up(first: Flight) -> None:
    data = first.up.data
    port = (data / "sandbox.port").read_text().strip()
    found = _run_by_hand(data, "-c", SETTINGS)
    assert found.stdout.split() == [f"http://127.0.0.1:{port}/mcp", "0.5"]
    worker = first.up.family()["worker"]
    assert eventually(lambda: _hold(worker, data))
    try:
        assert eventually(lambda: _count(data, WAITING + DUE) > 0)
        before = _finished(data)
        assert _run_by_hand(data, *WORKER).returncode == 0
        assert _finished(data) > before
    finally:
        worker.resume()


def test_it_ends_all_that_it_has_started(landed: Path) -> None:
    assert left(landed) == []
    # Where no game runs a worker says so, instead of playing against nobody.
    refused = _run_by_hand(landed, *WORKER)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert "No local game runs at http://127.0.0.1:" in refused.stderr
    assert "set SPACEMOLT_MCP_URL" in refused.stderr
    assert left(landed) == []


def test_the_second_start_goes_on_with_the_fleet(first: Flight, second: Flight) -> None:
    data = second.up.data
    assert second.fleet == first.fleet, "not made anew"
    before = _finished(data)
    assert before > 0
    assert eventually(lambda: _finished(data) > before)
    assert eventually(lambda: _workers(second.up) == 2)


LOCKED_WORKERS = """
SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ExclusiveLock' AND granted
"""


def test_a_killed_process_is_started_again(second: Flight) -> None:
    running = second.up
    assert eventually(lambda: len(running.family()) == 4)
    # A worker that still starts would bring the database back itself.
    assert eventually(lambda: len(rows(running.data, LOCKED_WORKERS)) >= 2)
    before = {child.pid for child in _children(running)}
    killed = running.family()
    # The database first: one that starts again would bring it back before it is missed.
    for name in ("postgres", "worker", "daphne", "sandbox"):
        killed[name].kill()
        running.wait_for("starting it again")
    rest = before - {process.pid for process in killed.values()}

    def all_are_back() -> bool:
        now = {child.pid for child in _children(running)}
        return len(running.family()) == 4 and now & before == rest and len(now) == 5

    assert eventually(all_are_back)
    assert eventually(lambda: _status(f"{second.url}/readyz") == 200)


def test_killed_itself_it_takes_its_children_along(second: Flight, up: Start) -> None:
    data = second.up.data
    second.up.process.kill()
    second.up.process.communicate()

    def only_the_database_is_left() -> bool:
        return all("postgres" in one.name() for one in left(data))

    assert eventually(only_the_database_is_left)
    third = Flight.begin(up("--port=0", data=data))
    assert third.fleet == second.fleet
    # Two signals are as good as one.
    third.up.process.send_signal(signal.SIGINT)
    third.up.wait_for("Stopping")
    assert third.up.end(signal.SIGINT) == (0, "")
    assert left(data) == []


def test_a_signal_while_it_starts_ends_it_cleanly(up: Start) -> None:
    running = up("--port=0", "--no-demo")
    running.wait_for("Starting the database")
    assert running.end() == (0, "")
    assert left(running.data) == []


def test_a_taken_port_is_refused_before_anything_starts(
    up: Start,
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
    up: Start, url: str, said: str
) -> None:
    line = up("--port=0", DATABASE_URL=url).refused()
    assert said in line
    assert "secret" not in line


def test_a_data_folder_that_cannot_be_used_is_refused(
    up: Start, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    refused = up("--port=0", data=tmp_path / "file" / "data")
    assert "set ZOEA_DATA to another folder" in refused.refused()


@pytest.mark.parametrize("readable", [True, False])
def test_a_key_that_cannot_be_kept_is_refused_before_anything_starts(
    up: Start, tmp_path: Path, readable: bool
) -> None:
    key = tmp_path / "data" / "secret.key"
    key.parent.mkdir()
    key.touch() if readable else key.symlink_to(key.parent)
    refused = up("--port=0", data=tmp_path / "data", ZOEA_SECRET_KEY="")
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
