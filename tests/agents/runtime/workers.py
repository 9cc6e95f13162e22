"""Worker processes that can be killed at any moment, each ready at once.

One process loads the program and forks for every worker. They send a heartbeat every
hour: what is taken up is so because PostgreSQL freed a lock. Every turn locks a file of
its Mysis, which the kernel frees when the process dies: so two at once are seen for certain.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import subprocess
import sys
from contextvars import ContextVar
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from bench.processes import ROOT, clean_environment, database_url

HOUR = 3600.0
PATIENCE = 120.0
LINE = 20


class Workers:
    """A context manager; who is started from now on has its files in ``folder``.

    ``tick`` are the seconds of the game at ``game``.
    """

    def __init__(self, folder: Path, game: str, tick: float = 1.0) -> None:
        self.folder = folder
        self.alive: list[int] = []
        self._game, self._tick = game, tick
        self._read, self._write = os.pipe()

    def __enter__(self) -> Self:
        told = {"DATABASE_URL": database_url(), "SPACEMOLT_MCP_URL": self._game}
        told |= {"ZOEA_SECONDS_PER_TICK": str(self._tick)}
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(self._write)],
            cwd=ROOT,
            env=clean_environment(Path(os.environ["ZOEA_DATA"])) | told,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=[self._write],
            text=True,
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.communicate()
        for end in (self._read, self._write):
            os.close(end)

    def start(self) -> int:
        """Start one more; its process."""
        self.alive.append(self._ask(f"start {self.folder}"))
        return self.alive[-1]

    def kill(self, pid: int) -> None:
        """End one without a word."""
        self._ask(f"kill {pid}")
        self.alive.remove(pid)

    def kill_all(self) -> None:
        """End whoever is alive."""
        for pid in (*self.alive,):
            self.kill(pid)

    def _ask(self, line: str) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def await_turn(self) -> tuple[int, int]:
        """A worker that asks a model at this moment, and for which Mysis."""
        while select.select([self._read], [], [], 0)[0]:
            os.read(self._read, LINE)
        while True:
            assert select.select([self._read], [], [], PATIENCE)[0], (
                "nobody takes a turn"
            )
            # Shorter lines than a pipe holds are written whole.
            pid, mysis = map(int, os.read(self._read, LINE).split())
            if pid in self.alive:
                return pid, mysis

    def list_doubles(self) -> list[str]:
        """The turns that began while another process was in one of the same Mysis."""
        file = self.folder / "doubles"
        return file.read_text().splitlines() if file.exists() else []


def serve(write: int) -> None:
    """Start and kill workers, as it is asked for by standard input."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "zoea.settings")
    import django

    django.setup()
    _load()
    children: set[int] = set()
    for line in sys.stdin:
        word, _, rest = line.rstrip("\n").partition(" ")
        if word == "start":
            pid = os.fork()
            if pid == 0:
                _work(Path(rest), write)
            children.add(pid)
        else:
            pid = int(rest)
            _end(pid)
            children.remove(pid)
        sys.stdout.write(f"{pid}\n")
        sys.stdout.flush()
    for pid in children:
        _end(pid)


def _end(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def _load() -> None:
    """Load what a turn loads when it needs it, once for all workers."""
    from django.conf import settings
    from procrastinate.contrib.django import app

    from agents.llm.wires import http
    from agents.runtime import recovery

    for name in ("agents.llm.wires.pilot", "agents.runtime.turn"):
        import_module(name)
    http._load_certificates()
    app.worker_defaults["update_heartbeat_interval"] = HOUR
    app.worker_defaults["stalled_worker_timeout"] = HOUR
    recovery.STALLED_SECONDS = recovery.STARVED_SECONDS = HOUR
    settings.ZOEA_STALLED_SECONDS = HOUR
    recovery.LOOK_SECONDS = recovery.FREE_SECONDS = 0.2


def _watch_turns(folder: Path, write: int) -> None:
    """Lock the file of a Mysis in its turn, and report each question to a model."""
    from agents.runtime import answers, turn

    take_turn, complete = turn.take_turn, vars(answers)["complete"]
    flown: ContextVar[int] = ContextVar("flown")

    async def take_alone(mysis_id: int, *, job_id: int, trigger: str) -> None:
        flown.set(mysis_id)
        with (folder / str(mysis_id)).open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                with (folder / "doubles").open("a") as doubles:
                    doubles.write(f"{mysis_id} {job_id} {trigger}\n")
            await take_turn(mysis_id, job_id=job_id, trigger=trigger)

    async def report_and_complete(*args: Any) -> Any:
        os.write(write, f"{os.getpid():9} {flown.get():9}\n".encode())
        return await complete(*args)

    turn.take_turn = take_alone
    vars(answers)["complete"] = report_and_complete


def _work(folder: Path, write: int) -> None:
    """Be a worker; does not return."""
    _watch_turns(folder, write)
    from django.core.management import execute_from_command_line

    null = os.open(os.devnull, os.O_RDWR)
    for end in (0, 1):
        os.dup2(null, end)
    try:
        words = ["procrastinate", "--skip-checks", "worker"]
        execute_from_command_line(["manage.py", *words])
    finally:
        os._exit(1)


if __name__ == "__main__":
    serve(int(sys.argv[1]))
