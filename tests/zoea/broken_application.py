"""An application that fails, and one that never ends, under the product's Daphne.

Each answer says how many connections the server knows, and how many pieces were made.
"""

from __future__ import annotations

import asyncio
import json
import os
from typing import Any

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "zoea.settings")
django.setup(set_prefix=False)

from zoea import daphne  # noqa: E402

daphne.install()
daphne.STALLED = 1.0
PIECE = b"x" * 64 * 1024
made = 0
connections: Any = {}


async def application(scope: Any, receive: Any, send: Any) -> None:
    global connections
    # A partial of a method of Daphne's server.
    connections = send.func.__self__.connections
    if scope["type"] == "websocket":
        await fail_socket(scope, receive, send)
        return
    await daphne.with_patience(answer)(scope, receive, send)


async def answer(scope: Any, receive: Any, send: Any) -> None:
    path = scope["path"]
    if path == "/before":
        raise RuntimeError(path)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    if path == "/within":
        await send(piece(b"begun"))
        raise RuntimeError(path)
    if path == "/endless":
        await send_for_ever(receive, send)
        return
    told = {"connections": len(connections), "made": made}
    await send({"type": "http.response.body", "body": json.dumps(told).encode()})


async def send_for_ever(receive: Any, send: Any) -> None:
    global made
    await receive()
    gone = asyncio.ensure_future(receive())
    while not gone.done():
        made += 1
        await send(piece(PIECE))
        await asyncio.sleep(0)


def piece(body: bytes) -> dict[str, Any]:
    return {"type": "http.response.body", "body": body, "more_body": True}


async def fail_socket(scope: Any, receive: Any, send: Any) -> None:
    if scope["path"] == "/within":
        await send({"type": "websocket.accept"})
    raise RuntimeError(scope["path"])
