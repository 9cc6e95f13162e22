"""The running server, as its ``postmaster.pid`` tells."""

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
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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


# SECTION What can go wrong with the embedded server, in one line each.

NO_SPACE = "No space left on device"


class PostgresError(Exception):
    """The embedded server cannot be used; says what is wrong and what to do."""


def from_os_error(error: OSError, path: Path) -> PostgresError:
    """Say in one line why a file or folder of the server cannot be used."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return no_space(path)
    return PostgresError(
        f"The data folder {path} cannot be used ({error.strerror or error}): "
        "make it writable for this user, or set ZOEA_DATA to another folder."
    )


def no_space(path: Path) -> PostgresError:
    """No room where the data lives."""
    return PostgresError(
        f"No disk space left for the database in {path}: free some space, or "
        "set ZOEA_DATA to a folder on another disk."
    )


def not_started(said: str, log: Path, data: Path) -> PostgresError:
    """The server ended while starting; ``said`` is the last thing it wrote."""
    if NO_SPACE in said:
        return no_space(data)
    return PostgresError(
        f"PostgreSQL did not start: {said or 'it wrote nothing'} (log: {log})."
    )


# SECTION The system account that the server runs as, and what it may reach.
#
# PostgreSQL refuses to run as root. As root the server therefore runs as the
# owner of its data, at first a system account made for it.

SYSTEM_USER = "pgserver"


@dataclass(frozen=True)
class Account:
    """User and group of the server; ``switch`` says whether they are not ours."""

    uid: int
    gid: int
    switch: bool

    def subprocess_options(self) -> dict[str, Any]:
        """Return what makes :mod:`subprocess` run a program as this account."""
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


def account_for(folder: Path) -> Account:
    """Return the account that the server of the data in ``folder`` runs as."""
    if os.geteuid() != 0:
        return Account(os.geteuid(), os.getegid(), switch=False)
    if folder.exists() and (found := folder.stat()).st_uid != 0:
        return Account(found.st_uid, found.st_gid, switch=True)
    entry = _system_user()
    return Account(entry.pw_uid, entry.pw_gid, switch=True)


def ensure_programs_reachable(programs: Path, account: Account) -> None:
    """Make sure that the account can run the server's programs."""
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


def _can_run(programs: Path, account: Account) -> bool:
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


def _system_user() -> pwd.struct_passwd:
    for entry in _known(SYSTEM_USER):
        return entry
    program = shutil.which("useradd", path="/usr/sbin:/sbin:/usr/bin:/bin")
    if program:
        # Another process may be making it at this moment: only the entry counts.
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
    for entry in (*_known(SYSTEM_USER), *_known("postgres")):
        return entry
    raise PostgresError(
        "PostgreSQL does not run as root, and the system user "
        f"{SYSTEM_USER} could not be made: make it, or run Zoea as an ordinary user."
    )


def _known(name: str) -> Iterator[pwd.struct_passwd]:
    try:
        yield pwd.getpwnam(name)
    except KeyError:
        return


# SECTION Where the embedded server keeps its data, and where clients reach it.

DATABASE = "zoea"
USER = "postgres"
PORT = 5432
SOCKET = f".s.PGSQL.{PORT}"

# Bytes that fit in sockaddr_un.sun_path, less the closing NUL.
_SOCKET_PATH_LIMIT = 107 if sys.platform.startswith("linux") else 103


def data_directory(data: Path) -> Path:
    """Return the server's own folder inside the data folder."""
    return Path(data).expanduser().resolve() / "postgres"


def socket_directory(data: Path) -> Path:
    """Return the folder of the server's socket; starts and creates nothing.

    It is the server's own folder, or, where that path is too long for a Unix
    socket or holds a sign that libpq takes for a separator, a short folder
    named by a hash of it. The name depends on the path alone, so that all
    users of one data folder find the same server.
    """
    own = data_directory(data)
    if _is_usable(own):
        return own
    digest = hashlib.sha256(os.fsencode(own)).hexdigest()[:16]
    return _temporary() / f"zoea-{digest}"


def _is_usable(folder: Path) -> bool:
    name = str(folder / SOCKET)
    fits = len(os.fsencode(name)) <= _SOCKET_PATH_LIMIT
    return fits and not set(name) & set(',"\\\n')


def _temporary() -> Path:
    # Not TMPDIR first: two users of one data folder may differ in it.
    common = Path("/tmp")  # noqa: S108 - private folders of its own are made in it
    return common if common.is_dir() else Path(tempfile.gettempdir())
