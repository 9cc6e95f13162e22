"""What programs wait for: summaries over REST, and events over the JSON socket.

It runs in a process of its own; see ``bench.processes``.
"""

from __future__ import annotations

import http.client
import json
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from django.utils import timezone

from agents import events
from agents.models import Account, Event, Mysis
from bench.figures import Figure, Step, percentile
from bench.payloads import TOOLS, Answers
from bench.processes import PYTHON, ROOT, Server, migrated_database, run_server
from memory.models import GameSnapshot, HistorySummary
from zoea.auth import create_token

#: By answer: its status, and the milliseconds of its 95th percentile.
SUMMARIES = {"whole": ("200", 30.0), "known": ("304", 10.0)}
REQUESTS = 150
SEED = 7
#: The 95th percentile of the lateness in milliseconds, by number of clients.
CLIENTS = {200: 50.0, 1_000: 250.0}
RATE = 20
SECONDS = 10
EVENTS = RATE * SECONDS
SOCKETS = [*PYTHON, "-m", "bench.sockets"]

Times = dict[str, float]
Found = Mapping[str, Any]


def measure(step: Step) -> list[Figure]:
    """All figures of summaries and sockets."""
    with migrated_database(step):
        prepare_mysis()
        token = create_token(name="bench", role="viewer")[1]
        with run_server("--verbosity=0") as server:
            step("Fetching summaries")
            figures = summary_figures(time_summaries(server, token))
            step("Sending events to many")
            for count in CLIENTS:
                url = f"{server.socket}/ws/v1/events?token={token}&after={read_newest_event()}"
                ours, bare = watch_events(url, count, _append_event), watch_bare(count)
                figures += socket_figures(count, ours, bare)
    return figures


# --- Summaries over REST


def prepare_mysis() -> None:
    """A Mysis with an account, fresh snapshots and a summary."""
    account = Account.objects.create(username="Measured")
    mysis = Mysis.objects.create(name="Measured", account=account)
    answers = Answers(SEED)
    now = timezone.now()
    for number, tool in enumerate(TOOLS):
        if not tool.startswith("get_"):
            continue
        text = answers.answer(tool, 100 + number)
        GameSnapshot.objects.create(
            username="Measured",
            tool_name=tool,
            content=text,
            merged="",
            game_tick=100 + number,
            captured_at=now - timedelta(seconds=number),
        )
    HistorySummary.objects.create(
        mysis=mysis,
        first_id=1,
        through_id=900,
        generation=1,
        text="Ada mined iron. " * 60,
        history_hash="",
    )


def time_summaries(server: Server, token: str) -> dict[str, Times]:
    """The whole answer, the one that is known already, and a route that does nothing."""
    web = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    bearer = {"Authorization": f"Bearer {token}"}
    path = "/api/v1/myses/Measured/summary"
    _, etag = fetch(web, path, bearer)
    known = bearer | {"If-None-Match": etag}
    found: dict[str, list[float]] = {"whole": [], "known": [], "nothing": []}
    for _ in range(REQUESTS):
        for name, place, headers, status in (
            ("whole", path, bearer, 200),
            ("known", path, known, 304),
            ("nothing", "/healthz", {}, 200),
        ):
            begun = time.perf_counter()
            got, etag = fetch(web, place, headers)
            found[name].append((time.perf_counter() - begun) * 1000)
            if got == 200 and name == "known":
                # The clock went on by a tick, and the state block with it.
                found[name].pop()
                known = bearer | {"If-None-Match": etag}
            elif got != status:
                raise RuntimeError(f"{place} answered {got}.")
    web.close()
    return {
        name: {
            "median": statistics.median(times),
            "p95": percentile(sorted(times), 0.95),
        }
        for name, times in found.items()
    }


def fetch(
    web: http.client.HTTPConnection, path: str, headers: dict[str, str]
) -> tuple[int, str]:
    """One request; the status and the ETag."""
    web.request("GET", path, headers=headers)
    answer = web.getresponse()
    body = answer.read()
    assert answer.status == 304 or json.loads(body)
    return answer.status, answer.headers.get("ETag", "")


def summary_figures(found: Mapping[str, Mapping[str, float]]) -> list[Figure]:
    """A figure for the whole answer, and for one that is known."""
    return [
        Figure(
            f"GET /myses/{{id}}/summary, {status}, p95",
            found[name]["p95"],
            "ms",
            baseline=found["nothing"]["p95"],
            baseline_is="GET /healthz of the same server",
            target=target,
            note=f"median {found[name]['median']:.1f} ms, "
            f"of the probe {found['nothing']['median']:.1f} ms",
        )
        for name, (status, target) in SUMMARIES.items()
    ]


# --- Events over the JSON socket


def watch_events(url: str, count: int, send: Callable[[int], None]) -> dict[str, Any]:
    """Open the clients, send at the rate, and read what they got."""
    with open_clients(url, count, EVENTS) as read_result:
        begun = time.monotonic()
        for number in range(EVENTS):
            time.sleep(max(0.0, begun + number / RATE - time.monotonic()))
            send(number)
        return read_result()


@contextmanager
def open_clients(
    url: str, count: int, number: int, *words: str
) -> Iterator[Callable[[], dict[str, Any]]]:
    """So many clients of ``bench.sockets``, each of which reads a number of events.

    What is yielded waits until they have, and gives what they say of it.
    """
    command = [*SOCKETS, "clients", url, str(count), str(number), *words]
    clients = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert clients.stdout is not None
    lines = clients.stdout

    def read_result() -> dict[str, Any]:
        found: dict[str, Any] = json.loads(lines.readline())
        return found

    try:
        if lines.readline() != "open\n":
            raise RuntimeError(f"{count} clients could not be opened.")
        yield read_result
    finally:
        clients.terminate()
        clients.wait()


def watch_bare(count: int) -> dict[str, Any]:
    """The same events from a bare server."""
    with run_bare_server() as (url, send):
        return watch_events(url, count, send)


@contextmanager
def run_bare_server() -> Iterator[tuple[str, Callable[..., None]]]:
    """The server of ``bench.sockets``: its address, and what sends numbered events."""
    process = subprocess.Popen(
        [*SOCKETS, "server"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    lines = process.stdin

    def send(*numbers: int) -> None:
        for number in numbers:
            item = {"id": number, "kind": "tool.called", "data": describe_event(number)}
            lines.write(f"{json.dumps(item)}\n")
        lines.flush()

    try:
        yield f"ws://127.0.0.1:{int(process.stdout.readline())}/", send
    finally:
        process.terminate()
        process.wait()


def _append_event(number: int) -> None:
    events.append(events.Kind.TOOL_CALLED, data=describe_event(number))


def read_newest_event() -> int:
    """The id of the newest event, 0 before the first."""
    row = Event.objects.order_by("-xid", "-pk").first()
    return row.pk if row else 0


def describe_event(number: int) -> dict[str, Any]:
    """The data of an event with this number, which says when it was sent."""
    return {
        "tool": "get_status",
        "arguments": {},
        "ok": True,
        "ms": 12,
        "n": number,
        "sent": time.time(),
    }


def socket_figures(count: int, ours: Found, bare: Found) -> list[Figure]:
    """How late events came to so many clients, and how many were lost or came twice."""
    late = [
        Figure(
            f"events to {count} clients, {what}",
            ours[what],
            "ms",
            baseline=bare[what],
            baseline_is="a bare websockets broadcast",
            target=CLIENTS[count] if what == "p95" else None,
        )
        for what in ("median", "p95")
    ]
    wrong = ours["lost"] + ours["twice"] + ours["disordered"]
    return [
        *late,
        Figure(f"events to {count} clients, lost or twice", wrong, "", target=1.0),
    ]
