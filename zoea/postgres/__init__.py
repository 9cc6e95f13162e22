"""The embedded PostgreSQL: a real server in the data folder, shared by its users.

Importing this starts nothing. Whoever needs the database (``manage.py``, the tests)
calls :func:`acquire`; the last user to release stops the server.

Every user holds a shared lock on one file, so the kernel counts them, and a process that
is killed stops counting at once. Starting and stopping happen under a second, exclusive
lock: a newcomer waits until a stop has finished, and two newcomers start one server.
"""

from __future__ import annotations

import atexit
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg

from zoea.files import ensure_private_folder
from zoea.postgres.cluster import Cluster
from zoea.postgres.process import DATABASE as DATABASE
from zoea.postgres.process import USER as USER
from zoea.postgres.process import PostgresError as PostgresError
from zoea.postgres.process import data_directory as data_directory
from zoea.postgres.process import from_os_error
from zoea.postgres.process import socket_directory as socket_directory

STOP_SECONDS = 20.0


class EmbeddedPostgres(Cluster):
    """One use of the embedded server; it ends with :meth:`release` or the process."""

    def __init__(self, data: Path) -> None:
        super().__init__(data)
        self._owner = os.getpid()
        self._use: int | None = None

    @property
    def pid(self) -> int | None:
        """The server's process id; None while it does not run."""
        found = self.running()
        return None if found is None else found.pid

    def ensure_running(self) -> None:
        """Start the server again if it has died; raises PostgresError."""
        with _starting(self.data):
            super().ensure_running()

    def checkpoint(self) -> None:
        """Write everything to the data files, so that a stop soon after is fast.

        Does nothing where the server does not answer.
        """
        with (
            suppress(psycopg.Error),
            psycopg.connect(self.conninfo(), autocommit=True) as database,
        ):
            database.execute("CHECKPOINT")

    def release(self, stop_seconds: float = STOP_SECONDS) -> None:
        """End this use; the last one stops the server, by force after ``stop_seconds``."""
        if self._use is None or self._owner != os.getpid():
            return
        use, self._use = self._use, None
        atexit.unregister(self.release)
        try:
            with _starting(self.data):
                if _is_last(use):
                    self.stop(stop_seconds)
        finally:
            os.close(use)

    def _begin(self) -> None:
        with _starting(self.data):
            use = _open(self.data / "postgres.lock")
            try:
                fcntl.flock(use, fcntl.LOCK_SH)
                super().ensure_running()
            except BaseException:
                if _is_last(use):
                    self.stop(STOP_SECONDS)
                os.close(use)
                raise
        self._use = use
        atexit.register(self.release)

    def __enter__(self) -> EmbeddedPostgres:
        return self

    def __exit__(self, *error: object) -> None:
        self.release()


def acquire(data: Path) -> EmbeddedPostgres:
    """Start the embedded server of this data folder, or join its users.

    It then takes connections, and its database exists. Raises PostgresError.
    """
    server = EmbeddedPostgres(data)
    server._begin()
    return server


@contextmanager
def _starting(data: Path) -> Iterator[None]:
    """Hold the lock under which the server starts and stops."""
    descriptor = _open(data / "postgres.start.lock")
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _open(path: Path) -> int:
    # Not inherited by child processes, which would keep the lock.
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
    try:
        ensure_private_folder(path.parent)
        return os.open(path, flags, 0o600)
    except OSError as error:
        raise from_os_error(error, path.parent) from error


def _is_last(use: int) -> bool:
    with suppress(BlockingIOError):
        fcntl.flock(use, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False
