"""The baseline: a bare ``websockets`` server that sends one text to all.

``python -m bench.surfaces.broadcasting`` writes its port, and sends each line of
its standard input to every client.
"""

from __future__ import annotations

import asyncio
import sys

from websockets.asyncio.server import ServerConnection, broadcast, serve


async def main() -> None:
    """Serve until the input ends."""
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
    asyncio.run(main())
