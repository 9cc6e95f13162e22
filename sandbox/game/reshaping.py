"""Changes the form of an answer on its way out: what it says stays the same."""

from __future__ import annotations

import json
from collections.abc import Set as AbstractSet
from typing import Any

from starlette.types import Message, Send

from sandbox.game.dashboard import as_text

Json = dict[str, Any]


class Reshaped:
    """An ASGI `send` that keeps the answer to a call until it is whole.

    Forms: `null-lists` (empty lists become null), `text` (no JSON any more), `sse` (an
    event stream). Errors keep their words.
    """

    def __init__(self, send: Send, forms: AbstractSet[str]) -> None:
        self._send = send
        self._forms = forms
        self._start: Message = {}
        self._body = b""

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._start = message
            return
        self._body += message.get("body", b"")
        if message.get("more_body", False):
            return
        kind, body = self._reshape()
        headers = [
            (name, value)
            for name, value in self._start.get("headers", ())
            if name.lower() not in (b"content-type", b"content-length")
        ]
        headers += [(b"content-type", kind), (b"content-length", b"%d" % len(body))]
        await self._send({**self._start, "headers": headers})
        await self._send({"type": "http.response.body", "body": body})

    def _reshape(self) -> tuple[bytes, bytes]:
        headers = dict(self._start.get("headers", ()))
        kind = headers.get(b"content-type", b"")
        streamed = kind.startswith(b"text/event-stream")
        answer = _answer(self._body, streamed=streamed)
        if self._start.get("status") != 200 or answer is None:
            return kind, self._body
        _change(answer, self._forms)
        text = json.dumps(answer, ensure_ascii=False)
        if streamed or "sse" in self._forms:
            return b"text/event-stream", f"event: message\ndata: {text}\n\n".encode()
        return b"application/json", text.encode()


def _answer(body: bytes, *, streamed: bool) -> Json | None:
    """Find the answer to the call in a body; None where it has another form."""
    lines = [body]
    if streamed:
        lines = [one[5:] for one in body.splitlines() if one.startswith(b"data:")]
    for line in lines:
        if not line.strip():
            continue
        found = json.loads(line)
        if isinstance(found, dict) and "result" in found:
            return found
    return None


def _change(answer: Json, forms: AbstractSet[str]) -> None:
    result = answer["result"]
    if result.get("isError"):
        return
    block = result["content"][0]
    value = json.loads(block["text"])
    if "null-lists" in forms:
        value = without_empty_lists(value)
        block["text"] = json.dumps(value, indent=2, ensure_ascii=False)
    if "text" in forms:
        block["text"] = as_text(value)


def without_empty_lists(value: Any) -> Any:
    """Write every empty list as null, as Go writes a nil slice."""
    if isinstance(value, dict):
        return {name: without_empty_lists(one) for name, one in value.items()}
    if isinstance(value, list):
        return [without_empty_lists(one) for one in value] or None
    return value
