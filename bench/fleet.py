"""A whole demo fleet, run by ``manage.py up`` in a folder of its own."""

from __future__ import annotations

import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import psutil
import psycopg

from bench.footprint import tree_of
from bench.surroundings import ROOT, environment
from zoea.postgres import DATABASE, USER, socket_directory

LINK = "Dashboard: "
LINK_SECONDS = 60.0
TURN_SECONDS = 60.0
STOP_SECONDS = 20.0
FIRST_TURN = "SELECT min(finished_at) FROM agents_turn WHERE outcome = 'done'"


class FleetError(Exception):
    """The fleet did not do what was to be measured."""


class Fleet:
    """A running ``manage.py up``; ``link`` signs in once."""

    def __init__(self, process: subprocess.Popen[str], data: Path) -> None:
        self.process = process
        self.data = data
        self.started = time.time()
        self.link = ""
        self._lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    @property
    def pid(self) -> int:
        """Of the command itself; all others are its children."""
        return self.process.pid

    def wait_for_link(self) -> float:
        """Wait until the dashboard answers; the seconds since the start."""
        said = ""
        until = time.monotonic() + LINK_SECONDS
        while time.monotonic() < until:
            try:
                said = self._lines.get(timeout=0.1)
            except queue.Empty:
                if self.process.poll() is not None:
                    break
                continue
            if said.startswith(LINK):
                self.link = said.removeprefix(LINK).strip()
                return time.time() - self.started
        raise FleetError(f"manage.py up printed no link; it said last: {said.strip()}")

    def wait_for_turn(self) -> float:
        """Wait for the first finished turn; the seconds from the start to its end."""
        until = time.monotonic() + TURN_SECONDS
        while time.monotonic() < until:
            finished = self._first_turn()
            if finished is not None:
                return finished.timestamp() - self.started
            time.sleep(0.2)
        raise FleetError(f"No turn was finished within {TURN_SECONDS:.0f} s.")

    def _first_turn(self) -> datetime | None:
        with psycopg.connect(
            host=str(socket_directory(self.data)), user=USER, dbname=DATABASE
        ) as connection:
            row = connection.execute(FIRST_TURN).fetchone()
        return row[0] if row else None

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)

    def stop(self) -> float:
        """End it; the seconds until its last process was gone.

        Raises FleetError if any had to be killed.
        """
        begun = time.monotonic()
        processes = tree_of(self.pid) if self.process.poll() is None else []
        self.process.terminate()
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        _, left = psutil.wait_procs(processes, timeout=2)
        for process in left:
            process.kill()
        if left:
            names = ", ".join(str(process.pid) for process in left)
            raise FleetError(f"These processes outlived manage.py up: {names}.")
        return time.monotonic() - begun


@contextmanager
def flying(data: Path) -> Iterator[Fleet]:
    """A fleet on a free port of the loopback address, until the block ends."""
    process = subprocess.Popen(
        [sys.executable, "manage.py", "up", "--port=0"],
        cwd=ROOT,
        env=environment(data),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    fleet = Fleet(process, data)
    try:
        yield fleet
    finally:
        if process.poll() is None:
            fleet.stop()
