"""Events to many clients at once, from the log and from a bare broadcast."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from bench.surroundings import ROOT
from tests.server import Server

RATE = 20
SECONDS = 10
EVENTS = RATE * SECONDS
COUNTS = (200, 1_000)
PYTHON = [sys.executable, "-W", "ignore", "-m"]


def sockets(server: Server, token: str) -> dict[str, dict[str, Any]]:
    """What so many clients got, and how late, of the program and of the baseline."""
    found: dict[str, dict[str, Any]] = {}
    for count in COUNTS:
        url = f"{server.socket}/ws/v1/events?token={token}&after={newest()}"
        found[f"{count} clients"] = {
            "ours": watched(url, count, append),
            "bare": bare(count),
        }
    return found


def watched(url: str, count: int, send: Callable[[int], None]) -> dict[str, Any]:
    """Open the clients, send at the rate, and read what they got."""
    words = [*PYTHON, "bench.surfaces.clients", url, str(count), str(EVENTS)]
    clients = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert clients.stdout is not None
        if clients.stdout.readline() != "open\n":
            raise RuntimeError(f"{count} clients could not be opened.")
        begun = time.monotonic()
        for number in range(EVENTS):
            time.sleep(max(0.0, begun + number / RATE - time.monotonic()))
            send(number)
        said = clients.stdout.readline()
    finally:
        clients.terminate()
        clients.wait()
    result: dict[str, Any] = json.loads(said)
    return result


def bare(count: int) -> dict[str, Any]:
    """The same of a bare server."""
    with broadcaster() as server:
        assert server.stdin is not None
        assert server.stdout is not None
        lines = server.stdin
        port = int(server.stdout.readline())

        def send(number: int) -> None:
            item = {"id": number, "kind": "tool.called", "data": body(number)}
            lines.write(json.dumps(item) + "\n")
            lines.flush()

        return watched(f"ws://127.0.0.1:{port}/", count, send)


@contextmanager
def broadcaster() -> Iterator[subprocess.Popen[str]]:
    """The bare server, until the block ends."""
    process = subprocess.Popen(
        [*PYTHON, "bench.surfaces.broadcasting"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def append(number: int) -> None:
    """One event into the log, as a tool call writes it."""
    from agents import events

    events.append(events.Kind.TOOL_CALLED, data=body(number))


def newest() -> int:
    """The event that the clients have seen already."""
    from agents.models import Event

    row = Event.objects.order_by("-xid", "-pk").first()
    return row.pk if row else 0


def body(number: int) -> dict[str, Any]:
    """What an event tells."""
    return {
        "tool": "get_status",
        "arguments": {},
        "ok": True,
        "ms": 12,
        "n": number,
        "sent": time.time(),
    }
