"""A backup of the whole database in one file, and its restoration into an empty one.

By PostgreSQL's own programs of the embedded server's package, which are there also where
another server is used.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from django.conf import settings
from django.db import connection, connections
from psycopg.conninfo import make_conninfo

from agents.models import Fence
from zoea.files import FILE_MODE
from zoea.postgres.cluster import Cluster

# What Django tells psycopg beside what the server's own programs know.
NOT_LIBPQ = ("pool", "cursor_factory", "context", "prepare_threshold", "password")


class BackupError(Exception):
    """A backup or restoration that was not done; one line with the reason."""


def write_backup(file: Path) -> int:
    """Write the database into a new file; returns its size in bytes.

    It is as of one moment, also while a fleet flies. Raises BackupError.
    """
    try:
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE))
    except OSError as error:
        raise BackupError(f"{file} cannot be made: {error.strerror}.") from error
    try:
        _run("pg_dump", "--format=custom", "--no-owner", f"--file={file}")
    except BaseException:
        file.unlink()
        raise
    return file.stat().st_size


def restore_backup(file: Path) -> None:
    """Bring a backup into the database, which must be empty; all of it or nothing.

    Raises BackupError.
    """
    if not file.is_file():
        raise BackupError(f"There is no file {file}.")
    if connection.introspection.table_names():
        raise BackupError(
            "The database is not empty, and nothing in it is written over: restore "
            "into a new data folder (ZOEA_DATA) or a new database (DATABASE_URL)."
        )
    _run("pg_restore", "--no-owner", "--single-transaction", str(file))
    if Fence._meta.db_table in connection.introspection.table_names():
        # Elsewhere the local game is another one; whoever starts first says which.
        Fence.objects.update(game="")


def _run(program: str, *options: str) -> None:
    parameters = connections["default"].get_connection_params()
    known = {k: v for k, v in parameters.items() if k not in NOT_LIBPQ}
    path = Cluster(settings.ZOEA_DATA).programs / program
    # Of what is in the command line everybody may read, of the environment nobody.
    word = {"PGPASSWORD": str(parameters.get("password") or "")}
    ended = subprocess.run(  # noqa: S603 - PostgreSQL's program, no shell
        [str(path), *options, f"--dbname={make_conninfo(**known)}"],
        env={**os.environ, **word},
        capture_output=True,
        text=True,
        check=False,
    )
    if ended.returncode:
        said = [line for line in ended.stderr.splitlines() if "error:" in line]
        reason = (said or ended.stderr.splitlines() or ["no reason was given"])[0]
        raise BackupError(
            f"{program} failed: {reason.partition('error: ')[2] or reason}"
        )
