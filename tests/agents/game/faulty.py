"""A tiny MCP server that fails as told: lost sessions, dropped replies, odd answers."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

Json = dict[str, Any]

QUERY = {"name": "get_status", "annotations": {"readOnlyHint": True}}
ACTION = {"name": "mine", "annotations": {"readOnlyHint": False}}
SESSION = {"session_id": {"type": "string"}}


@dataclass(frozen=True)
class Reply:
    """One HTTP answer; ``drop`` ends the connection instead, ``hold`` waits first.

    ``stall`` leaves the connection open after half of it (all of an event stream).
    """

    status: int = 200
    body: str = ""
    kind: str = "application/json"
    headers: Json = field(default_factory=dict)
    drop: bool = False
    cut: bool = False
    hold: asyncio.Event | None = None
    stall: asyncio.Event | None = None


def result(text: str, *, is_error: bool = False) -> Callable[[Json], Reply]:
    """A tool result."""
    return rpc(
        {"result": {"content": [{"type": "text", "text": text}], "isError": is_error}}
    )


def rpc_error(code: int, message: str, status: int = 200) -> Callable[[Json], Reply]:
    """A JSON-RPC error."""
    return rpc({"error": {"code": code, "message": message}}, status)


def rpc(answer: Json, status: int = 200) -> Callable[[Json], Reply]:
    """Any JSON-RPC answer."""
    return lambda message: Reply(
        status, json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer})
    )


def http(status: int, body: str = "", **more: Any) -> Callable[[Json], Reply]:
    """A bare HTTP answer."""
    return lambda _: Reply(status, body, **more)


def sse(text: str) -> Callable[[Json], Reply]:
    """A tool result as an event stream with a comment and a priming event."""

    def reply(message: Json) -> Reply:
        plain = result(text)(message).body
        body = f": ping\r\n\r\nevent: message\r\ndata: {plain}\r\n\r\n"
        return Reply(200, body, "text/event-stream")

    return reply


class FaultyServer:
    """Serves in the test's own event loop.

    ``plan``: what the next tool calls are answered with; afterwards ``ok``.
    ``openings``: the same for initialize. ``calls``: what was executed.
    """

    def __init__(self, *tools: Json) -> None:
        listed = tools or (QUERY, ACTION)
        self.tools = [{"inputSchema": {"type": "object"}, **tool} for tool in listed]
        self.plan: deque[Callable[[Json], Reply]] = deque()
        self.openings: deque[Callable[[Json], Reply]] = deque()
        self.calls: list[tuple[str, Json]] = []
        self.cancelled: list[Json] = []
        self.called = asyncio.Event()
        self.hold_end: asyncio.Event | None = None
        self.opened = 0
        self.ended = 0
        self.known: set[str] = set()
        self.lost = rpc_error(-32600, "Session not initialized")
        self.url = ""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}/mcp"
        return self

    async def __aexit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Take no more connections."""
        self._server.close()

    def forget(self) -> None:
        """Lose every MCP session, as a restart does."""
        self.known.clear()

    async def _connected(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            method = head[0].split()[0]
            headers = dict(
                line.lower().split(": ", 1) for line in head[1:] if ": " in line
            )
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            reply = self._reply(method, headers, body)
            if reply.hold is not None:
                await reply.hold.wait()
            if not reply.drop:
                writer.write(_bytes(reply))
                await writer.drain()
                if reply.stall is not None:
                    await reply.stall.wait()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    def _reply(self, method: str, headers: dict[str, str], body: bytes) -> Reply:
        if method == "GET":
            return Reply(405)
        if method == "DELETE":
            self.ended += 1
            return Reply(200, hold=self.hold_end)
        message = json.loads(body)
        name = message["method"]
        if name == "initialize":
            return self._opened(message)
        if headers.get("mcp-session-id") not in self.known:
            return self.lost(message) if "id" in message else Reply(202)
        if name == "tools/list":
            return rpc({"result": {"tools": self.tools}})(message)
        if name == "tools/call":
            return self._called(message)
        if name == "notifications/cancelled":
            self.cancelled.append(message["params"])
        return Reply(202)

    def _opened(self, message: Json) -> Reply:
        if self.openings:
            return self.openings.popleft()(message)
        self.opened += 1
        self.known.add(f"s{self.opened}")
        answer = {
            "protocolVersion": "2025-03-26",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "faulty", "version": "1"},
        }
        reply = rpc({"result": answer})(message)
        return Reply(200, reply.body, headers={"Mcp-Session-Id": f"s{self.opened}"})

    def _called(self, message: Json) -> Reply:
        params = message["params"]
        self.calls.append((params["name"], params.get("arguments") or {}))
        self.called.set()
        make = self.plan.popleft() if self.plan else result("ok")
        return make(message)


def _bytes(reply: Reply) -> bytes:
    body = reply.body.encode()
    lines = [f"HTTP/1.1 {reply.status} Word", "Connection: close"]
    if body:
        lines.append(f"Content-Type: {reply.kind}")
    lines += [f"{name}: {value}" for name, value in reply.headers.items()]
    stream = reply.stall is not None and reply.kind == "text/event-stream"
    lines.append(f"Content-Length: {len(body) + stream}")
    half = reply.cut or (reply.stall is not None and not stream)
    sent = body[: len(body) // 2] if half else body
    return "\r\n".join([*lines, "", ""]).encode() + sent
