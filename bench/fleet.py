"""A fleet for a measurement: its programs, and the Myses that fly in it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psutil
import psycopg
from django.conf import settings

from agents import actions
from agents.models import Mysis, Turn
from bench.processes import ROOT, clean_environment
from memory.models import HistorySummary, Memory
from zoea.postgres import DATABASE, USER, EmbeddedPostgres, socket_directory
from zoea.supervise.programs import (
    Layout,
    Program,
    listen,
    sandbox_program,
    web_program,
    worker_program,
)

LIFELINE = ROOT / "zoea" / "supervise" / "lifeline.py"
LINK = "Dashboard: "
LINK_SECONDS, TURN_SECONDS = 300.0, 120.0
STOP_SECONDS, WARM_SECONDS = 20.0, 300.0
FIRST_TURN = "SELECT count(*) FROM agents_turn WHERE outcome = 'done'"


@dataclass
class Child:
    """One program; ``deaths`` counts how often it ended, by whatever cause."""

    program: Program
    process: subprocess.Popen[bytes]
    deaths: int = 0


@dataclass
class Fleet:
    """The programs on one data folder; all have ended after :func:`run_fleet`'s block.

    ``environment`` is that of all programs; ``nice`` workers leave the processor to pages.
    """

    data: Path
    game: str = ""
    tick: float = 10.0
    environment: Mapping[str, str] = field(default_factory=dict)
    nice: bool = True
    children: dict[str, Child] = field(default_factory=dict)
    ports: dict[str, int] = field(default_factory=dict)
    _listening: list[socket.socket] = field(default_factory=list)
    _database: psycopg.Connection[Any] | None = None

    # --- Programs

    def start(self, workers: int, webs: int) -> None:
        """Start so many workers and web servers."""
        for number in range(workers):
            self.begin(f"worker-{number + 1}", self.make_worker())
        for number in range(1, webs + 1):
            listening = socket.create_server(("127.0.0.1", 0))
            self._listening.append(listening)
            name = f"web-{number}"
            self.ports[name] = listening.getsockname()[1]
            self.begin(name, web_program(self._layout(), listening))

    def start_game(self) -> None:
        """Start a local game; the settings of this process lead to it."""
        with listen(0) as free:
            port = free.getsockname()[1]
        self.game = f"http://127.0.0.1:{port}/mcp"
        settings.SPACEMOLT_MCP_URL = self.game
        settings.ZOEA_SECONDS_PER_TICK = self.tick
        # Read before this game was there: as of any local game, all sessions at once.
        settings.ZOEA_GAME_OPENINGS = 0
        self.begin("sandbox", sandbox_program(self._layout(), port))

    def start_up(self, *options: str) -> str:
        """Start ``manage.py up`` with all that it starts; the link that signs in once."""
        up = self._layout().manage("up", "up", "--port=0", *options)
        # What earlier ones said is there too.
        since = up.log_size()
        self.begin("up", replace(up, environment={"PYTHONUNBUFFERED": "1"}))
        until = time.monotonic() + LINK_SECONDS
        while self.children["up"].process.poll() is None and time.monotonic() < until:
            for line in up.log.read_bytes()[since:].decode().splitlines():
                if line.startswith(LINK):
                    return line.removeprefix(LINK).strip()
            time.sleep(0.05)
        raise RuntimeError(f"manage.py up printed no link; last: {up.last_line(since)}")

    def make_worker(self, *words: str, options: Sequence[str] = ()) -> Program:
        """A worker; ``words`` are what follows ``python`` in the place of ``manage.py``."""
        program = worker_program(self._layout())
        python, manage, *rest = program.argv
        argv = (python, *(words or (manage,)), *rest, *options)
        return replace(program, argv=argv, niceness=program.niceness * self.nice)

    def _layout(self) -> Layout:
        return Layout(ROOT, self.data, self.tick, self.game)

    def begin(self, name: str, program: Program, **environment: str) -> None:
        """Start a program, in an environment that is also its own."""
        told = {**program.environment, **environment}
        program = replace(program, environment=told)
        self.children[name] = Child(program, self._spawn(name, program))

    def _spawn(self, name: str, program: Program) -> subprocess.Popen[bytes]:
        log = self.data / "logs" / f"{name}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        tied = [str(LIFELINE), str(os.getpid()), str(program.niceness)]
        # By its name the server tells whose each connection is.
        ours = {**clean_environment(self.data), **self.environment, "PGAPPNAME": name}
        with log.open("ab") as out:
            return subprocess.Popen(
                [sys.executable, "-I", "-S", *tied, *program.argv],
                cwd=ROOT,
                env={**ours, **program.environment},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                pass_fds=program.sockets,
                start_new_session=True,
            )

    def run_command(self, *words: str) -> str:
        """Run a management command; what it printed."""
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "manage.py", *words],
            cwd=ROOT,
            env={
                **clean_environment(self.data),
                **self.environment,
                "SPACEMOLT_MCP_URL": self.game,
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            check=True,
            text=True,
        )
        return done.stdout.strip()

    def kill(self, name: str) -> None:
        """End a child as a power cut would; ``revive`` starts it again."""
        self.children[name].process.send_signal(signal.SIGKILL)
        self.children[name].process.wait()

    def end(self, name: str) -> None:
        """End a child for good."""
        child = self.children.pop(name)
        child.process.terminate()
        child.process.wait(120)

    def revive(self) -> None:
        """Start again whatever has ended."""
        for name, child in self.children.items():
            if child.process.poll() is not None:
                child.deaths += 1
                child.process = self._spawn(name, child.program)

    def stop(self) -> None:
        """End all children, by force where they take too long."""
        for child in self.children.values():
            child.process.terminate()
        until = time.monotonic() + STOP_SECONDS
        for child in self.children.values():
            with suppress(subprocess.TimeoutExpired):
                child.process.wait(max(0.1, until - time.monotonic()))
            child.process.kill()
            child.process.wait()
        for listening in self._listening:
            listening.close()
        self.disconnect()

    # --- Its database

    def query(self, text: str, *values: object) -> list[tuple[Any, ...]]:
        """All rows of a query; asked once more where the server was restarted."""
        try:
            return self._connect().execute(text.encode(), values or None).fetchall()
        except psycopg.OperationalError:
            self.disconnect()
            return self._connect().execute(text.encode(), values or None).fetchall()

    def query_value(self, text: str, *values: object) -> Any:
        """The first value of the first row."""
        return self.query(text, *values)[0][0]

    def _connect(self) -> psycopg.Connection[Any]:
        """One connection for all queries: whoever waits asks many times a second."""
        if self._database is None:
            self._database = connect_database(self.data)
        return self._database

    def disconnect(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None

    def wait_for_turn(self) -> None:
        """Wait until somebody has finished a turn."""
        until = time.monotonic() + TURN_SECONDS
        while not self.query_value(FIRST_TURN):
            if time.monotonic() > until:
                raise RuntimeError(f"No turn was finished within {TURN_SECONDS:g} s.")
            time.sleep(0.2)


def connect_database(data: Path) -> psycopg.Connection[Any]:
    """A connection to the embedded server of a data folder."""
    return psycopg.connect(
        host=str(socket_directory(data)),
        user=USER,
        dbname=DATABASE,
        autocommit=True,
        application_name="bench",
    )


def crash_postgres(server: EmbeddedPostgres, how: signal.Signals) -> None:
    """Stop the server as this signal does; by SIGKILL its backends are left alone."""
    assert server.pid is not None
    process = psutil.Process(server.pid)
    process.send_signal(how)
    psutil.wait_procs([process], timeout=120)


@contextmanager
def run_fleet(data: Path, **known: Any) -> Iterator[Fleet]:
    """A fleet without programs; what was started in the block has ended after it."""
    fleet = Fleet(data, **known)
    try:
        yield fleet
    finally:
        fleet.stop()


# --- Myses in the database of this process


def summarise(mysis: int, uncovered: int, covered: int = 0) -> None:
    """Cover so many memories by a summary (0: all), but for the newest ones."""
    ids = (
        Memory.objects.filter(mysis=mysis).order_by("-pk").values_list("pk", flat=True)
    )
    HistorySummary.objects.filter(mysis=mysis).delete()
    HistorySummary.objects.create(
        mysis_id=mysis,
        first_id=ids[uncovered + covered - 1] if covered else 1,
        through_id=ids[uncovered],
        generation=1,
        text="Goals: earn credits. Done so far: mined, sold and refuelled.\n" * 60,
        status=HistorySummary.Status.ACTIVE,
        history_hash="",
    )


def start_myses(number: int, name: str) -> list[int]:
    """Create and start Myses of the pilot; their ids."""
    found = []
    for place in range(number):
        mysis = actions.create_mysis(name=f"{name} {place}x", by="bench")
        found.append(actions.start_mysis(mysis=mysis, by="bench").pk)
    return found


def wait_for_turns(myses: Sequence[int], turns: int) -> None:
    """Wait until each has ended so many turns; raises RuntimeError where they do not."""
    until = time.monotonic() + WARM_SECONDS
    counts: Counter[int] = Counter()
    while time.monotonic() < until:
        done = Turn.objects.filter(mysis__in=myses, finished_at__isnull=False)
        counts = Counter(done.values_list("mysis", flat=True))
        if all(counts[mysis] >= turns for mysis in myses):
            return
        time.sleep(1)
    raise RuntimeError(
        f"{len(myses)} Myses took {counts.total()} turns in {WARM_SECONDS:g} s."
    )


def delete_myses() -> None:
    for mysis in Mysis.objects.all():
        actions.delete_mysis(mysis=mysis, by="bench")
