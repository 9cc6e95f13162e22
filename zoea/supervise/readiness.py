"""Waiting until a server answers."""

from __future__ import annotations

import asyncio
import http.client
from contextlib import suppress

_POLL = 0.1


async def answers(host: str, port: int, path: str, wanted: int | None = 200) -> None:
    """Return when a GET of ``path`` is answered with the wanted status.

    Without ``wanted`` any answer will do. Bound the wait from outside.
    """
    while True:
        status = await asyncio.to_thread(_status, host, port, path)
        if status is not None and wanted in (None, status):
            return
        await asyncio.sleep(_POLL)


def _status(host: str, port: int, path: str) -> int | None:
    connection = http.client.HTTPConnection(host, port, timeout=2)
    with suppress(OSError, http.client.HTTPException):
        try:
            connection.request("GET", path)
            return connection.getresponse().status
        finally:
            connection.close()
    return None
