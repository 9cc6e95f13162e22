"""One fleet at a time on a data folder, and where the running one is found."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import Any


class AlreadyRunningError(Exception):
    """Another process runs the fleet of this data folder; says where."""


class Claim:
    """Held while the fleet runs; the kernel lets go of it with the process."""

    def __init__(self, descriptor: int, unclean: bool) -> None:
        self._descriptor = descriptor
        self.unclean = unclean

    def write(self, url: str) -> None:
        """Record where the dashboard of this process is."""
        record = json.dumps({"pid": os.getpid(), "url": url}).encode()
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, record, 0)

    def release(self) -> None:
        """End the claim; the emptied file tells that this was orderly."""
        os.ftruncate(self._descriptor, 0)
        os.close(self._descriptor)


def claim(data: Path) -> Claim:
    """Claim the data folder for this process.

    ``unclean`` of the result says that the former holder was killed. Raises
    AlreadyRunningError with one line, and OSError where the folder cannot be
    written.
    """
    data.mkdir(parents=True, exist_ok=True)
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
    descriptor = os.open(data / "up.lock", flags, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        found = _read(descriptor)
        os.close(descriptor)
        where = f" at {found['url']}" if found.get("url") else ""
        pid = f" (pid {found['pid']})" if found.get("pid") else ""
        raise AlreadyRunningError(
            f"This fleet is already running{where}{pid}: use that one, end it first, "
            "or set ZOEA_DATA to another folder."
        ) from None
    held = Claim(descriptor, unclean=bool(_read(descriptor)))
    held.write("")
    return held


def _read(descriptor: int) -> dict[str, Any]:
    try:
        found = json.loads(os.pread(descriptor, 4096, 0))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
