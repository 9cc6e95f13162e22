"""The programs of a fleet: how each is started and stopped, its port, its log.

Also the console on which ``manage.py up`` reports.
"""

from __future__ import annotations

import asyncio
import errno
import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, closing, nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO

from rich.console import Console as Terminal

from zoea import files
from zoea.json_logs import build_line, is_json_wanted, read_line

LOG_LIMIT = 5_000_000
_LIFELINE = Path(__file__).with_name("lifeline.py")
# When many turns begin at a tick, pages do not wait for them.
WORKER_NICENESS = 5

HOST = "127.0.0.1"


class ProgramError(Exception):
    """A program failed that was to run to its end: how it ended, and its last line."""


@dataclass(frozen=True)
class Program:
    """A program to run. Its output is appended to ``log``; it inherits ``sockets``.

    ``port`` is where it answers, if it is a server; ``niceness`` how far it leaves the
    processor to the others (0 to 19).
    """

    name: str
    argv: tuple[str, ...]
    log: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    sockets: tuple[int, ...] = ()
    port: int = 0
    niceness: int = 0

    async def start(self) -> asyncio.subprocess.Process:
        """Start it in a session of its own; it ends when this process does.

        Call it from the main thread: the kernel watches the thread that starts it.
        """
        with self._open_log() as log:
            return await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **self.environment},
                pass_fds=self.sockets,
                start_new_session=True,
            )

    def run(self, patience: float = 3.5) -> list[str]:
        """Run it to its end; the lines that it wrote to its standard output.

        Raises ProgramError for any exit status but 0. An exception meanwhile ends it,
        by force after ``patience`` seconds.
        """
        with (
            self._open_log() as log,
            subprocess.Popen(  # noqa: S603 - our own program
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**os.environ, **self.environment},
                start_new_session=True,
                text=True,
            ) as process,
        ):
            place = self.log_size()
            try:
                output, _ = process.communicate()
            except BaseException:
                process.terminate()
                with suppress(subprocess.TimeoutExpired):
                    process.wait(patience)
                process.kill()
                raise
        if process.returncode:
            how = describe_end(process.returncode, self.last_line(place))
            raise ProgramError(f"The {self.name} process ended with {how}")
        return output.splitlines()

    @property
    def _command(self) -> tuple[str, ...]:
        tied = (str(_LIFELINE), str(os.getpid()), str(self.niceness))
        return (sys.executable, "-I", "-S", *tied, *self.argv)

    def _open_log(self) -> BinaryIO:
        self.shorten_log()
        return files.open_log(self.log)

    def shorten_log(self) -> None:
        """Move a log that is too long aside, also while the program writes."""
        files.shorten_log(self.log, LOG_LIMIT)

    def last_line(self, since: int = 0) -> str:
        """The last line that it wrote after byte ``since`` of the log."""
        with suppress(FileNotFoundError), self.log.open("rb") as log:
            size = self.log.stat().st_size
            log.seek(max(since if since <= size else 0, size - 20_000))
            lines = log.read().decode(errors="replace").split("\n")
            for line in reversed(lines):
                if line.strip():
                    return read_line(line.strip())[:500]
        return ""

    def log_size(self) -> int:
        with suppress(FileNotFoundError):
            return self.log.stat().st_size
        return 0


@dataclass(frozen=True)
class Layout:
    """What the programs share: source tree, data folder, seconds a tick, URL of the game."""

    root: Path
    data: Path
    tick: float
    game_url: str

    def program(
        self, name: str, *argv: str, port: int = 0, sockets: tuple[int, ...] = ()
    ) -> Program:
        """A Python program; ``argv`` is what follows ``python``."""
        return Program(
            name=name,
            argv=(sys.executable, *argv),
            log=self.data / "logs" / f"{name}.log",
            environment={
                "DJANGO_SETTINGS_MODULE": "zoea.settings",
                "PYTHONPATH": str(self.root),
                "PYTHONUNBUFFERED": "1",
                "SPACEMOLT_MCP_URL": self.game_url,
                "ZOEA_DATA": str(self.data),
                "ZOEA_SECONDS_PER_TICK": str(self.tick),
            },
            sockets=sockets,
            port=port,
        )

    def manage(self, name: str, *argv: str) -> Program:
        return self.program(name, str(self.root / "manage.py"), *argv)


def sandbox_program(layout: Layout, port: int) -> Program:
    """The local game server; it continues the stored world."""
    return layout.program(
        "sandbox",
        "-m",
        "sandbox.game",
        f"--port={port}",
        f"--tick={layout.tick:g}",
        f"--state={layout.data / 'sandbox.json'}",
        port=port,
    )


def worker_program(layout: Layout, number: int = 1) -> Program:
    name = "worker" if number == 1 else f"worker-{number}"
    # All that it would check is the secret key, as `up` did before anything started.
    program = layout.manage(name, "procrastinate", "--skip-checks", "worker")
    return replace(program, niceness=WORKER_NICENESS)


def web_program(layout: Layout, listening: socket.socket) -> Program:
    """The web server, on this listening socket.

    WebSockets stay open without limit: Daphne's default closes each after a day with a
    code after which a browser does not connect again.
    """
    return layout.program(
        "web",
        "-m",
        "daphne",
        f"--fd={listening.fileno()}",
        "--websocket_timeout=-1",
        "--no-server-name",
        "--verbosity=0",
        "zoea.asgi:application",
        port=listening.getsockname()[1],
        sockets=(listening.fileno(),),
    )


def describe_end(status: int, line: str) -> str:
    """How a process ended, and the last line that it wrote."""
    how = f"signal {-status}" if status < 0 else f"exit status {status}"
    return f"{how}, saying: {line}" if line else f"{how}, saying nothing"


async def stop_process(process: asyncio.subprocess.Process, patience: float) -> None:
    """End a child and what it started; after ``patience`` seconds, kill it."""
    _signal(process, signal.SIGTERM)
    with suppress(TimeoutError):
        async with asyncio.timeout(patience):
            await process.wait()
    _signal(process, signal.SIGKILL)
    await process.wait()


def _signal(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    # The whole process group: it may outlive its leader.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


class PortError(Exception):
    """The port cannot be used; one line with the remedy."""


def listen(port: int, patience: float = 0.0) -> socket.socket:
    """Open a socket that listens on the port (0: any free one); raises PortError.

    The port stays ours while the process that answers on it is restarted. ``patience``
    is how many seconds a former owner gets to release it.
    """
    until = time.monotonic() + patience
    while True:
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((HOST, port))
            listener.listen(128)
        except OSError as error:
            listener.close()
            if error.errno == errno.EADDRINUSE and time.monotonic() < until:
                time.sleep(0.1)
                continue
            raise _port_error(port, error) from error
        return listener


def choose_port(record: Path) -> int:
    """The port of the last run if it is free, else another one, which is stored."""
    try:
        last = int(record.read_text())
    except (OSError, ValueError):
        last = 0
    for wanted in (last, 0):
        # The record may hold a number that no port has.
        with suppress(OverflowError, PortError), listen(wanted) as listener:
            port = int(listener.getsockname()[1])
            files.write_private(record, f"{port}\n")
            return port
    raise PortError("No free port on 127.0.0.1: end some other servers first.")


def _port_error(port: int, error: OSError) -> PortError:
    if error.errno == errno.EADDRINUSE:
        return PortError(
            f"Port {port} is taken by another program: end that one, or choose "
            "another port with --port."
        )
    if error.errno == errno.EACCES:
        return PortError(
            f"Port {port} is reserved for root: choose one from 1024 on with --port."
        )
    return PortError(f"Port {port} cannot be used: {error.strerror}.")


async def wait_for_answer(port: int, path: str, wanted: int | None = 200) -> None:
    """Wait until a GET of ``path`` is answered with the wanted status (None: any).

    There is no time limit: the caller sets one.
    """
    while True:
        status = await asyncio.to_thread(_ask_status, port, path)
        if status is not None and wanted in (None, status):
            return
        await asyncio.sleep(0.1)


def _ask_status(port: int, path: str) -> int | None:
    connection = http.client.HTTPConnection(HOST, port, timeout=2)
    with suppress(OSError, http.client.HTTPException), closing(connection):
        connection.request("GET", path)
        return connection.getresponse().status
    return None


class Console:
    """Lines on standard output; a spinner only on a terminal."""

    def __init__(self) -> None:
        drawn = sys.stdout.isatty() and not is_json_wanted()
        self._terminal = Terminal(highlight=False) if drawn else None

    def say(self, text: str) -> None:
        """Write one line, unwrapped."""
        try:
            sys.stdout.write(f"{build_line(text)}\n")
            sys.stdout.flush()
        except BrokenPipeError:
            # Nobody reads any more, but the fleet goes on.
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, sys.stdout.fileno())
            os.close(null)

    def show_work(self, text: str) -> AbstractContextManager[object]:
        """Show that something is being done."""
        if self._terminal is not None:
            return self._terminal.status(text)
        self.say(f"{text} ...")
        return nullcontext()
