"""The refusals of `/mcp` in the shape of all others.

What the SDK refuses before a tool is reached it says in a JSON-RPC error, in plain
text, or not at all. A JSON-RPC error keeps its own members, by which MCP clients know
it, and gets ``detail`` and ``code`` beside them; anything else is said anew.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from memory.problems import Problem

Message = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]

LONGEST = 300
JSON_TYPE = b"application/json"
SAYINGS = {
    400: ("bad_request", "The request is no message of MCP."),
    404: ("not_found", "There is no such method or session: MCP has none here."),
    406: ("not_acceptable", "Send 'Accept: application/json, text/event-stream'."),
    413: ("too_large", "The body is larger than 1,048,576 bytes: send less at once."),
    415: ("unsupported_type", "Send 'Content-Type: application/json'."),
    500: ("internal", "The server failed; its log says why."),
}
MALFORMED = -32700


class InShape:
    """A ``send`` that holds a refusal back until all of it is there to be said."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._start: Message | None = None
        self._body = b""

    async def __call__(self, message: Message) -> None:
        """Take one message of the application."""
        if message["type"] == "http.response.start" and message["status"] >= 400:
            self._start = message
            return
        if self._start is None:
            await self._send(message)
            return
        self._body += message.get("body", b"")
        if message.get("more_body", False):
            return
        start, self._start = self._start, None
        body = json.dumps(said(start["status"], self._body)).encode()
        own = (b"content-type", b"content-length")
        kept = [pair for pair in start["headers"] if pair[0].lower() not in own]
        about = [(own[0], JSON_TYPE), (own[1], str(len(body)).encode())]
        await self._send({**start, "headers": [*kept, *about]})
        await self._send({"type": "http.response.body", "body": body})


def said(status: int, body: bytes) -> dict[str, Any]:
    """A refusal's body: what it was, with ``detail`` and ``code``."""
    code, detail = SAYINGS.get(status, SAYINGS[500 if status >= 500 else 400])
    told = _document(body)
    error = told.get("error")
    if status < 500 and isinstance(error, dict) and error.get("message"):
        detail = str(error["message"]).partition("\n")[0][:LONGEST]
        if error.get("code") == MALFORMED:
            code, detail = "malformed", f"The body is not usable JSON: {detail}."
    return {**told, "detail": detail, "code": code}


def _document(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


async def respond(problem: Problem, send: Send) -> None:
    """A Problem as an answer."""
    body = json.dumps({"detail": problem.detail, "code": problem.code}).encode()
    headers = {
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        **problem.headers,
    }
    await send(
        {
            "type": "http.response.start",
            "status": problem.status,
            "headers": [
                (name.encode(), value.encode()) for name, value in headers.items()
            ],
        }
    )
    await send({"type": "http.response.body", "body": body})
