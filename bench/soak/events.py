"""Very many events through one JSON stream: what waits in the log, and what comes live.

It runs in a process of its own; see ``bench.processes``.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from django.db import transaction

from agents import events
from bench.figures import Step
from bench.processes import measure_memory, migrated_database, run_server
from bench.surfaces import (
    describe_event,
    open_clients,
    read_newest_event,
    run_bare_server,
)
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
        begun = read_newest_event()
        write_events(number)
        step(f"Reading {number:,} events from the log")
        backlog = follow(f"{stream}{begun}", number)
        memory.append(_weigh(server.pid))
        step(f"Following {number:,} events live")
        live = follow(f"{stream}{read_newest_event()}", number, write_events)
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
                [
                    (events.Kind.TOOL_CALLED, None, describe_event(each))
                    for each in numbers
                ]
            )


def follow(
    url: str, count: int, write: Callable[[int], object] = lambda count: None
) -> dict[str, Any]:
    """Open a socket, write so many events, and read what came of them."""
    with open_clients(url, 1, count, str(SECONDS)) as read_result:
        write(count)
        return read_result()


def follow_bare(count: int) -> dict[str, Any]:
    """The same events from a bare server."""
    with run_bare_server() as (url, send):
        return follow(url, count, lambda count: send(*range(count)))


def _weigh(pid: int) -> int:
    return sum(process.pss for process in measure_memory([pid]))
