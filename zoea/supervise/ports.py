"""Listening sockets and free ports on the loopback address."""

from __future__ import annotations

import errno
import socket
import time
from pathlib import Path

HOST = "127.0.0.1"


class PortError(Exception):
    """The port cannot be had; one line with the remedy."""


def listen(port: int, patience: float = 0.0) -> socket.socket:
    """Return a socket that listens on the port (0: any free one).

    Whoever holds the socket owns the port, also while the process that answers
    on it is started again. ``patience`` is for a port whose former owner is
    just ending. Raises PortError.
    """
    until = time.monotonic() + patience
    while True:
        found = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            found.bind((HOST, port))
            found.listen(128)
        except OSError as error:
            found.close()
            if error.errno == errno.EADDRINUSE and time.monotonic() < until:
                time.sleep(0.1)
                continue
            raise _refusal(port, error) from error
        return found


def remembered_port(record: Path) -> int:
    """Return the port of the last run if it is free, else another, and keep it."""
    for port in (_read(record), 0):
        if port is None:
            continue
        try:
            with listen(port) as found:
                port = int(found.getsockname()[1])
        except PortError:
            continue
        record.write_text(f"{port}\n")
        return port
    raise PortError("No free port on 127.0.0.1: end some other servers first.")


def _refusal(port: int, error: OSError) -> PortError:
    if error.errno == errno.EADDRINUSE:
        return PortError(
            f"Port {port} is taken by another program: end that one, or choose "
            "another port with --port."
        )
    if error.errno == errno.EACCES:
        return PortError(
            f"Port {port} is reserved for root: choose one from 1024 on with --port."
        )
    return PortError(f"Port {port} cannot be used: {error.strerror}.")


def _read(record: Path) -> int | None:
    try:
        port = int(record.read_text())
    except (OSError, ValueError):
        return None
    return port if 0 < port < 65_536 else None
