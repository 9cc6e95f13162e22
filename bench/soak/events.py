"""Very many events through one JSON stream: what waits in the log, and what comes live.

It runs in a process of its own; see ``bench.processes``.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from typing import Any

from django.db import transaction

from agents import events
from agents.models import Event
from bench.figures import Step
from bench.processes import ROOT, measure_memory, migrated_database, run_server
from bench.surfaces import SOCKETS, run_bare_server
from zoea.auth import create_token

#: So many events stand in one transaction, as several of a turn do.
BATCH = 100
#: What reads nothing more in this time is ended.
SECONDS = 900.0
REST_SECONDS = 5.0


def measure(step: Step, count: str) -> dict[str, Any]:
    """Events a second, what was lost, and the memory of the web process around it."""
    with migrated_database(step):
        return measure_here(step, int(count))


def measure_here(step: Step, number: int) -> dict[str, Any]:
    """The same of so many events in the database that there is."""
    token = create_token(name="soak", role="viewer")[1]
    with run_server("--verbosity=0") as server:
        step("Following one event")
        stream = f"{server.socket}/ws/v1/events?token={token}&after="
        # The first socket loads what all later ones need.
        follow(f"{stream}0", 1, write_events)
        memory = [_weigh(server.pid)]
        step(f"Writing {number:,} events")
        begun = read_newest()
        write_events(number)
        step(f"Reading {number:,} events from the log")
        backlog = follow(f"{stream}{begun}", number)
        memory.append(_weigh(server.pid))
        step(f"Following {number:,} events live")
        live = follow(f"{stream}{read_newest()}", number, write_events)
        memory.append(_weigh(server.pid))
        time.sleep(REST_SECONDS)
        memory.append(_weigh(server.pid))
    step(f"Following {number:,} events of a bare server")
    bare = follow_bare(number)
    return {
        "count": number,
        "backlog": backlog,
        "live": live,
        "bare": bare,
        "memory": dict(
            zip(("before", "backlog", "live", "after"), memory, strict=True)
        ),
    }


def write_events(count: int) -> None:
    """Append so many events, batch after batch."""
    for start in range(0, count, BATCH):
        numbers = range(start, min(start + BATCH, count))
        with transaction.atomic():
            events.append_all(
                [(events.Kind.TOOL_CALLED, None, _describe(each)) for each in numbers]
            )


def _describe(number: int) -> dict[str, Any]:
    return {
        "tool": "get_status",
        "arguments": {},
        "ok": True,
        "ms": 12,
        "n": number,
        "sent": time.time(),
    }


def read_newest() -> int:
    """The newest event."""
    return Event.objects.order_by("-xid", "-pk").values_list("pk", flat=True)[:1].get()


def follow(
    url: str, count: int, write: Callable[[int], object] = lambda count: None
) -> dict[str, Any]:
    """Open a socket, write so many events, and read what came of them."""
    words = [*SOCKETS, "clients", url, "1", str(count), str(SECONDS)]
    client = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert client.stdout is not None
        if client.stdout.readline() != "open\n":
            raise RuntimeError("The socket could not be opened.")
        write(count)
        found: dict[str, Any] = json.loads(client.stdout.readline())
    finally:
        client.terminate()
        client.wait()
    return found


def follow_bare(count: int) -> dict[str, Any]:
    """The same events from a bare server."""
    with run_bare_server() as server:
        assert server.stdin is not None
        assert server.stdout is not None
        lines, port = server.stdin, int(server.stdout.readline())

        def write(count: int) -> None:
            for number in range(count):
                item = {"id": number, "kind": "tool.called", "data": _describe(number)}
                lines.write(f"{json.dumps(item)}\n")
            lines.flush()

        return follow(f"ws://127.0.0.1:{port}/", count, write)


def _weigh(pid: int) -> int:
    return sum(process.pss for process in measure_memory([pid]))
