"""Many light WebSocket clients in a process, and the bare server that is their baseline.

``python -m bench.sockets`` reads a plan as one line of JSON (``streams`` and
``dashboards``: addresses; ``headers``: of the dashboards; ``after``: the newest event),
opens all and says ``open``. After the line ``count`` it counts from zero. A line with a
list of event ids asks for the end: it waits until every stream has got these, and writes
what came as JSON. ``python -m bench.sockets server`` writes its port, and sends each line
of its standard input to every client.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import lru_cache, partial
from pathlib import Path
from time import monotonic, time
from typing import Any, TypeVar
from urllib.parse import urlsplit

from websockets.asyncio.server import ServerConnection, broadcast, serve

ROOT = Path(__file__).resolve().parents[1]
COMMAND = [sys.executable, "-W", "ignore", "-m", "bench.sockets"]
_EVENT = re.compile(rb'^\{"id":(\d+),.*?"at":"([^"]+)"', re.DOTALL)
PING, PONG = 0x89, 0x8A
#: How long the last events are waited for, and how often is looked, in seconds.
PATIENCE, PAUSE = 60.0, 0.05
#: What opens nothing in this time is ended.
OPEN_SECONDS = 300.0
#: A server that is too busy to answer a handshake is asked again.
TRIES = 6
LINE_LIMIT = 2**26

C = TypeVar("C", bound="Socket")


# --- One socket


class Socket(asyncio.Protocol):
    """One socket that stays open; ``lost`` once the server has closed it."""

    def __init__(self, request: bytes) -> None:
        self.request = request
        self.frames = self.received = 0
        self.lost = False
        self.open = asyncio.get_running_loop().create_future()
        self._rest = b""
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.write(self.request)

    def data_received(self, data: bytes) -> None:
        data = self._rest + data
        if not self.open.done():
            head, end, data = data.partition(b"\r\n\r\n")
            if not end:
                self._rest = head
                return
            assert b" 101 " in head.split(b"\r\n")[0], head
            self.open.set_result(None)
        now = time()
        while (frame := split_frame(data)) is not None:
            if data[0] == PING:
                self._pong(frame[0])
            payload, data = frame
            self.count_frame(payload, now)
        self._rest = data

    def _pong(self, payload: bytes) -> None:
        """A client that answers no ping is dropped after a while."""
        head = bytes((PONG, 0x80 | len(payload), 0, 0, 0, 0))
        self._transport.write(head + payload)

    def count_frame(self, payload: bytes, now: float) -> None:
        self.frames += 1
        self.received += len(payload)

    def connection_lost(self, exc: Exception | None) -> None:
        """The server, or its death, closed the socket."""
        self.lost = True
        if not self.open.done():
            self.open.set_result(None)


def split_frame(data: bytes) -> tuple[bytes, bytes] | None:
    """The payload of a server's frame and what follows it; None if incomplete."""
    if len(data) < 2:
        return None
    length, start = data[1] & 127, 2
    if length == 126:
        length, start = int.from_bytes(data[2:4], "big"), 4
    elif length == 127:
        length, start = int.from_bytes(data[2:10], "big"), 10
    end = start + length
    if len(data) < start or len(data) < end:
        return None
    return data[start:end], data[end:]


def write_upgrade(url: str, headers: Mapping[str, str] = {}) -> bytes:
    place = urlsplit(url)
    key = base64.b64encode(os.urandom(16)).decode()
    more = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return (
        f"GET {place.path}?{place.query} HTTP/1.1\r\nHost: {place.netloc}\r\n"
        "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        f"{more}Sec-WebSocket-Key: {key}\r\n\r\n"
    ).encode()


class Seen:
    """How often each event came, a byte for each: many streams keep many of them."""

    def __init__(self, after: int) -> None:
        # What committed late may have a smaller id than the event that was the newest.
        self._base = max(0, after - 10_000)
        self._counts = bytearray()

    def add(self, number: int) -> None:
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


# --- All sockets of a process


class Clients:
    def __init__(self, patience: float = PATIENCE) -> None:
        self.patience = patience
        self.late: Counter[int] = Counter()
        self.streams: list[Stream] = []
        self.dashboards: list[Socket] = []
        self.begun, self.after = monotonic(), 0

    async def open(self, plan: Mapping[str, Any]) -> None:
        """Open them one after the other; raises ConnectionError for one that fails."""
        self.after = plan["after"]
        self.patience = plan.get("patience", self.patience)
        for url in plan["streams"]:
            self.streams.append(await _open(url, partial(self._make_stream, url)))
        for url in plan.get("dashboards", ()):
            request = write_upgrade(url, plan["headers"])
            self.dashboards.append(await _open(url, partial(Socket, request)))

    def _make_stream(self, url: str) -> Stream:
        return Stream(write_upgrade(url), self.late, Seen(self.after))

    def begin(self) -> None:
        self.late.clear()
        self.begun = monotonic()
        for each in (*self.streams, *self.dashboards):
            each.frames = each.received = 0

    async def end(self, ids: Sequence[int]) -> dict[str, Any]:
        """What came, once these events have come to all who are still there."""
        seconds = monotonic() - self.begun
        frames = [_count_frames(each) for each in (self.streams, self.dashboards)]
        wanted, until = Seen(self.after), monotonic() + self.patience
        for number in ids:
            wanted.add(number)
        while self._count_missing(wanted) and monotonic() < until:  # noqa: ASYNC110
            await asyncio.sleep(PAUSE)
        return {
            "seconds": seconds,
            "events": len(ids),
            "late": dict(self.late),
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


# --- The two programs


async def run_clients() -> None:
    """Do what the lines of the standard input say."""
    lines = await _open_input()
    clients = Clients()
    await clients.open(json.loads(await lines.readline()))
    _write_line("open")
    while line := await lines.readline():
        if line == b"count\n":
            clients.begin()
            continue
        _write_line(json.dumps(await clients.end(json.loads(line))))
        return


async def run_server() -> None:
    """Send lines to all clients until the input ends."""
    there: set[ServerConnection] = set()

    async def stay(socket: ServerConnection) -> None:
        there.add(socket)
        await socket.wait_closed()
        there.discard(socket)

    lines = await _open_input()
    async with serve(stay, "127.0.0.1", 0, compression=None) as server:
        _write_line(str(server.sockets[0].getsockname()[1]))
        while line := await lines.readline():
            broadcast(there, line.decode().rstrip("\n"))


async def _open_input() -> asyncio.StreamReader:
    lines = asyncio.StreamReader(limit=LINE_LIMIT)
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(lines), sys.stdin
    )
    return lines


def _write_line(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


# --- Whoever starts them


class Program:
    """One of the two, told and read line by line."""

    def __init__(self, *words: str) -> None:
        self._process = subprocess.Popen(
            [*COMMAND, *words],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def write(self, *lines: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.writelines(f"{line}\n" for line in lines)
        self._process.stdin.flush()

    def read(self, seconds: float = 0.0) -> str:
        """The next line; empty where the program ended, or is ended after so long."""
        assert self._process.stdout is not None
        late = threading.Timer(seconds, self._process.kill) if seconds else None
        if late:
            late.start()
        line = self._process.stdout.readline()
        if late:
            late.cancel()
        return line.strip()

    def close(self) -> None:
        self._process.terminate()
        self._process.wait()

    def begin(self) -> None:
        self.write("count")

    def end(self, ids: Sequence[int]) -> dict[str, Any]:
        """What came to clients, once these events have come to all who are there."""
        self.write(json.dumps(ids))
        found: dict[str, Any] = json.loads(self.read())
        return found


@contextmanager
def open_clients(plan: Mapping[str, Any]) -> Iterator[Program]:
    """The sockets of a plan, all of them open."""
    program = Program()
    try:
        program.write(json.dumps(plan))
        if program.read(OPEN_SECONDS) != "open":
            raise RuntimeError("The sockets could not all be opened.")
        yield program
    finally:
        program.close()


@contextmanager
def run_bare_server() -> Iterator[tuple[str, Program]]:
    """A server that broadcasts what it is told: its address, and what tells it."""
    program = Program("server")
    try:
        yield f"ws://127.0.0.1:{int(program.read())}/", program
    finally:
        program.close()


if __name__ == "__main__":
    asyncio.run(run_server() if sys.argv[1:] == ["server"] else run_clients())
