"""The open sockets of a soak: dashboards as browsers open them, and JSON streams.

``python -m bench.soak.clients`` reads a plan as one line of JSON (``streams`` and
``dashboards``: addresses; ``headers``: of the dashboards; ``after``: the newest event), opens all and says ``open``.
After the line ``count`` it counts from zero. A line with a list of event ids asks for the
end: it waits until every stream has got these, and writes what came as JSON.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache, partial
from time import monotonic
from typing import Any, TypeVar
from urllib.parse import urlsplit

from bench.sockets import Client, write_upgrade

_EVENT = re.compile(rb'^\{"id":(\d+),.*?"at":"([^"]+)"', re.DOTALL)
#: How long the last events are waited for, and how often is looked, in seconds.
PATIENCE, PAUSE = 60.0, 0.1
#: A server that is too busy to answer a handshake is asked again.
TRIES = 6
LINE_LIMIT = 2**26

C = TypeVar("C", bound="Socket")


class Socket(Client):
    """One socket that stays open; ``lost`` once the server has closed it."""

    def __init__(self, request: bytes) -> None:
        super().__init__(request, 0)
        self.frames = self.received = 0
        self.lost = False

    def count_frame(self, payload: bytes, now: float) -> None:
        """Count it."""
        self.frames += 1
        self.received += len(payload)

    def connection_lost(self, exc: Exception | None) -> None:
        """The server, or its death, closed the socket."""
        self.lost = True
        super().connection_lost(exc)


class Seen:
    """How often each event came, a byte for each: many streams keep many of them."""

    def __init__(self, after: int) -> None:
        # What committed late may have a smaller id than the event that was the newest.
        self._base = max(0, after - 10_000)
        self._counts = bytearray()

    def add(self, number: int) -> None:
        """Count one more."""
        place = number - self._base
        if place >= len(self._counts):
            self._counts.extend(bytes(place + 1 - len(self._counts)))
        self._counts[place] = min(255, self._counts[place] + 1)

    def count_missing(self, wanted: Seen) -> int:
        """How many of the other's events never came."""
        return (wanted.as_bits() & ~self.as_bits()).bit_count()

    def count_repeated(self) -> int:
        """How many came more than once."""
        once = self._counts.count(0) + self._counts.count(1)
        return len(self._counts) - once

    def as_bits(self) -> int:
        """A number with a bit for each event that came."""
        return int.from_bytes(self._counts.translate(_ONE_OR_NONE), "little")


_ONE_OR_NONE = bytes([0]) + bytes([1]) * 255


class Stream(Socket):
    """A JSON stream: how often each event came, and how late all were.

    ``late`` counts events by whole milliseconds; the events' own moments have no more.
    """

    def __init__(self, request: bytes, late: Counter[int], seen: Seen) -> None:
        super().__init__(request)
        self.late_by, self.seen = late, seen

    def count_frame(self, payload: bytes, now: float) -> None:
        """Note which event it is, and how late."""
        super().count_frame(payload, now)
        if found := _EVENT.match(payload):
            self.seen.add(int(found[1]))
            self.late_by[round((now - _read_moment(found[2])) * 1000)] += 1


@lru_cache(maxsize=4096)
def _read_moment(text: bytes) -> float:
    return datetime.fromisoformat(text.decode().replace("Z", "+00:00")).timestamp()


class Clients:
    """All sockets of one plan."""

    def __init__(self, patience: float = PATIENCE) -> None:
        self.patience = patience
        self.late: Counter[int] = Counter()
        self.streams: list[Stream] = []
        self.dashboards: list[Socket] = []
        self.begun, self.after = monotonic(), 0

    async def open(self, plan: Mapping[str, Any]) -> None:
        """Open them one after the other; raises ConnectionError for one that fails."""
        self.after = plan["after"]
        for url in plan["streams"]:
            self.streams.append(await _open(url, partial(self._make_stream, url)))
        for url in plan["dashboards"]:
            request = write_upgrade(url, plan["headers"])
            self.dashboards.append(await _open(url, partial(Socket, request)))

    def _make_stream(self, url: str) -> Stream:
        return Stream(write_upgrade(url), self.late, Seen(self.after))

    def begin(self) -> None:
        """Count from here on; which events came is kept."""
        self.late.clear()
        self.begun = monotonic()
        for each in (*self.streams, *self.dashboards):
            each.frames = each.received = 0

    async def end(self, ids: Sequence[int]) -> dict[str, Any]:
        """What came, once these events have come to all who are still there."""
        seconds, late = monotonic() - self.begun, dict(self.late)
        frames = [_count_frames(each) for each in (self.streams, self.dashboards)]
        wanted, until = Seen(self.after), monotonic() + self.patience
        for number in ids:
            wanted.add(number)
        while self._count_missing(wanted) and monotonic() < until:  # noqa: ASYNC110
            await asyncio.sleep(PAUSE)
        return {
            "seconds": seconds,
            "events": len(ids),
            "late": late,
            "frames": frames[0],
            "pages": frames[1],
            "missing": self._count_missing(wanted),
            "twice": sum(each.seen.count_repeated() for each in self.streams),
            "lost": {
                "streams": sum(each.lost for each in self.streams),
                "dashboards": sum(each.lost for each in self.dashboards),
            },
        }

    def _count_missing(self, wanted: Seen) -> int:
        """How many of these events have not come, over all open streams."""
        return sum(
            each.seen.count_missing(wanted) for each in self.streams if not each.lost
        )


def _count_frames(sockets: Sequence[Socket]) -> dict[str, int]:
    return {
        "sockets": len(sockets),
        "frames": sum(each.frames for each in sockets),
        "bytes": sum(each.received for each in sockets),
    }


async def _open(url: str, make: Callable[[], C]) -> C:
    place = urlsplit(url)
    loop = asyncio.get_running_loop()
    for tried in range(TRIES):
        # Daphne hangs up where a handshake takes more than five seconds.
        await asyncio.sleep(tried)
        _, socket = await loop.create_connection(
            make, place.hostname or "", place.port or 80
        )
        await socket.open
        if not socket.lost:
            return socket
    raise ConnectionError(f"The server opened no {place.path} in {TRIES} tries.")


async def main() -> None:
    """Do what the lines of the standard input say."""
    lines = asyncio.StreamReader(limit=LINE_LIMIT)
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(lines), sys.stdin
    )
    clients = Clients()
    await clients.open(json.loads(await lines.readline()))
    _write_line("open")
    while line := await lines.readline():
        if line == b"count\n":
            clients.begin()
            continue
        _write_line(json.dumps(await clients.end(json.loads(line))))
        return


def _write_line(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main())
