"""Child processes: kept running, given up, ended with their parent."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from zoea.commandline import DatabaseError
from zoea.postgres import acquire
from zoea.supervise import children, programs
from zoea.supervise.children import (
    BackOff,
    GaveUpError,
    keep_running,
    run_until,
    watch_database,
)
from zoea.supervise.programs import (
    Program,
    ProgramError,
    choose_port,
    listen,
    wait_for_answer,
)
from zoea.supervise.run import AlreadyRunningError, claim_folder

from .running import eventually

ROOT = Path(__file__).resolve().parents[2]
QUICK = BackOff(first=0.01, longest=0.02, attempts=3)
# Says who it is through a socket, so that no test needs to wait by the clock.
BEACON = """
import os, socket, sys, time
socket.create_connection(("127.0.0.1", int(sys.argv[1]))).sendall(
    f"{os.getpid()}\\n".encode())
%s
time.sleep(600)
"""


class Beacons:
    """Receives the process numbers of programs as they come up."""

    def __init__(self, server: asyncio.Server, pids: asyncio.Queue[int]) -> None:
        self.port = server.sockets[0].getsockname()[1]
        self.pids = pids

    def program(self, folder: Path, then: str = "") -> Program:
        argv = (sys.executable, "-c", BEACON % then, str(self.port))
        return Program("beacon", argv, folder / "beacon.log")


@asynccontextmanager
async def _beacons() -> AsyncIterator[Beacons]:
    pids: asyncio.Queue[int] = asyncio.Queue()

    async def receive(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        pids.put_nowait(int(await reader.readline()))

    server = await asyncio.start_server(receive, "127.0.0.1", 0)
    async with server:
        yield Beacons(server, pids)


def _is_gone(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


async def _ends(process: psutil.Process) -> bool:
    """Wait until a process that was signalled is gone, or has been for long."""
    until = time.monotonic() + 60
    # Somebody else's process has no event to await.
    while not (gone := _is_gone(process.pid)) and time.monotonic() < until:  # noqa: ASYNC110
        await asyncio.sleep(0.02)
    return gone


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def _read_share(pid: int) -> int | None:
    """How nice a session is to others, where the kernel keeps that."""
    with suppress(FileNotFoundError):
        return int(Path(f"/proc/{pid}/autogroup").read_text().split()[-1])
    return None


async def test_workers_leave_the_processor_to_pages(tmp_path: Path) -> None:
    layout = programs.Layout(ROOT, tmp_path, tick=10, game_url="")
    assert programs.worker_program(layout).niceness == programs.WORKER_NICENESS
    async with _beacons() as beacons:
        ours = psutil.Process().nice()
        program = replace(beacons.program(tmp_path), niceness=5)
        task = asyncio.create_task(keep_running(program, print, 5, QUICK))
        pid = await beacons.pids.get()
        assert psutil.Process(pid).nice() == ours + 5
        assert _read_share(pid) in (None, 5)
        await _end(task)


async def test_one_that_keeps_dying_is_given_up_with_its_last_words(
    tmp_path: Path,
) -> None:
    argv = (sys.executable, "-c", "raise SystemExit('out of luck')")
    program = Program("gambler", argv, tmp_path / "gambler.log")
    said: list[str] = []
    with pytest.raises(GaveUpError) as caught:
        await keep_running(program, said.append, 5, QUICK)
    assert "The gambler process ended 3 times in a row" in str(caught.value)
    assert "exit status 1, saying: out of luck" in str(caught.value)
    assert len(said) == 2


async def test_after_a_longer_life_it_is_back_at_once(tmp_path: Path) -> None:
    patient = BackOff(first=60, quick=0.0, attempts=2)
    said: list[str] = []
    async with _beacons() as beacons:
        task = asyncio.create_task(
            keep_running(beacons.program(tmp_path), said.append, 5, patient)
        )
        for _ in range(4):
            os.kill(await beacons.pids.get(), signal.SIGKILL)
        last = await beacons.pids.get()
        await _end(task)
        assert _is_gone(last)
    assert len(said) == 4
    assert all(line.endswith("saying nothing; starting it again") for line in said)


def test_the_first_restart_comes_within_two_seconds_and_later_ones_later() -> None:
    delays = [BackOff().delay(deaths) for deaths in range(12)]
    assert delays[0] == 0
    assert delays[1] < 2
    assert delays == sorted(delays)
    assert delays[-1] == BackOff().longest


async def test_one_that_ignores_the_signal_is_killed_with_its_children(
    tmp_path: Path,
) -> None:
    stubborn = (
        "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "import subprocess; c = subprocess.Popen(['sleep', '600'])\n"
        "socket.create_connection(('127.0.0.1', int(sys.argv[1]))).sendall("
        "f'{c.pid}\\n'.encode())"
    )
    async with _beacons() as beacons:
        program = beacons.program(tmp_path, stubborn)
        task = asyncio.create_task(keep_running(program, lambda _: None, 0.2))
        family = [psutil.Process(await beacons.pids.get()) for _ in range(2)]
        await _end(task)
        assert [await _ends(process) for process in family] == [True, True]


PARENT = """
import asyncio, sys
from pathlib import Path
from zoea.supervise.programs import Program
async def main():
    argv = (sys.executable, "-c", sys.argv[1], sys.argv[2])
    process = await Program("child", argv, Path(sys.argv[3])).start()
    await process.wait()
asyncio.run(main())
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs prctl")
async def test_a_killed_parent_takes_its_children_along(tmp_path: Path) -> None:
    async with _beacons() as beacons:
        argv = [BEACON % "", str(beacons.port), str(tmp_path / "child.log")]
        parent = await asyncio.create_subprocess_exec(
            sys.executable, "-c", PARENT, *argv, cwd=ROOT
        )
        child = psutil.Process(await beacons.pids.get())
        parent.kill()
        await parent.wait()
        assert await _ends(child)


async def test_stages_end_in_order() -> None:
    ended: list[str] = []

    async def one(name: str) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append(name)

    stopped = asyncio.Event()
    stages = [[asyncio.create_task(one(name))] for name in ("worker", "game")]
    run = asyncio.create_task(run_until(stopped, stages))
    await asyncio.sleep(0)
    stopped.set()
    await run
    assert ended == ["worker", "game"]


async def test_a_failure_ends_the_others_and_is_told() -> None:
    async def fail() -> None:
        raise GaveUpError("no more")

    other = asyncio.create_task(asyncio.Event().wait())
    waiting: Any = [[asyncio.create_task(fail())], [other]]
    with pytest.raises(GaveUpError, match="no more"):
        await run_until(asyncio.Event(), waiting)
    assert other.cancelled()


def test_a_log_stays_within_bounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "LOG_LIMIT", 10)
    program = Program("chatty", ("true",), tmp_path / "chatty.log")
    program.shorten_log()
    program.log.write_text("one\nand two\n\n")
    assert program.last_line() == "and two"
    program.shorten_log()
    assert program.log.read_text() == ""
    assert (tmp_path / "chatty.log.1").read_text() == "one\nand two\n\n"
    assert program.last_line(since=9) == ""


def test_how_one_failed_is_told_without_the_words_of_an_earlier_run(
    tmp_path: Path,
) -> None:
    program = Program("prepare", ("/bin/sh", "-c", "kill -9 $$"), tmp_path / "log")
    program.log.write_text("words of old\n")
    with pytest.raises(ProgramError, match="ended with signal 9, saying nothing"):
        program.run()
    program = Program("prepare", ("/bin/sh", "-c", "echo no >&2; exit 3"), program.log)
    with pytest.raises(ProgramError, match="ended with exit status 3, saying: no"):
        program.run()


def test_one_that_does_not_end_when_asked_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pids: list[int] = []

    def be_interrupted(process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        assert process.stdout.readline() == "deaf\n"
        pids.append(process.pid)
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess.Popen, "communicate", be_interrupted)
    # Blocking on what it never gets, it starts no other program that would live on.
    deaf = "trap '' TERM; echo deaf; mkfifo fifo; while :; do read word < fifo; done"
    deaf = f"cd {tmp_path}; {deaf}"
    program = Program("prepare", ("/bin/sh", "-c", deaf), tmp_path / "log")
    with pytest.raises(KeyboardInterrupt):
        program.run(patience=0.05)
    assert _is_gone(pids[0])


def test_one_claim_at_a_time(tmp_path: Path) -> None:
    held = claim_folder(tmp_path)
    held.write("http://127.0.0.1:8000")
    with pytest.raises(AlreadyRunningError) as caught:
        claim_folder(tmp_path)
    assert f"http://127.0.0.1:8000 (pid {os.getpid()})" in str(caught.value)
    held.release()
    again = claim_folder(tmp_path)
    assert not again.unclean
    again.release()


def test_a_folder_that_takes_no_lock_is_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_space(*words: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", no_space)
    with pytest.raises(DatabaseError, match="No disk space left"):
        claim_folder(tmp_path)


def test_a_claim_tells_that_the_former_holder_was_killed(tmp_path: Path) -> None:
    (tmp_path / "up.lock").write_text('{"pid": 1, "url": "http://x"}')
    held = claim_folder(tmp_path)
    assert held.unclean
    held.release()


def test_a_port_is_remembered_while_it_is_free(tmp_path: Path) -> None:
    record = tmp_path / "sandbox.port"
    port = choose_port(record)
    assert choose_port(record) == port
    with listen(port):
        other = choose_port(record)
    assert other != port
    record.write_text("no number")
    assert choose_port(record) > 0


@pytest.mark.parametrize("known", [True, False])
def test_the_record_of_a_port_is_for_its_owner_alone(
    tmp_path: Path, known: bool
) -> None:
    record = tmp_path / "sandbox.port"
    if known:
        record.touch(0o644)
    before = os.umask(0o022)
    try:
        choose_port(record)
    finally:
        os.umask(before)
    assert stat.S_IMODE(record.stat().st_mode) == 0o600


def find_port(server: asyncio.Server) -> int:
    return int(server.sockets[0].getsockname()[1])


def _server(status: str) -> Callable[..., Coroutine[Any, Any, None]]:
    async def answer(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(f"HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n".encode())
        await writer.drain()
        writer.close()

    return answer


async def test_any_answer_will_do_where_none_is_named() -> None:
    server = await asyncio.start_server(_server("406 No"), "127.0.0.1", 0)
    async with server:
        port = find_port(server)
        await wait_for_answer(port, "/mcp", wanted=None)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await wait_for_answer(port, "/readyz")


async def test_a_database_that_cannot_be_started_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As long as its disk is full, say."""
    monkeypatch.setattr(children, "DATABASE_WATCH_SECONDS", 0.01)
    said: asyncio.Queue[str] = asyncio.Queue()
    with acquire(tmp_path / "data") as server:
        configuration = server.folder / "postgresql.conf"
        configuration.rename(away := tmp_path / "away")
        server.stop(30.0)
        watch = asyncio.create_task(watch_database(server, said.put_nowait, QUICK))
        assert await said.get() == "the database server ended; starting it again"
        assert "does not start, it is tried again" in await said.get()
        # More often than a program may die.
        for _ in range(BackOff().attempts):
            assert "does not start" in await said.get()
        away.rename(configuration)
        assert await asyncio.to_thread(eventually, lambda: server.pid is not None)
        watch.cancel()
        await asyncio.gather(watch, return_exceptions=True)


async def test_a_web_server_without_its_database_has_not_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(children, "WEB_SECONDS", 2.0)
    answers = asyncio.Queue[str]()
    asked, times = asyncio.Event(), 0

    async def answer(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        nonlocal times
        times += 1
        asked.set()
        status = "503 Away" if answers.empty() else answers.get_nowait()
        await _server(status)(reader, writer)

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        web = Program("web", (), tmp_path / "web.log", port=find_port(server))
        fleet = children.Fleet((), web, "welcome", None, {}, None, programs.Console())
        welcome = asyncio.create_task(fleet._welcome())
        # More often than one may be asked that does not answer at all.
        while times < 30:
            await asked.wait()
            asked.clear()
        assert not welcome.done()
        answers.put_nowait("200 OK")
        await welcome
