"""One run of everything, as ``manage.py up`` does it.

It claims the data folder and the port (nothing has started if that fails), then starts
the database. While that is brought up to date the game starts, and the web server unless
it would meet the tables of an older version; then the workers. At the end the workers
stop before the game that they play, and the database last, all within ten seconds.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from agents.game.local import GAME_ID
from zoea.commandline import (
    DatabaseError,
    can_serve_before_migration,
    check_secret_key,
    open_database,
)
from zoea.files import ensure_private_folder, read_or_make_token
from zoea.postgres import EmbeddedPostgres
from zoea.postgres.process import from_os_error
from zoea.supervise import programs
from zoea.supervise.children import GAME_PATIENCE, Fleet
from zoea.supervise.programs import (
    HOST,
    Console,
    Layout,
    ProgramError,
    choose_port,
    listen,
    stop_process,
)

_ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

# For the database: two of the ten seconds are left for a server that does not stop.
STOP_SECONDS = 7.5
# The local game is livelier than the real one, unless told otherwise.
SANDBOX_TICK = 2.0
# Seconds that a killed former run may still hold its port.
UNCLEAN_PATIENCE = 5.0


class AlreadyRunningError(Exception):
    """Another process runs the fleet of this data folder; the text says where."""


class Interrupted(BaseException):
    """A signal arrived before the child processes ran."""


def run_everything(myses: int, port: int, tick: float | None, workers: int) -> None:
    """Run everything until a signal ends it; without ``tick`` (seconds) the setting counts.

    Raises AlreadyRunningError, ImproperlyConfigured, PortError and DatabaseError before
    it prints a link (what had started then has ended), GaveUpError when a program keeps
    dying, Interrupted for a signal before all of them ran.
    """
    signals, console = Signals(), Console()
    with ExitStack() as stack:
        held = claim_folder(settings.ZOEA_DATA)
        stack.callback(held.release)
        # With a key of this process alone each child would make another one.
        for error in check_secret_key():
            raise ImproperlyConfigured(f"{error.msg} {error.hint}")
        patience = UNCLEAN_PATIENCE if held.unclean else 0.0
        listening = stack.enter_context(listen(port, patience))
        url = f"http://{HOST}:{listening.getsockname()[1]}"
        game_port, layout = _make_layout(tick)
        held.write(url, layout.game_url, layout.tick)
        runner = stack.enter_context(asyncio.Runner())
        with console.show_work("Starting the database"):
            server = stack.enter_context(
                open_database(lambda: signals.remaining(STOP_SECONDS))
            )
        undo = stack.enter_context(ExitStack())
        game = None
        web = programs.web_program(layout, listening)
        first = [web] if can_serve_before_migration(server) else []
        if game_port is not None:
            game = programs.sandbox_program(layout, game_port)
            first.append(game)
        started = {each.name: _start(each, runner, undo) for each in first}
        with console.show_work("Bringing the database up to date"):
            link = _prepare(layout, myses, console, own_game=game is not None)
        fleet = Fleet(
            workers=[
                programs.worker_program(layout, number + 1) for number in range(workers)
            ],
            web=web,
            welcome=f"Dashboard: {urljoin(url, link)}",
            game=game,
            started=started,
            server=server,
            console=console,
        )
        undo.pop_all()
        runner.run(_supervise(fleet, signals))
        console.say("Stopping ...")
    console.say("Stopped.")


def _start(
    program: programs.Program, runner: asyncio.Runner, undo: ExitStack
) -> asyncio.subprocess.Process:
    process = runner.run(program.start())
    undo.callback(lambda: runner.run(stop_process(process, GAME_PATIENCE)))
    return process


def _prepare(layout: Layout, myses: int, console: Console, *, own_game: bool) -> str:
    """Bring the database up to date; returns where to sign in."""
    options = [f"--myses={myses}", *(["--own-game"] if own_game else [])]
    try:
        *said, link = layout.manage("prepare", "prepare", *options).run()
    except ProgramError as error:
        raise DatabaseError(
            str(error).replace("saying: manage.py: ", "saying: ")
        ) from error
    for line in said:
        console.say(line)
    return link


def _make_layout(tick: float | None) -> tuple[int | None, Layout]:
    """The port of the local game (None where SPACEMOLT_MCP_URL names one), the layout."""
    data: Path = settings.ZOEA_DATA
    port = None
    url = os.environ.get("SPACEMOLT_MCP_URL", "")
    if not url:
        port = choose_port(data / "sandbox.port")
        read_or_make_token(data / GAME_ID, size=6)
        url = f"http://{HOST}:{port}/mcp"
    if tick is None:
        is_set = port is None or os.environ.get("ZOEA_SECONDS_PER_TICK")
        tick = settings.ZOEA_SECONDS_PER_TICK if is_set else SANDBOX_TICK
    return port, Layout(root=settings.BASE_DIR, data=data, tick=tick, game_url=url)


async def _supervise(fleet: Fleet, signals: Signals) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    with signals.redirect(lambda: loop.call_soon_threadsafe(stopped.set)):
        flushing = asyncio.create_task(_flush(stopped, fleet.server))
        try:
            await fleet.run(stopped)
        finally:
            if not stopped.is_set():
                flushing.cancel()
            await asyncio.gather(flushing, return_exceptions=True)


async def _flush(stopped: asyncio.Event, server: EmbeddedPostgres | None) -> None:
    """Write a checkpoint while the programs end, so that the server stops fast."""
    await stopped.wait()
    if server is not None:
        await asyncio.to_thread(server.checkpoint)


class Claim:
    """The lock on a data folder; the kernel releases it when the process ends."""

    def __init__(self, descriptor: int, unclean: bool) -> None:
        self._descriptor = descriptor
        self.unclean = unclean

    def write(self, url: str, game: str = "", tick: float = 0.0) -> None:
        """Store the address of this process's dashboard, and which game it plays."""
        found = {"pid": os.getpid(), "url": url, "game": game, "tick": tick}
        record = json.dumps(found).encode()
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, record, 0)

    def release(self) -> None:
        """Release the lock; the emptied file says that the run ended in order."""
        os.ftruncate(self._descriptor, 0)
        os.close(self._descriptor)


def claim_folder(data: Path) -> Claim:
    """Lock the data folder for this process; ``unclean``: the former run was killed.

    Raises AlreadyRunningError, and DatabaseError where the folder cannot be written.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
    try:
        ensure_private_folder(data)
        descriptor = os.open(data / "up.lock", flags, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        held = Claim(descriptor, unclean=bool(_read_record(descriptor)))
        held.write("")
    except BlockingIOError:
        found = _read_record(descriptor)
        os.close(descriptor)
        where = f" at {found['url']}" if found.get("url") else ""
        pid = f" (pid {found['pid']})" if found.get("pid") else ""
        raise AlreadyRunningError(
            f"This fleet is already running{where}{pid}: use that one, end it first, "
            "or set ZOEA_DATA to another folder."
        ) from None
    except OSError as error:
        raise DatabaseError(str(from_os_error(error, data))) from error
    return held


def _read_record(descriptor: int) -> dict[str, Any]:
    try:
        found = json.loads(os.pread(descriptor, 4096, 0))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


class Signals:
    """Turns the first SIGINT, SIGTERM or SIGHUP into one request and ignores the rest.

    So a second Ctrl-C never interrupts the clean-up.
    """

    def __init__(self) -> None:
        self._received_at: float | None = None
        self._ask: Callable[[], object] | None = None
        for number in _ENDING_SIGNALS:
            signal.signal(number, self._receive)

    def remaining(self, seconds: float) -> float:
        """What is left of so many seconds after the signal; at least 1.5."""
        began = self._received_at
        gone = 0.0 if began is None else time.monotonic() - began
        return max(1.5, seconds - gone)

    @contextmanager
    def redirect(self, ask: Callable[[], object]) -> Iterator[None]:
        """Call ``ask`` for a signal within the block; before it, raise Interrupted."""
        self._ask = ask
        try:
            yield
        finally:
            self._ask = lambda: None  # the run is ending already

    def _receive(self, number: int, frame: object) -> None:
        if self._received_at is not None:
            return
        self._received_at = time.monotonic()
        if self._ask is None:
            raise Interrupted
        self._ask()
