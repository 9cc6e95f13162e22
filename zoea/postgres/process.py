"""The server's process, its system account, its folders, and its errors.

PostgreSQL refuses to run as root. As root the server therefore runs as the owner of its
data, at first a system account made for it.
"""

from __future__ import annotations

import errno
import hashlib
import os
import pwd
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

PID_FILE = "postmaster.pid"
_POLL = 0.02

NO_SPACE = "No space left on device"

SYSTEM_USER = "pgserver"

DATABASE = "zoea"
USER = "postgres"
PORT = 5432

# Bytes that fit in sockaddr_un.sun_path, less the closing NUL.
_SOCKET_PATH_LIMIT = 107 if sys.platform.startswith("linux") else 103


class PostgresError(Exception):
    """The embedded server cannot be used; one line with the remedy."""


def from_os_error(error: OSError, path: Path) -> PostgresError:
    """The error for a file or folder of the server that cannot be used."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return no_space_error(path)
    return PostgresError(
        f"The data folder {path} cannot be used ({error.strerror or error}): "
        "make it writable for this user, or set ZOEA_DATA to another folder."
    )


def no_space_error(path: Path) -> PostgresError:
    return PostgresError(
        f"No disk space left for the database in {path}: free some space, or "
        "set ZOEA_DATA to a folder on another disk."
    )


def not_started_error(said: str, log: Path, data: Path) -> PostgresError:
    """The error for a server that ended while it started; ``said`` is its last line."""
    if NO_SPACE in said:
        return no_space_error(data)
    return PostgresError(
        f"PostgreSQL did not start: {said or 'it wrote nothing'} (log: {log})."
    )


def data_directory(data: Path) -> Path:
    """The server's own folder inside the data folder."""
    return Path(data).expanduser().resolve() / "postgres"


def socket_directory(data: Path) -> Path:
    """The folder of the server's socket; creates nothing.

    It is the server's own folder; where that path is too long for a Unix socket, or
    holds a separator of libpq, a short folder named by a hash of the path. So all users
    of one data folder find the same server.
    """
    own = data_directory(data)
    name = str(own / f".s.PGSQL.{PORT}")
    fits = len(os.fsencode(name)) <= _SOCKET_PATH_LIMIT
    if fits and not set(name) & set(',"\\\n'):
        return own
    digest = hashlib.sha256(os.fsencode(own)).hexdigest()[:16]
    # Not TMPDIR first: it may differ between users of one data folder.
    common = Path("/tmp")  # noqa: S108 - private folders of its own are made in it
    folder = common if common.is_dir() else Path(tempfile.gettempdir())
    return folder / f"zoea-{digest}"


@dataclass(frozen=True)
class Postmaster:
    """A running server process, the folder of its socket, and the status in its pid file."""

    process: psutil.Process
    sockets: Path | None
    status: str

    @property
    def pid(self) -> int:
        return int(self.process.pid)

    def is_running(self) -> bool:
        """Whether it still runs; a zombie does not."""
        with suppress(psutil.NoSuchProcess):
            running = self.process.is_running()
            return bool(running and self.process.status() != psutil.STATUS_ZOMBIE)
        return False

    def stop(self, timeout: float) -> None:
        """Stop it: clients are disconnected, running statements rolled back.

        After ``timeout`` seconds it has to stop at once (the next start then recovers
        from the write-ahead log), and at last it is killed.
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
        """Wait up to ``timeout`` seconds until it has ended; returns whether it has."""
        until = time.monotonic() + timeout
        while self.is_running():
            if time.monotonic() > until:
                return False
            time.sleep(_POLL)
        return True


def find_server(folder: Path) -> Postmaster | None:
    """The server that runs on the data in ``folder``, or None.

    After a crash the pid file may name another program's pid: only a server started on
    this folder counts.
    """
    lines = _read_pid_file(folder)
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
    """End the children of a server that was killed; returns the pids that remain.

    Such a process notices only at its next wait. Until then it writes to the data, and
    beside a new server that loses data.
    """
    until = time.monotonic() + timeout
    told = set[int]()
    while left := _processes_in(folder):
        if time.monotonic() > until:
            return [process.pid for process in left]
        for process in left:
            if process.pid not in told:
                told.add(process.pid)
                with suppress(psutil.NoSuchProcess):
                    # The signal that the server itself would have sent.
                    process.send_signal(signal.SIGQUIT)
        time.sleep(_POLL)
    return []


def _processes_in(folder: Path) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        # One that has ended, or whose folder is hidden from us, is none of ours.
        with suppress(psutil.Error):
            if process.name() == "postgres" and Path(process.cwd()) == folder:
                found.append(process)
    return found


def remove_stale_file(folder: Path) -> None:
    """Remove a pid file without a pid, and replace a pid that is not our server's.

    That is another program's, or that of a killed server whose parent has not reaped it.
    Our own pid takes its place, which the server ignores as its parent's: by the rest of
    the file it still finds what the former server left running.
    """
    pid, *rest = _read_pid_file(folder) or [""]
    if not pid.strip().isdigit():
        (folder / PID_FILE).unlink(missing_ok=True)
    elif psutil.pid_exists(int(pid)):
        (folder / PID_FILE).write_text("\n".join([str(os.getpid()), *rest]) + "\n")


def remove_stale_socket(sockets: Path, folder: Path) -> None:
    """Remove the socket's lock unless it names a server of ``folder``.

    The server would take any living pid for another server's: also that of another
    program, and that of a killed server whose parent has not reaped it.
    """
    lock = sockets / f".s.PGSQL.{PORT}.lock"
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
        # A server's working directory is its data folder, also after a rename.
        return Path(process.cwd()) == folder
    except psutil.AccessDenied:
        return str(folder) in words


def _read_pid_file(folder: Path) -> list[str]:
    with suppress(FileNotFoundError):
        return (folder / PID_FILE).read_text(errors="replace").splitlines()
    return []


@dataclass(frozen=True)
class SystemAccount:
    """The user and group of the server; ``switch``: they are not those of this process."""

    uid: int
    gid: int
    switch: bool

    def subprocess_options(self) -> dict[str, Any]:
        """The options with which :mod:`subprocess` runs a program as this account."""
        if not self.switch:
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}

    def own(self, path: Path) -> None:
        """Give the folder and all in it to this account, closed to others."""
        path.chmod(0o700)
        if not self.switch:
            return
        os.chown(path, self.uid, self.gid)
        for root, folders, files in os.walk(path):
            for name in (*folders, *files):
                os.chown(Path(root) / name, self.uid, self.gid, follow_symlinks=False)

    def let_through(self, path: Path) -> None:
        """Let this account pass (not list) the folders above ``path``."""
        if not self.switch:
            return
        for folder in path.parents:
            found = folder.stat()
            if found.st_uid == self.uid or found.st_mode & stat.S_IXOTH:
                continue
            folder.chmod(stat.S_IMODE(found.st_mode) | stat.S_IXOTH)


def choose_account(folder: Path) -> SystemAccount:
    """The account that the server of the data in ``folder`` runs as."""
    if os.geteuid() != 0:
        return SystemAccount(os.geteuid(), os.getegid(), switch=False)
    if folder.exists() and (found := folder.stat()).st_uid != 0:
        return SystemAccount(found.st_uid, found.st_gid, switch=True)
    entry = _get_system_user()
    return SystemAccount(entry.pw_uid, entry.pw_gid, switch=True)


def ensure_programs_reachable(programs: Path, account: SystemAccount) -> None:
    """Let the account run the server's programs; raises PostgresError where it cannot."""
    if not account.switch or _can_run(programs, account):
        return
    account.let_through(programs / "postgres")
    for path in (programs.parent, *programs.parent.rglob("*")):
        if not path.is_symlink():
            mode = stat.S_IMODE(path.stat().st_mode)
            path.chmod(mode | (mode & 0o500) >> 3 | (mode & 0o500) >> 6)
    if not _can_run(programs, account):
        raise PostgresError(
            f"The system user number {account.uid} cannot run {programs}/postgres:"
            " install Zoea in a folder that other users may enter, or run it as "
            "an ordinary user."
        )


def _can_run(programs: Path, account: SystemAccount) -> bool:
    try:
        subprocess.run(  # noqa: S603 - fixed words, no shell
            [programs / "postgres", "--version"],
            check=True,
            capture_output=True,
            cwd="/",
            **account.subprocess_options(),
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return True


def _get_system_user() -> pwd.struct_passwd:
    if entry := _find_user(SYSTEM_USER):
        return entry
    program = shutil.which("useradd", path="/usr/sbin:/sbin:/usr/bin:/bin")
    if program:
        # Another process may be making it too, so only the entry counts.
        subprocess.run(  # noqa: S603 - fixed words, no shell
            [
                program,
                "--system",
                "--no-create-home",
                "--home-dir=/",
                "--shell=/usr/sbin/nologin",
                SYSTEM_USER,
            ],
            check=False,
            capture_output=True,
        )
    if entry := _find_user(SYSTEM_USER) or _find_user("postgres"):
        return entry
    raise PostgresError(
        "PostgreSQL does not run as root, and the system user "
        f"{SYSTEM_USER} could not be made: make it, or run Zoea as an ordinary user."
    )


def _find_user(name: str) -> pwd.struct_passwd | None:
    with suppress(KeyError):
        return pwd.getpwnam(name)
    return None
