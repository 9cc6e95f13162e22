"""The running server, as its ``postmaster.pid`` tells."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

FILE = "postmaster.pid"
_POLL = 0.02


@dataclass(frozen=True)
class Postmaster:
    """A running server process, the folder of its socket and what it says it does."""

    process: psutil.Process
    sockets: Path | None
    status: str

    @property
    def pid(self) -> int:
        return int(self.process.pid)

    def is_running(self) -> bool:
        """Tell whether it still runs; a zombie does not."""
        try:
            return bool(
                self.process.is_running()
                and self.process.status() != psutil.STATUS_ZOMBIE
            )
        except psutil.NoSuchProcess:
            return False

    def stop(self, timeout: float) -> None:
        """Stop it: clients are disconnected, running statements rolled back.

        After ``timeout`` seconds it is told to leave at once (the next start
        then recovers from the write-ahead log), and at last is killed.
        """
        for number, patience in (
            (signal.SIGINT, timeout),
            (signal.SIGQUIT, 1.0),
            (signal.SIGKILL, 1.0),
        ):
            try:
                self.process.send_signal(number)
            except psutil.NoSuchProcess:
                return
            if self.wait_until_gone(patience):
                return

    def wait_until_gone(self, timeout: float) -> bool:
        """Wait until it has ended, and return whether it has."""
        until = time.monotonic() + timeout
        while self.is_running():
            if time.monotonic() > until:
                return False
            time.sleep(_POLL)
        return True


def find(folder: Path) -> Postmaster | None:
    """Return the server that runs on the data in ``folder``, if one does.

    A pid file that was left by a crash may name a pid that now belongs to some
    other program; only a server started on this very folder counts.
    """
    lines = _read(folder)
    if not lines or not lines[0].strip().isdigit():
        return None
    try:
        process = psutil.Process(int(lines[0]))
        ours = _is_server_of(process, folder)
    except psutil.Error:
        return None
    if not ours:
        return None
    lines += [""] * (8 - len(lines))
    sockets, status = lines[4].strip(), lines[7].strip()
    return Postmaster(process, Path(sockets) if sockets else None, status)


def end_orphans(folder: Path, timeout: float) -> list[int]:
    """End what a server that was killed has left at work; the pids that stay.

    Such a process finds out only at its next wait, and until then it writes to the
    data: what it commits beside a new server is lost, and more with it.
    """
    until = time.monotonic() + timeout
    for process in _at_work_in(folder):
        with suppress(psutil.NoSuchProcess):
            # At once, as the server itself would have told it.
            process.send_signal(signal.SIGQUIT)
    while left := _at_work_in(folder):
        if time.monotonic() > until:
            return [process.pid for process in left]
        time.sleep(_POLL)
    return []


def _at_work_in(folder: Path) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        # One that has ended, or whose place nobody may know, is none of ours.
        with suppress(psutil.Error):
            if process.name() == "postgres" and Path(process.cwd()) == folder:
                found.append(process)
    return found


def remove_stale_file(folder: Path) -> None:
    """Take out of the pid file what is no server: another program's pid, or nothing.

    Also that of a killed server whose parent has not asked for its end. Our own stands
    there instead, which the server passes over as its parent's: it still finds by the
    rest of the file what the former one left at work, if we did not (:func:`end_orphans`).
    """
    pid, *rest = _read(folder) or [""]
    if not pid.strip().isdigit():
        (folder / FILE).unlink(missing_ok=True)
    elif psutil.pid_exists(int(pid)):
        (folder / FILE).write_text("\n".join([str(os.getpid()), *rest]) + "\n")


def remove_stale_socket(sockets: Path, port: int, folder: Path) -> None:
    """Remove the socket's lock where it names anything but a server of ``folder``.

    The server takes any living pid for its own: that of another program that got it
    meanwhile, and that of a killed server whose parent has not asked for its end yet.
    """
    lock = sockets / f".s.PGSQL.{port}.lock"
    try:
        pid = lock.read_text(errors="replace").partition("\n")[0].strip()
        ours = pid.isdigit() and _is_server_of(psutil.Process(int(pid)), folder)
    except FileNotFoundError:
        return
    except psutil.Error:
        ours = False
    if not ours:
        lock.unlink(missing_ok=True)


def _is_server_of(process: psutil.Process, folder: Path) -> bool:
    words = process.cmdline()
    if not words or Path(words[0]).name != "postgres":
        return False
    try:
        # A server works in its data folder, also after that was renamed.
        return Path(process.cwd()) == folder
    except psutil.AccessDenied:
        return str(folder) in words


def _read(folder: Path) -> list[str]:
    try:
        return (folder / FILE).read_text(errors="replace").splitlines()
    except FileNotFoundError:
        return []
