"""What can go wrong with the embedded server, in one line each."""

from __future__ import annotations

import errno
from pathlib import Path

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
