"""The embedded server, for real: started, shared, stopped, and refused."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from io import FileIO
from pathlib import Path

import psutil
import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.required import require
from zoea.postgres import (
    PostgresError,
    acquire,
    data_directory,
    socket_directory,
)
from zoea.postgres.cluster import STILL_HELD

from .running import eventually

ROOT = Path(__file__).resolve().parents[2]
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")

USER = """
import sys
from pathlib import Path
from zoea.postgres import acquire
server = acquire(Path(sys.argv[1]))
print(server.pid, flush=True)
sys.stdin.read()
server.release()
"""


def _use(data: Path) -> subprocess.Popen[str]:
    """Start a process that uses the server until its standard input ends."""
    return subprocess.Popen(
        [sys.executable, "-c", USER, str(data)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )


def _pid(user: subprocess.Popen[str]) -> int:
    assert user.stdout is not None
    return int(user.stdout.readline())


def _end(user: subprocess.Popen[str]) -> int:
    user.communicate()
    return user.returncode


def _servers(data: Path) -> list[int]:
    return [
        process.pid
        for process in psutil.process_iter(["cmdline"])
        if str(data_directory(data)) in (process.info["cmdline"] or ())
    ]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with a cluster that has been used once and stopped."""
    data = tmp_path_factory.mktemp("made") / "data"
    with acquire(data) as server, psycopg.connect(server.conninfo()) as connection:
        connection.execute("CREATE TABLE kept (text text)")
        connection.execute("INSERT INTO kept VALUES ('still here')")
    return data


@pytest.fixture
def used(made: Path, tmp_path: Path) -> Path:
    """A copy of that folder, for a test to harm."""
    data = tmp_path / "data"
    subprocess.run(["cp", "-a", made, data], check=True)
    return data


def test_it_makes_a_database_and_stops_with_the_last_user(tmp_path: Path) -> None:
    first = acquire(tmp_path / "data")
    second = acquire(tmp_path / "data")
    assert first.pid == second.pid is not None
    with psycopg.connect(first.conninfo()) as connection:
        row = connection.execute(
            "SELECT pg_encoding_to_char(encoding), datlocale, datname, current_user "
            "FROM pg_database WHERE datname = current_database()"
        ).fetchone()
    assert row == ("UTF8", "C.UTF-8", "zoea", "postgres")
    first.release()
    assert second.pid is not None
    second.release()
    second.release()
    assert second.pid is None
    assert _servers(tmp_path / "data") == []


def test_words_end_at_a_dash_and_fold_their_case(made: Path) -> None:
    with acquire(made) as server, psycopg.connect(server.conninfo()) as connection:
        row = connection.execute(
            "SELECT to_tsvector('simple', 'ÄPFEL—Straße') = "
            "to_tsvector('simple', 'äpfel straße')"
        ).fetchone()
    assert row == (True,)


def test_newcomers_at_once_share_one_server(tmp_path: Path) -> None:
    users = [_use(tmp_path / "data") for _ in range(3)]
    pids = {_pid(user) for user in users}
    assert len(pids) == 1
    assert _servers(tmp_path / "data") == list(pids)
    assert [_end(user) for user in users] == [0, 0, 0]
    assert _servers(tmp_path / "data") == []


def test_the_next_one_joins_a_server_left_by_a_killed_user(used: Path) -> None:
    killed = _use(used)
    left = _pid(killed)
    killed.kill()
    killed.communicate()
    with acquire(used) as server:
        assert server.pid == left
    assert _servers(used) == []


def test_a_server_that_ends_while_one_joins_it_is_started_again(used: Path) -> None:
    first = _use(used)
    ending = psutil.Process(_pid(first))
    ending.suspend()
    second = _use(used)
    joining = psutil.Process(second.pid)
    assert eventually(lambda: joining.net_connections("unix"))
    ending.kill()
    assert _pid(second) != ending.pid
    first.kill()
    first.communicate()
    assert _end(second) == 0


def test_a_child_process_does_not_keep_the_server(used: Path) -> None:
    server = acquire(used)
    child = subprocess.Popen(["sleep", "600"], close_fds=False)
    try:
        server.release()
        assert server.pid is None
    finally:
        child.kill()
        child.wait()


@pytest.mark.parametrize(
    "pid",
    [
        pytest.param(str(os.getpid()), id="another program"),
        pytest.param("999999999", id="nobody"),
        pytest.param("", id="an empty file"),
    ],
)
def test_a_stale_pid_file_is_no_hindrance(used: Path, pid: str) -> None:
    lines = [pid, str(data_directory(used)), "1", "5432", str(used), "", "1 1", "ready"]
    stale = data_directory(used) / "postmaster.pid"
    stale.write_text("\n".join(lines) + "\n" if pid else "")
    shutil.chown(stale, data_directory(used).stat().st_uid)
    with acquire(used) as server, psycopg.connect(server.conninfo()) as connection:
        assert connection.execute("SELECT text FROM kept").fetchone() == ("still here",)


def test_a_killed_server_that_nobody_has_missed_yet_is_no_hindrance(used: Path) -> None:
    """Its pid stays until its parent asks, and stands in the lock of the socket."""
    owner = data_directory(used).stat().st_uid
    zombie = subprocess.Popen(["true"], user=owner)
    assert eventually(
        lambda: psutil.Process(zombie.pid).status() == psutil.STATUS_ZOMBIE
    )
    locks = [data_directory(used), socket_directory(used)]
    for folder in locks:
        stale = folder / ".s.PGSQL.5432.lock"
        if folder.exists():
            stale.write_text(f"{zombie.pid}\n{data_directory(used)}\n1\n5432\n")
            shutil.chown(stale, folder.stat().st_uid)
    with acquire(used) as server, psycopg.connect(server.conninfo()) as connection:
        assert connection.execute("SELECT text FROM kept").fetchone() == ("still here",)
    zombie.wait()


BUSY = b"DO 'BEGIN FOR n IN 1..2000000000 LOOP NULL; END LOOP; END'"
WORKING = "SELECT 1 FROM pg_stat_activity WHERE pid = %s AND state = 'active'"


def test_a_new_server_shares_no_data_with_what_a_killed_one_left(used: Path) -> None:
    """A busy process of the former one finds out late, and could still commit."""
    user = _use(used)
    server = psutil.Process(_pid(user))
    with acquire(used) as ours:
        connection = psycopg.connect(ours.conninfo())
        left = psutil.Process(connection.info.backend_pid)
        connection.pgconn.send_query(BUSY)
        with psycopg.connect(ours.conninfo(), autocommit=True) as other:
            assert eventually(
                lambda: bool(other.execute(WORKING, [left.pid]).fetchone())
            )
        server.kill()
        assert eventually(lambda: server.status() == psutil.STATUS_ZOMBIE)
        assert left.status() != psutil.STATUS_ZOMBIE
        ours.ensure_running()
        assert not left.is_running() or left.status() == psutil.STATUS_ZOMBIE
        with psycopg.connect(ours.conninfo()) as other:
            assert other.execute("SELECT text FROM kept").fetchone() == ("still here",)
        connection.close()
    assert _end(user) == 0


def test_a_dead_server_is_started_again_with_its_data(used: Path) -> None:
    with acquire(used) as server:
        with psycopg.connect(server.conninfo()) as connection:
            connection.execute("UPDATE kept SET text = 'committed'")
        before = server.pid
        assert before is not None
        process = psutil.Process(before)
        process.send_signal(signal.SIGKILL)
        psutil.wait_procs([process])
        server.ensure_running()
        assert server.pid not in (None, before)
        with psycopg.connect(server.conninfo()) as connection:
            assert connection.execute("SELECT text FROM kept").fetchone() == (
                "committed",
            )


HOLDER = """
import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p
held = libc.shmat(int(sys.argv[1]), None, 0)
print(held not in (None, ctypes.c_void_p(-1).value), flush=True)
sys.stdin.read()
"""


def test_a_start_waits_for_memory_that_a_killed_server_left_in_use(
    used: Path,
) -> None:
    """Also where its holder cannot be told from any other program."""
    with acquire(used) as server:
        process = psutil.Process(server.pid)
        lines = (data_directory(used) / "postmaster.pid").read_text().splitlines()
        _key, block = lines[6].split()
        process.kill()
        psutil.wait_procs([process])
        with subprocess.Popen(
            [sys.executable, "-c", HOLDER, block],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as holder:
            assert holder.stdin is not None and holder.stdout is not None
            assert holder.stdout.readline() == "True\n"
            with ThreadPoolExecutor() as threads:
                starting = threads.submit(server.ensure_running)
                log = used / "postgres.log"
                refused = eventually(lambda: STILL_HELD in log.read_text())
                holder.stdin.close()
                assert refused
                starting.result()
        with psycopg.connect(server.conninfo()) as connection:
            row = connection.execute("SELECT text FROM kept").fetchone()
        assert row == ("still here",)


def test_a_path_too_long_for_a_socket_gets_one_elsewhere(tmp_path: Path) -> None:
    data = tmp_path / ("long" * 25)
    folder = socket_directory(data)
    assert not folder.exists()
    with acquire(data) as server:
        assert server.sockets == folder
        assert folder.stat().st_mode & 0o077 == 0
        psycopg.connect(server.conninfo()).close()
    assert not folder.exists()


@given(st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=150))
def test_a_socket_always_fits(name: str) -> None:
    data = Path("/data") / name.lstrip("/").replace("~", "-")
    folder = socket_directory(data)
    assert folder == socket_directory(data)
    assert len(os.fsencode(folder / ".s.PGSQL.5432")) <= 107
    assert not set(str(folder)) & set(',"\\\n')


def _refusal(data: Path) -> str:
    with pytest.raises(PostgresError) as caught:
        acquire(data)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_data_of_another_major_version_is_refused(used: Path) -> None:
    (data_directory(used) / "PG_VERSION").write_text("16\n")
    said = _refusal(used)
    assert "made by PostgreSQL 16" in said
    assert "move the folder away" in said


def test_a_folder_with_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "postgres").mkdir()
    (tmp_path / "postgres" / "letter.txt").write_text("mine")
    assert "holds something other than a database" in _refusal(tmp_path)
    assert (tmp_path / "postgres" / "letter.txt").read_text() == "mine"


def test_a_data_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "set ZOEA_DATA to another folder" in _refusal(tmp_path / "file" / "data")


def test_a_server_that_cannot_start_is_quoted(used: Path) -> None:
    conf = data_directory(used) / "postgresql.auto.conf"
    with conf.open("a") as file:
        file.write("shared_buffers = 'plenty'\n")
    said = _refusal(used)
    assert "shared_buffers" in said or "configuration file" in said
    assert "postgres.log" in said
    assert _servers(used) == []


@contextmanager
def _small_disk(folder: Path, size: str) -> Iterator[None]:
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", folder],
        check=False,
        capture_output=True,
    )
    require(not mounted.returncode, "cannot mount a small disk: run it privileged")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def _writes(file: FileIO) -> bool:
    try:
        return bool(file.write(b"\0" * 4096))
    except OSError:
        return False


@AS_ROOT
@pytest.mark.parametrize("size", ["64k", "12m"])
def test_a_full_disk_is_named(tmp_path: Path, size: str) -> None:
    with _small_disk(tmp_path / "small", size):
        said = _refusal(tmp_path / "small" / "data")
        assert "No disk space left" in said
        assert not (tmp_path / "small" / "data" / "postgres").exists()


@AS_ROOT
def test_a_disk_that_filled_up_since_is_named(used: Path, tmp_path: Path) -> None:
    with _small_disk(tmp_path / "small", "120m"):
        data = tmp_path / "small" / "data"
        subprocess.run(["cp", "-a", used, data], check=True)
        with (data / "ballast").open("wb", buffering=0) as file:
            while _writes(file):
                pass
        assert "No disk space left" in _refusal(data)
        (data / "ballast").unlink()
        with acquire(data) as server:
            assert server.pid is not None
