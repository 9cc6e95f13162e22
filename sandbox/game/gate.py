"""The door of the game's server, at which its calls meet the faults."""

from __future__ import annotations

import json
from typing import Any

import mcp_types as types
from starlette.datastructures import Headers
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sandbox.game.faults import Faults
from sandbox.game.reshaping import Reshaped
from sandbox.game.turns import Turns

RETRY_SECONDS = 1
Json = dict[str, Any]


class FaultGate:
    """Passes requests on, or lets go wrong what the faults say."""

    def __init__(self, app: ASGIApp, faults: Faults, turns: Turns) -> None:
        self._app = app
        self._faults = faults
        self._turns = turns
        self._lost: set[str] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] == "DELETE":
            await self._app(scope, receive, send)
            return
        transport = Headers(scope=scope).get("mcp-session-id", "")
        if transport in self._lost:
            await _session_gone(None)(scope, receive, send)
        elif self._faults.active and scope["method"] == "POST":
            await self._judge(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _judge(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = _Request(receive)
        asked = await request.message()
        if asked.get("method") != "tools/call":
            await self._app(scope, request.replay, send)
            return
        params = asked.get("params") or {}
        who = self._turns.game.account_of(params.get("arguments") or {})
        hit = self._faults.strike(who, str(params.get("name")))
        self._turns.game.state.tallies.of(who).faults.update(hit)
        refusal = self._refusal(hit, scope, asked)
        if refusal is not None:
            await refusal(scope, request.replay, send)
            return
        if "lost-session" in hit:
            self._turns.game.end_sessions(who)
        if "delay" in hit:
            await self._turns.until_next_tick()
        if "lost-answer" in hit:
            await self._app(scope, request.replay, _nowhere)
            await _bad_gateway()(scope, request.replay, send)
            return
        forms = hit & {"null-lists", "text", "sse"}
        await self._app(scope, request.replay, Reshaped(send, forms) if forms else send)

    def _refusal(
        self, hit: frozenset[str], scope: Scope, asked: Json
    ) -> Response | None:
        """The answer that is given instead of the game's own."""
        if "lost-transport" in hit:
            self._lost.add(Headers(scope=scope).get("mcp-session-id", ""))
            return _session_gone(asked.get("id"))
        if "429" in hit:
            return _too_many()
        if "502" in hit:
            return _bad_gateway()
        return _rate_limited(asked.get("id")) if "rate-limit" in hit else None


class _Request:
    """A request whose body is read ahead and can be given once more."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._read: list[Message] = []

    async def message(self) -> Json:
        """The JSON-RPC message; empty where there is none or a very long one."""
        body = b""
        more = True
        while more and len(body) < MOST_READ_BYTES:
            part = await self._receive()
            self._read.append(part)
            body += part.get("body", b"")
            more = part.get("more_body", False)
        try:
            found = json.loads(body)
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}

    async def replay(self) -> Message:
        return self._read.pop(0) if self._read else await self._receive()


MOST_READ_BYTES = 1_000_000


async def _nowhere(message: Message) -> None:
    """Drop an answer: it was lost on its way."""


def _session_gone(request_id: object) -> Response:
    error = {"code": types.INVALID_REQUEST, "message": "Session not initialized"}
    body = {"jsonrpc": "2.0", "id": request_id, "error": error}
    return JSONResponse(body, status_code=404)


def _too_many() -> Response:
    body = {
        "error": "rate_limited",
        "message": f"Too many requests. Try again in {RETRY_SECONDS} seconds",
        "retry_after": RETRY_SECONDS,
    }
    headers = {"Retry-After": str(RETRY_SECONDS)}
    return JSONResponse(body, status_code=429, headers=headers)


def _bad_gateway() -> Response:
    page = "<html><head><title>502 Bad Gateway</title></head></html>"
    return PlainTextResponse(page, status_code=502, media_type="text/html")


def _rate_limited(request_id: object) -> Response:
    text = (
        f"Error: rate_limited: Too many requests. Try again in {RETRY_SECONDS} seconds."
    )
    result = {"content": [{"type": "text", "text": text}], "isError": True}
    return JSONResponse({"jsonrpc": "2.0", "id": request_id, "result": result})
