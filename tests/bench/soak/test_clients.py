"""Which events came to open sockets, and when a socket was lost."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from websockets.asyncio.server import ServerConnection, serve

from bench.soak.clients import Clients, Seen, Stream

NEWEST = 50_000


def write_event(number: int, ago: timedelta = timedelta(0)) -> str:
    """An event as the program sends it."""
    at = (datetime.now(UTC) - ago).isoformat(timespec="milliseconds")
    item = {"id": number, "kind": "tool.called", "at": at.replace("+00:00", "Z")}
    return json.dumps(item, separators=(",", ":"))


def test_missing_and_repeated_events_are_counted() -> None:
    wanted, seen = Seen(NEWEST), Seen(NEWEST)
    for number in (NEWEST - 3, NEWEST + 1, NEWEST + 2, NEWEST + 400):
        wanted.add(number)
    assert seen.count_missing(wanted) == 4
    for number in (NEWEST + 2, NEWEST - 3, NEWEST + 2, NEWEST + 900):
        seen.add(number)
    assert (seen.count_missing(wanted), seen.count_repeated()) == (2, 1)
    for _ in range(300):
        seen.add(NEWEST + 2)
    assert seen.count_repeated() == 1


def test_an_event_is_as_late_as_its_own_moment_says() -> None:
    async def read() -> Counter[int]:
        late = Counter[int]()
        stream = Stream(b"", late, Seen(0))
        at = datetime.fromisoformat("2026-02-05T10:00:00.125+00:00").timestamp()
        event = (
            b'{"id":7,"kind":"error","at":"2026-02-05T10:00:00.125Z","data":{"id":9}}'
        )
        stream.count_frame(event, at + 0.040)
        assert stream.seen.count_repeated() == 0
        return late

    assert asyncio.run(read()) == {40: 1}


def test_what_a_server_sends_and_closes_is_told() -> None:
    """One stream misses an event and is sent another twice; one dashboard is closed."""
    found = asyncio.run(follow(lambda n: [1, 1, 2] if n == 0 else [1, 2, 3]))
    assert found["events"] == 3
    assert (found["missing"], found["twice"]) == (1, 1)
    assert found["lost"] == {"streams": 0, "dashboards": 1}
    assert found["frames"]["sockets"] == 2


async def follow(choose: Callable[[int], list[int]]) -> dict[str, Any]:
    """Two streams that get the chosen events, and a dashboard that is closed."""
    streams = 0
    closed = asyncio.Event()

    async def answer(socket: ServerConnection) -> None:
        nonlocal streams
        assert socket.request is not None
        if socket.request.path.startswith("/page"):
            assert socket.request.headers["Cookie"] == "session=x"
            await socket.close()
            closed.set()
            return
        number, streams = streams, streams + 1
        for each in choose(number):
            await socket.send(write_event(each))
        await socket.wait_closed()

    async with serve(answer, "127.0.0.1", 0, compression=None) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        clients = Clients(patience=5)
        address = f"ws://127.0.0.1:{port}"
        plan = {
            "after": 0,
            "streams": [f"{address}/a?x=1"] * 2,
            "dashboards": [f"{address}/page?x=1"],
            "headers": {"Cookie": "session=x"},
        }
        await clients.open(plan)
        await closed.wait()
        found = await clients.end([1, 2, 3])
        clients.begin()
        assert not clients.late
        return found
