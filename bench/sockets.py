"""Many light WebSocket clients in a process, and the bare server that is their baseline.

``python -m bench.sockets clients URL COUNT EVENTS [SECONDS]`` opens the sockets, says so in
a line, and writes what each got as JSON in a second one, after so many seconds at the
latest. A frame holds ``"sent": <seconds>`` and
``"n": <number>``; the clock is that of this machine, and so is the server's.
``python -m bench.sockets server`` writes its port, and sends each line of its standard
input to every client.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import sys
from array import array
from collections.abc import Mapping
from time import time
from urllib.parse import urlsplit

from websockets.asyncio.server import ServerConnection, broadcast, serve

_NUMBER = re.compile(rb'"n":\s?(\d+)')
_SENT = re.compile(rb'"sent":\s?([\d.]+)')
SECONDS = 120.0
PING, PONG = 0x89, 0x8A


class Client(asyncio.Protocol):
    """One socket: counts frames and how late they were."""

    def __init__(self, request: bytes, events: int) -> None:
        self.request = request
        self.events = events
        self.numbers: list[int] = []
        self.late = array("d")
        self.begun = self.ended = 0.0
        self.open = asyncio.get_running_loop().create_future()
        self.done = asyncio.get_running_loop().create_future()
        self._rest = b""
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask for the upgrade."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.write(self.request)

    def data_received(self, data: bytes) -> None:
        """Read whole frames."""
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
        """Note the number of an event, and how late it was."""
        number, sent = _NUMBER.search(payload), _SENT.search(payload)
        if number is None or sent is None:
            return
        self.numbers.append(int(number[1]))
        self.late.append((now - float(sent[1])) * 1000)
        self.begun = self.begun or now
        self.ended = now
        if len(self.numbers) == self.events and not self.done.done():
            self.done.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing more comes."""
        for future in (self.open, self.done):
            if not future.done():
                future.set_result(None)


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
    """The request that opens a socket."""
    place = urlsplit(url)
    key = base64.b64encode(os.urandom(16)).decode()
    more = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return (
        f"GET {place.path}?{place.query} HTTP/1.1\r\nHost: {place.netloc}\r\n"
        "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        f"{more}Sec-WebSocket-Key: {key}\r\n\r\n"
    ).encode()


async def run_clients(url: str, count: int, events: int, seconds: float) -> None:
    """Open all, say so, wait so long for the events, and write what came."""
    place, request = urlsplit(url), write_upgrade(url)
    loop = asyncio.get_running_loop()
    clients = []
    for _ in range(count):
        _, client = await loop.create_connection(
            lambda: Client(request, events), place.hostname or "", place.port or 80
        )
        clients.append(client)
        await client.open
    sys.stdout.write("open\n")
    sys.stdout.flush()
    await asyncio.wait([client.done for client in clients], timeout=seconds)
    late = sorted(each for client in clients for each in client.late)
    wanted = list(range(events))
    result = {
        "clients": count,
        "frames": len(late),
        "lost": sum(len(set(wanted) - set(client.numbers)) for client in clients),
        "twice": sum(len(c.numbers) - len(set(c.numbers)) for c in clients),
        "disordered": sum(c.numbers != sorted(c.numbers) for c in clients),
        "median": late[len(late) // 2] if late else float("inf"),
        "p95": late[int(len(late) * 0.95)] if late else float("inf"),
        "seconds": max(client.ended - client.begun for client in clients),
    }
    sys.stdout.write(f"{json.dumps(result)}\n")


async def run_server() -> None:
    """Send lines to all clients until the input ends."""
    there: set[ServerConnection] = set()

    async def stay(socket: ServerConnection) -> None:
        there.add(socket)
        await socket.wait_closed()
        there.discard(socket)

    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    async with serve(stay, "127.0.0.1", 0, compression=None) as server:
        sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
        sys.stdout.flush()
        while line := await reader.readline():
            broadcast(there, line.decode().rstrip("\n"))


if __name__ == "__main__":
    if sys.argv[1] == "server":
        asyncio.run(run_server())
    else:
        bound = float(sys.argv[5]) if len(sys.argv) > 5 else SECONDS
        asyncio.run(run_clients(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), bound))
