"""The gate of `/mcp`: where a request comes from, who sends it, what they may do.

A program brings a bearer token, the same as for REST; a browser session does not
count, so no page can make somebody's browser call tools. A page of another site is
refused by its Origin, and an attacker's name for our address by its Host (DNS
rebinding), before the token is read.

The MCP SDK refuses in a JSON-RPC error, in plain text, or without a body. Here a
JSON-RPC error gets ``detail`` and ``code`` beside its own members, by which MCP clients
know it; any other refusal is written anew in the shape of the REST API's.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from asgiref.sync import ThreadSensitiveContext
from channels.db import database_sync_to_async
from django.conf import settings
from django.http.request import split_domain_port, validate_host
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse

from agents.mcp_server import Guest, answer_request
from memory.json_bounds import JsonBounds
from memory.problems import Problem, find_busy
from zoea import rate_limits
from zoea.api.gate import MAX_BYTES, check_counts, make_too_large
from zoea.auth import (
    NO_BEARER,
    find_scope_address,
    identify_bearer,
    unauthenticated_problem,
)
from zoea.models import Role
from zoea.proxies import App, Scope, is_plain_under_tls
from zoea.websockets import is_origin_allowed

Message = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]
Receive = Callable[[], Awaitable[Message]]

# A call of a tool holds a handful of each.
BOUNDS = JsonBounds(containers=1_000, messages=1_000, values=10_000)
MAX_DETAIL = 300
MESSAGES = {
    400: ("bad_request", "The request is no message of MCP."),
    404: ("not_found", "There is no such method or session: MCP has none here."),
    406: ("not_acceptable", "Send 'Accept: application/json, text/event-stream'."),
    415: ("unsupported_type", "Send 'Content-Type: application/json'."),
    500: ("internal", "The server failed; its log says why."),
}
JSON_RPC_PARSE_ERROR = -32700

PATHS = frozenset({"/mcp", "/mcp/"})


class ClientGoneError(Exception):
    """The client went before its request was whole: there is nobody to answer."""


def with_mcp(pages: App) -> App:
    """Answer `/mcp` here; pass everything else on to ``pages``."""

    async def application(scope: Scope, receive: Any, send: Any) -> None:
        if scope["path"] not in PATHS:
            await pages(scope, receive, send)
            return
        async with ThreadSensitiveContext():
            try:
                guest = await admit_guest(scope)
                body = await _read_body(receive)
                check_counts(body, BOUNDS)
            except ClientGoneError:
                return
            except Exception as error:
                problem = error if isinstance(error, Problem) else find_busy(error)
                if problem is None:
                    raise
                document = {"detail": problem.detail, "code": problem.code}
                refusal = JSONResponse(document, problem.status, problem.headers)
                await refusal(scope, receive, send)
                return
            again = _receive_again(body, receive)
            await answer_request(scope, again, ShapedSend(send), guest)

    return application


async def admit_guest(scope: Scope) -> Guest:
    """Find the caller; raises a Problem for anybody who may not come in."""
    if is_plain_under_tls(scope):
        # No redirect, as pages get: the token would go out in clear once more.
        raise Problem(403, "tls_required", "Use https: a token is not for plain HTTP.")
    _check_origin(scope)
    if scope["method"] != "POST":
        raise Problem(
            405,
            "method_not_allowed",
            "MCP is spoken here by POST alone: there are no sessions to listen to.",
            headers={"Allow": "POST"},
        )
    given = Headers(scope=scope).get("authorization")
    if not given:
        raise unauthenticated_problem(f"{NO_BEARER}.")
    address = find_scope_address(scope)
    caller = await database_sync_to_async(identify_bearer)(given, address)
    return Guest(
        by=caller.by,
        role=caller.role.label,
        may_send=caller.role >= Role.OPERATOR,
        throttle=lambda: rate_limits.writes.take(caller.by),
        actor=caller.as_actor(address),
    )


async def _read_body(receive: Receive) -> bytes:
    """Read the body; raises a 413 Problem once it is larger than MAX_BYTES.

    Raises ClientGoneError where it is not whole.
    """
    body = bytearray()
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGoneError
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > MAX_BYTES:
            raise make_too_large(MAX_BYTES)
    return bytes(body)


def _receive_again(body: bytes, receive: Receive) -> Receive:
    """A ``receive`` that gives the body that was read, then what comes."""
    message: Message | None = {"type": "http.request", "body": body}

    async def receive_again() -> Message:
        nonlocal message
        found, message = message, None
        return found if found is not None else await receive()

    return receive_again


def _check_origin(scope: Scope) -> None:
    """Raise a Problem for a Host that is not ours and an Origin of another site."""
    headers = Headers(scope=scope)
    host = split_domain_port(headers.get("host", ""))[0]
    if not validate_host(host, settings.ALLOWED_HOSTS):
        raise Problem(
            421, "wrong_host", "This host is not served: see ZOEA_ALLOWED_HOSTS."
        )
    origin = headers.get("origin")
    if origin is not None and not is_origin_allowed(origin, scope):
        raise Problem(
            403, "wrong_origin", "This origin is not allowed: see ZOEA_ORIGINS."
        )


class ShapedSend:
    """A ``send`` that collects a refusal and sends it on in the common shape."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._start: Message | None = None
        self._body = b""

    async def __call__(self, message: Message) -> None:
        """Send one ASGI message on, or collect it."""
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
        body = json.dumps(_refusal(start["status"], self._body)).encode()
        headers = MutableHeaders(scope=start)
        headers["content-type"] = "application/json"
        headers["content-length"] = str(len(body))
        await self._send(start)
        await self._send({"type": "http.response.body", "body": body})


def _refusal(status: int, body: bytes) -> dict[str, Any]:
    """A refusal's JSON object, with ``detail`` and ``code``."""
    code, detail = MESSAGES.get(status, MESSAGES[500 if status >= 500 else 400])
    try:
        found = json.loads(body)
    except ValueError:
        found = {}
    document = found if isinstance(found, dict) else {}
    error = document.get("error")
    if status < 500 and isinstance(error, dict) and error.get("message"):
        detail = str(error["message"]).partition("\n")[0][:MAX_DETAIL]
        if error.get("code") == JSON_RPC_PARSE_ERROR:
            code, detail = "malformed", f"The body is not usable JSON: {detail}."
    return {**document, "detail": detail, "code": code}
