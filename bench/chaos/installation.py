"""The installation of a run: a folder, PostgreSQL, workers and web servers of its own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import psutil
import psycopg

from bench.processes import ROOT, clean_environment
from zoea.postgres import EmbeddedPostgres, acquire
from zoea.supervise.programs import Layout, Program, web_program, worker_program

LIFELINE = ROOT / "zoea" / "supervise" / "lifeline.py"
PATIENCE = 60.0
POOL = "8"


@dataclass
class Child:
    """One program; ``deaths`` counts how often it ended, by whatever cause."""

    program: Program
    process: subprocess.Popen[bytes]
    deaths: int = 0


@dataclass
class Installation:
    """A running fleet; :meth:`revive` starts children again that have ended.

    Each of several games has its shard of the Myses, and workers of its own.
    """

    data: Path
    postgres: EmbeddedPostgres
    games: Sequence[str]
    tick: float
    children: dict[str, Child] = field(default_factory=dict)
    ports: dict[str, int] = field(default_factory=dict)
    _listening: list[socket.socket] = field(default_factory=list)
    _database: psycopg.Connection | None = None

    def layout(self, game: int = 0) -> Layout:
        """Where the programs of one game are, and what they play."""
        return Layout(ROOT, self.data, self.tick, self.games[game])

    @property
    def environment(self) -> dict[str, str]:
        """The environment of all programs."""
        shards = {"ZOEA_TURN_SHARDS": str(len(self.games))}
        return clean_environment(self.data) | shards

    def run_command(self, *words: str) -> str:
        """Run a management command; what it printed."""
        done = subprocess.run(
            [sys.executable, "manage.py", *words],
            cwd=ROOT,
            env=self.environment | {"SPACEMOLT_MCP_URL": self.games[0]},
            stdout=subprocess.PIPE,
            check=True,
            text=True,
        )
        return done.stdout

    def start(self, workers: int, webs: int) -> None:
        """Start so many workers and web servers."""
        for number in range(workers):
            self._begin(f"worker-{number + 1}", self._worker(number % len(self.games)))
        for number in range(1, webs + 1):
            listening = socket.create_server(("127.0.0.1", 0))
            self._listening.append(listening)
            name = f"web-{number}"
            self.ports[name] = listening.getsockname()[1]
            self._begin(name, web_program(self.layout(), listening))

    def _worker(self, game: int) -> Program:
        program = worker_program(self.layout(game))
        if len(self.games) == 1:
            return program
        python, _, *words = program.argv
        queues = ("--queues", f"turns-{game},upkeep")
        argv = (python, "-m", "bench.chaos.worker", *words, *queues)
        return replace(program, argv=argv)

    def begin_worker(self, name: str, *words: str, **environment: str) -> None:
        """Start one more worker in an environment of its own.

        ``words`` are what follows ``python`` in the place of ``manage.py``.
        """
        program = self._worker(0)
        python, manage, *rest = program.argv
        argv = (python, *(words or (manage,)), *rest)
        told = {**program.environment, **environment}
        self._begin(name, replace(program, argv=argv, environment=told))

    def _begin(self, name: str, program: Program) -> None:
        self.children[name] = Child(program, self._spawn(name, program))

    def _spawn(self, name: str, program: Program) -> subprocess.Popen[bytes]:
        log = self.data / "logs" / f"{name}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        # Nobody looks at pages: turns leave the processor to nothing.
        tied = [str(LIFELINE), str(os.getpid()), "0"]
        # By its name the server tells whose each connection is.
        ours = {**self.environment, **program.environment, "PGAPPNAME": name}
        with log.open("ab") as out:
            return subprocess.Popen(
                [sys.executable, "-I", "-S", *tied, *program.argv],
                cwd=ROOT,
                env={**ours, "ZOEA_DB_POOL": POOL},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                pass_fds=program.sockets,
                start_new_session=True,
            )

    def kill(self, name: str) -> None:
        """End a child as a power cut would; ``revive`` starts it again."""
        self.children[name].process.send_signal(signal.SIGKILL)
        self.children[name].process.wait()

    def revive(self) -> None:
        """Start again whatever has ended."""
        for name, child in self.children.items():
            if child.process.poll() is not None:
                child.deaths += 1
                child.process = self._spawn(name, child.program)

    def crash_postgres(self, how: signal.Signals) -> None:
        """Stop the server at once, as a crash does, and start it again.

        By SIGKILL its backends are left alone: they end when they find out.
        """
        pid = self.postgres.pid
        assert pid is not None
        server = psutil.Process(pid)
        server.send_signal(how)
        psutil.wait_procs([server], timeout=PATIENCE)
        self.postgres.ensure_running()

    def query_rows(self, query: str) -> list[tuple[object, ...]]:
        """All rows of a query."""
        try:
            return self._connect().execute(query.encode()).fetchall()
        except psycopg.OperationalError:
            # The server was restarted since the last query.
            self.disconnect()
            return self._connect().execute(query.encode()).fetchall()

    def _connect(self) -> psycopg.Connection:
        """One connection for all queries: whoever waits asks many times a second."""
        if self._database is None:
            self._database = psycopg.connect(
                self.postgres.conninfo(), autocommit=True, application_name="bench"
            )
        return self._database

    def disconnect(self) -> None:
        """Let go of the database."""
        if self._database is not None:
            self._database.close()
            self._database = None

    def query_number(self, query: str) -> int:
        """The one number of a query."""
        found = self.query_rows(query)[0][0]
        assert isinstance(found, int)
        return found

    def stop(self) -> None:
        """End all children."""
        for child in self.children.values():
            child.process.terminate()
        until = time.monotonic() + PATIENCE / 3
        for child in self.children.values():
            with suppress(subprocess.TimeoutExpired):
                child.process.wait(max(0.1, until - time.monotonic()))
            child.process.kill()
            child.process.wait()
        for listening in self._listening:
            listening.close()


@contextmanager
def run_installation(
    data: Path, games: Sequence[str], tick: float
) -> Iterator[Installation]:
    """An installation with a migrated database, until the block ends."""
    with acquire(data) as postgres:
        installation = Installation(data, postgres, games, tick)
        installation.run_command("migrate", "--verbosity=0")
        try:
            yield installation
        finally:
            installation.stop()
            installation.disconnect()
