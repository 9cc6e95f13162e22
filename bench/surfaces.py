"""What programs wait for: summaries over REST, and events over the JSON socket."""

from __future__ import annotations

import argparse
import http.client
import json
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from agents import events
from agents.models import Event, Mysis
from bench.figures import (
    Figure,
    Found,
    Step,
    describe_counts,
    describe_times,
    find_figures,
)
from bench.fleet import summarise
from bench.pages import scenes
from bench.processes import Server, migrated_database, run_server
from bench.sockets import Program, open_clients, run_bare_server
from zoea.auth import create_token

#: By answer: its status, and the milliseconds that its median is to stay below.
SUMMARIES = {"whole": ("200", 6.0), "known": ("304", 4.0)}
REQUESTS = 150
#: The 95th percentile of the lateness in milliseconds, for up to so many clients.
LATE_TARGETS = {200: 50.0, 1_000: 250.0}
CLIENTS = "200,1000"
RATE, SECONDS = 20, 10
#: What reads nothing more in this time is not waited for.
PATIENCE = 120.0

Write = Callable[[int], int]
"""Sends the event of this number; its id."""


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--clients", default=CLIENTS, metavar="N,N")
    parser.add_argument(
        "--seconds", type=int, default=SECONDS, help="of events to many"
    )


def measure(options: argparse.Namespace, step: Step) -> Found:
    with migrated_database(step):
        prepare_mysis()
        token = create_token(name="bench", role="viewer")[1]
        with run_server("--verbosity=0") as server:
            stream = f"{server.socket}/ws/v1/events?token={token}&after="
            step("Fetching summaries")
            figures = summary_figures(time_summaries(server, token))
            for count in map(int, options.clients.split(",")):
                step(f"Sending events to {count:,} clients")
                figures += measure_many(stream, count, options.seconds * RATE)
    return find_figures("REST and sockets", figures, "surfaces")


# --- Summaries over REST


def prepare_mysis() -> None:
    """A Mysis with an account, snapshots, a conversation and a summary."""
    mysis = Mysis.objects.create(name="Measured")
    scenes.add_account(mysis)
    scenes.add_conversation(mysis)
    summarise(mysis.pk, 0)


def time_summaries(server: Server, token: str) -> dict[str, list[float]]:
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
    return found


def fetch(
    web: http.client.HTTPConnection, path: str, headers: dict[str, str]
) -> tuple[int, str]:
    web.request("GET", path, headers=headers)
    answer = web.getresponse()
    body = answer.read()
    assert answer.status == 304 or json.loads(body)
    return answer.status, answer.headers.get("ETag", "")


def summary_figures(found: Mapping[str, list[float]]) -> list[Figure]:
    """A figure for the whole answer, and for one that is known."""
    times = {name: describe_times(each) for name, each in found.items()}
    probe = times["nothing"]
    return [
        Figure(
            f"GET /myses/{{id}}/summary, {status}, median",
            times[name]["p50"],
            "ms",
            baseline=probe["p50"],
            baseline_is="GET /healthz of the same server",
            target=target,
            note=f"p95 {times[name]['p95']:.1f} ms, of the probe {probe['p95']:.1f} ms",
        )
        for name, (status, target) in SUMMARIES.items()
    ]


# --- Events to many clients, a few each second


def measure_many(stream: str, count: int, number: int) -> list[Figure]:
    """How late events come to so many clients, and whether all came once."""
    after = read_newest_event()
    ours = follow(f"{stream}{after}", count, after, _slowly(append_event, number))
    with run_bare_server() as (url, server):
        bare = follow(url, count, 0, _slowly(_tell(server), number))
    late, plain = (describe_counts(each["late"]) for each in (ours, bare))
    target = next((ms for most, ms in LATE_TARGETS.items() if count <= most), None)
    wrong = ours["missing"] + ours["twice"]
    return [
        *(
            Figure(
                f"events to {count:,} clients, {what}",
                late[what],
                "ms",
                baseline=plain[what],
                baseline_is="a bare websockets broadcast",
                target=target if what == "p95" else None,
            )
            for what in ("p50", "p95")
        ),
        Figure(f"events to {count:,} clients, lost or twice", wrong, "", target=1.0),
    ]


def follow(
    url: str, count: int, after: int, write: Callable[[], list[int]]
) -> dict[str, Any]:
    """Open so many sockets, write events, and read what came of them."""
    plan = {"streams": [url] * count, "after": after, "patience": PATIENCE}
    with open_clients(plan) as clients:
        clients.begin()
        return clients.end(write())


def append_event(number: int) -> int:
    """Append an event of the log; its id."""
    events.append(events.Kind.TOOL_CALLED, data=describe_event(number))
    return read_newest_event()


def read_newest_event() -> int:
    """The id of the newest event, 0 before the first."""
    row = Event.objects.order_by("-pk").first()
    return row.pk if row else 0


def describe_event(number: int) -> dict[str, Any]:
    return {"tool": "get_status", "arguments": {}, "ok": True, "ms": 12, "n": number}


def _tell(server: Program) -> Write:
    def tell(number: int) -> int:
        at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        data = json.dumps(describe_event(number))
        event = f'{{"id":{number + 1},"kind":"tool.called","at":"{at}","data":{data}}}'
        server.write(event)
        return number + 1

    return tell


def _slowly(write: Write, number: int) -> Callable[[], list[int]]:
    """Write event after event, so many a second."""

    def send() -> list[int]:
        begun, ids = time.monotonic(), list[int]()
        for each in range(number):
            time.sleep(max(0.0, begun + each / RATE - time.monotonic()))
            ids.append(write(each))
        return ids

    return send
