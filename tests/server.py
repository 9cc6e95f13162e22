"""A real web server on the test database, for real sockets and browsers."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from django.db import connection

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Server:
    """Where it listens, and its process."""

    port: int
    pid: int

    @property
    def origin(self) -> str:
        """What a browser on its pages sends as Origin."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def socket(self) -> str:
        """The same for WebSockets."""
        return f"ws://127.0.0.1:{self.port}"


def database_url() -> str:
    """The address of the database that this test uses, for another process."""
    known = connection.settings_dict
    host = quote(str(known["HOST"]), safe="")
    user = quote(str(known["USER"] or ""), safe="")
    word = quote(str(known["PASSWORD"] or ""), safe="")
    port = f":{known['PORT']}" if known["PORT"] else ""
    who = f"{user}:{word}@" if word else f"{user}@"
    return f"postgresql://{who}{host}{port}/{quote(str(known['NAME']), safe='')}"


@contextmanager
def running(
    *arguments: str,
    at: int = 0,
    application: str = "zoea.asgi:application",
    **environment: str,
) -> Iterator[Server]:
    """A Daphne in a process of its own, until the block ends; ``at`` is its port."""
    with socket.create_server(("127.0.0.1", at)) as listening:
        port: int = listening.getsockname()[1]
        number = listening.fileno()
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "daphne",
                "--websocket_timeout=-1",
                f"--fd={number}",
                *arguments,
                application,
            ],
            cwd=ROOT,
            env=os.environ | {"DATABASE_URL": database_url()} | environment,
            pass_fds=[number],
        )
    try:
        # The socket listens already, so this waits until somebody answers.
        with urllib.request.urlopen(
            f"http://127.0.0.1:{port}/healthz", timeout=60
        ) as answer:
            assert answer.status == 200
        yield Server(port, process.pid)
    finally:
        process.terminate()
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
