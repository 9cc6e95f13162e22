"""Where the embedded server keeps its data, and where clients reach it."""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from pathlib import Path

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
