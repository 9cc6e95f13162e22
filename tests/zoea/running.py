"""A running ``manage.py up``, seen from outside."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import psycopg

from zoea.postgres import data_directory, socket_directory

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"^Dashboard: (http://127\.0\.0\.1:\d+)(/\S+)$")
# Generous: a busy machine must not fail a test.
END_SECONDS = 120
SECONDS = 240


class Up:
    """A running ``manage.py up`` on a data folder; it is killed after ``seconds``."""

    def __init__(
        self,
        data: Path,
        *options: str,
        seconds: float = SECONDS,
        **environment: str,
    ) -> None:
        self.data = data
        self.process = subprocess.Popen(
            [sys.executable, "manage.py", "up", *options],
            cwd=ROOT,
            env={
                **os.environ,
                "DATABASE_URL": "",
                "SPACEMOLT_MCP_URL": "",
                "ZOEA_DATA": str(data),
                **environment,
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.lines: list[str] = []
        self._watchdog = threading.Timer(seconds, self.process.kill)
        self._watchdog.start()

    def wait_for(self, pattern: str) -> re.Match[str]:
        """Read the output up to the line that matches."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line)
            if found := re.search(pattern, line.rstrip("\n")):
                return found
        raise AssertionError(f"{self.lines} {self.process.communicate()[1]}")

    def family(self) -> dict[str, psutil.Process]:
        """Return its child processes by what they are."""
        found = {}
        for child in psutil.Process(self.process.pid).children():
            # One that has just ended has no command line any more.
            with suppress(psutil.Error):
                words = " ".join(child.cmdline()).replace(str(self.data), "")
                for name in ("sandbox", "worker", "daphne", "postgres"):
                    if name in words:
                        found[name] = child
        return found

    def end(self, number: signal.Signals = signal.SIGTERM) -> tuple[int, str]:
        """Ask it to end; return the status and what it wrote to its errors."""
        self.process.send_signal(number)
        _, errors = self.process.communicate(timeout=END_SECONDS)
        self._watchdog.cancel()
        return self.process.returncode, errors

    def refused(self) -> str:
        """Wait for it to refuse; return the one line that says why."""
        output, errors = self.process.communicate(timeout=SECONDS)
        self._watchdog.cancel()
        assert self.process.returncode == 2, errors
        assert "http" not in output
        assert errors.count("\n") == 1, errors
        return errors

    def clean_up(self) -> None:
        """Leave nothing behind, whatever the test did."""
        self._watchdog.cancel()
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()
        for process in left(self.data):
            process.kill()


def left(data: Path) -> list[psutil.Process]:
    """Return all living processes that were started on this data folder."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.status() == psutil.STATUS_ZOMBIE:
                continue
            words = " ".join(process.cmdline())
            inherits = process.environ().get("ZOEA_DATA") == str(data)
        except psutil.Error:
            continue
        if (
            (inherits and "manage.py" in words)
            or str(data_directory(data)) in words
            or (inherits and ("daphne" in words or "sandbox.game" in words))
        ):
            found.append(process)
    return found


def eventually(holds: Callable[[], bool]) -> bool:
    """Wait for what another process does on its own time."""
    until = time.monotonic() + SECONDS
    while not holds():
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


def rows(data: Path, query: str) -> list[tuple[object, ...]]:
    """Ask the database of a running fleet."""
    with psycopg.connect(
        host=str(socket_directory(data)), user="postgres", dbname="zoea"
    ) as connection:
        return connection.execute(query.encode()).fetchall()
