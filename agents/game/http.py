"""The HTTP under the game's MCP session: every failure becomes an answer.

The SDK ends a whole session, with all calls under way, when one POST raises, and
flattens most HTTP statuses into one error. Here each failed POST is turned into a
JSON-RPC error that says what may have happened, so that one call fails, alone.
"""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

import httpx2

CONNECT_SECONDS = 10.0

# A mutation may be held until its tick, a long flight for minutes (API.md 1.4).
READ_SECONDS = 600.0

# How long the end of a session may take: nobody waits for its answer.
END_SECONDS = 2.0

# The longest answer that is taken.
MAX_BYTES = 32 * 1024 * 1024

# JSON-RPC's code for an error inside the server: the call may have been executed.
BROKEN = -32603

# The JSON-RPC code of the errors made here; ``data.failure`` is one of these:
FAILURE = -32090

UNREACHABLE = "unreachable"
SESSION_LOST = "session_lost"
RATE_LIMITED = "rate_limited"
REPLY_LOST = "reply_lost"

_NOT_SENT = (
    httpx2.ConnectError,
    httpx2.ConnectTimeout,
    httpx2.PoolTimeout,
    httpx2.ProxyError,
    httpx2.UnsupportedProtocol,
)

_load_certificates = cache(httpx2.create_ssl_context)


class McpHttpClient(httpx2.AsyncClient):
    """An HTTP client whose POSTs and DELETEs never raise."""

    def __init__(self) -> None:
        super().__init__(
            verify=_load_certificates(),
            timeout=httpx2.Timeout(
                CONNECT_SECONDS, read=READ_SECONDS, write=60.0, pool=READ_SECONDS
            ),
            limits=httpx2.Limits(max_connections=20, max_keepalive_connections=2),
        )

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send; what fails comes back as a JSON-RPC error with status 503."""
        if request.method == "GET":
            return await super().send(request, **options)
        if request.method == "DELETE":
            limit = httpx2.Timeout(END_SECONDS).as_dict()
            request.extensions = {**request.extensions, "timeout": limit}
        try:
            response = await super().send(request, **options)
            return await _read_answer(request, response)
        except _NOT_SENT as error:
            return _failure(request, UNREACHABLE, _reason(error, "cannot be reached"))
        except httpx2.TimeoutException:
            return _failure(request, REPLY_LOST, "did not answer in time")
        except (httpx2.RequestError, httpx2.StreamError) as error:
            return _failure(request, REPLY_LOST, _reason(error, "broke off its answer"))


async def _read_answer(
    request: httpx2.Request, response: httpx2.Response
) -> httpx2.Response:
    """The answer, read to its end where it is not a stream of events."""
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if response.is_success and kind == "text/event-stream":
        return response
    if response.has_redirect_location:
        return response
    body = await _read_body(response)
    if body is None:
        return _failure(request, REPLY_LOST, f"sent more than {MAX_BYTES >> 20} MiB")
    if not response.is_success:
        return _refused(request, response, body)
    # A notification asks for no answer.
    is_call = {"id", "method"} <= _json(request.content).keys()
    if is_call and (kind != "application/json" or not body):
        said = f"{response.status_code} {kind}".strip()
        return _failure(request, REPLY_LOST, f"answered {said}, which is not MCP")
    return _copy(request, response, body)


async def _read_body(response: httpx2.Response) -> bytes | None:
    body = bytearray()
    try:
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) > MAX_BYTES:
                return None
    finally:
        await response.aclose()
    return bytes(body)


def _refused(
    request: httpx2.Request, response: httpx2.Response, body: bytes
) -> httpx2.Response:
    status = response.status_code
    said = _json(body)
    if status == httpx2.codes.TOO_MANY_REQUESTS:
        wait = _wait(response, said)
        return _failure(request, RATE_LIMITED, "asks to wait", retry_after=wait)
    if said.get("jsonrpc") == "2.0" and isinstance(said.get("error"), dict):
        if response.is_server_error and said["error"].get("code") == BROKEN:
            # A server that loses the answer to what it did says no more than that.
            return _failure(request, REPLY_LOST, f"failed with HTTP {status}")
        return _copy(request, response, body)
    detail = f"answered HTTP {status}"
    if response.is_server_error:
        return _failure(request, REPLY_LOST, detail)
    if status in (400, 404) and "mcp-session-id" in request.headers:
        return _failure(request, SESSION_LOST, detail)
    return _failure(request, UNREACHABLE, detail)


def _copy(
    request: httpx2.Request, response: httpx2.Response, body: bytes
) -> httpx2.Response:
    headers = httpx2.Headers(response.headers)
    for name in ("content-encoding", "content-length", "transfer-encoding"):
        headers.pop(name, None)
    return httpx2.Response(
        response.status_code, headers=headers, content=body, request=request
    )


def _failure(
    request: httpx2.Request,
    failure: str,
    detail: str,
    *,
    retry_after: float | None = None,
) -> httpx2.Response:
    data = {"failure": failure, "retry_after": retry_after}
    error = {"code": FAILURE, "message": detail, "data": data}
    answer = {"jsonrpc": "2.0", "id": _json(request.content).get("id"), "error": error}
    return httpx2.Response(503, json=answer, request=request)


def _json(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _wait(response: httpx2.Response, said: dict[str, Any]) -> float | None:
    for value in (said.get("retry_after"), response.headers.get("retry-after")):
        text = str(value)
        if re.fullmatch(r"\d{1,6}(\.\d+)?", text):
            return float(text)
    return None


def _reason(error: Exception, otherwise: str) -> str:
    text = str(error).strip()
    return f"{otherwise} ({text})" if text else otherwise
