"""What a fleet stands on: a folder, PostgreSQL, workers and web servers of its own."""

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

from bench.surroundings import ROOT, environment
from zoea.postgres import EmbeddedPostgres, acquire
from zoea.supervise.programs import Layout, Program, web, worker

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
class Ground:
    """A running fleet; children that end are started again by :meth:`tend`.

    Of several games each has its shard of the Myses, and workers of its own.
    """

    data: Path
    postgres: EmbeddedPostgres
    games: Sequence[str]
    tick: float
    children: dict[str, Child] = field(default_factory=dict)
    ports: dict[str, int] = field(default_factory=dict)
    _listening: list[socket.socket] = field(default_factory=list)

    def layout(self, game: int = 0) -> Layout:
        """The programs of this ground that play one of its games."""
        return Layout(ROOT, self.data, self.tick, self.games[game])

    @property
    def surroundings(self) -> dict[str, str]:
        """What all programs are told."""
        shards = {"ZOEA_TURN_SHARDS": str(len(self.games))}
        return environment(self.data) | shards

    def manage(self, *words: str) -> str:
        """Run a management command to its end; what it printed."""
        done = subprocess.run(
            [sys.executable, "manage.py", *words],
            cwd=ROOT,
            env=self.surroundings | {"SPACEMOLT_MCP_URL": self.games[0]},
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
            self._begin(name, web(self.layout(), listening.fileno()))

    def _worker(self, game: int) -> Program:
        program = worker(self.layout(game))
        if len(self.games) == 1:
            return program
        queues = ("--queues", f"turns-{game},upkeep")
        return replace(program, argv=(*program.argv, *queues))

    def _begin(self, name: str, program: Program) -> None:
        self.children[name] = Child(program, self._spawn(name, program))

    def _spawn(self, name: str, program: Program) -> subprocess.Popen[bytes]:
        log = self.data / "logs" / f"{name}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        lifeline = [sys.executable, "-I", "-S", str(LIFELINE), str(os.getpid())]
        ours = {**self.surroundings, **program.environment, "ZOEA_DB_POOL": POOL}
        with log.open("ab") as out:
            return subprocess.Popen(
                [*lifeline, *program.argv],
                cwd=ROOT,
                env=ours,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                pass_fds=program.sockets,
                start_new_session=True,
            )

    def kill(self, name: str) -> None:
        """End a child as a power cut would; it is started again at the next look."""
        self.children[name].process.send_signal(signal.SIGKILL)
        self.children[name].process.wait()

    def tend(self) -> None:
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

    def rows(self, query: str) -> list[tuple[object, ...]]:
        """Ask the database."""
        with psycopg.connect(self.postgres.conninfo()) as database:
            return database.execute(query.encode()).fetchall()

    def number(self, query: str) -> int:
        """Ask the database for one number."""
        found = self.rows(query)[0][0]
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
def standing(data: Path, games: Sequence[str], tick: float) -> Iterator[Ground]:
    """A database that is ready, in a folder of its own, until the block ends."""
    with acquire(data) as postgres:
        ground = Ground(data, postgres, games, tick)
        ground.manage("migrate", "--verbosity=0")
        try:
            yield ground
        finally:
            ground.stop()
