"""The HTTP under the game's MCP session: every failure becomes an answer.

The SDK ends a whole session, with all calls under way, when one POST raises, and
flattens most HTTP statuses into one error. Here each failed POST is turned into a
JSON-RPC error that says what may have happened, so that one call fails, alone.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator
from functools import cache
from typing import Any

import httpx2
from pydantic_core import from_json

from memory.json_bounds import JsonBounds, TooDeepJsonError, TooMuchJsonError

CONNECT_SECONDS = 10.0

# A mutation may be held until its tick, a long flight for minutes (API.md 1.4).
READ_SECONDS = 600.0

# How long the end of a session may take: nobody waits for its answer.
END_SECONDS = 2.0

# What has begun to come must have come whole after so long.
BODY_SECONDS = 60.0

# The longest answer that is taken, ten times a whole map of 505 systems; also all that
# one stream of events may bring, in so many events and comments.
MAX_BYTES = 2 * 1024 * 1024
MAX_EVENTS = 1000

# Such a map has 1,517 lists and objects, and 13,000 names and values.
BOUNDS = JsonBounds(containers=20_000, messages=20_000, values=200_000)

# JSON-RPC's code for an error inside the server: the call may have been executed.
BROKEN = -32603

# The JSON-RPC code of the errors made here; ``data.failure`` is one of these:
FAILURE = -32090

UNREACHABLE = "unreachable"
SESSION_LOST = "session_lost"
RATE_LIMITED = "rate_limited"
REPLY_LOST = "reply_lost"
TOO_LONG = "too_long"

_NOT_SENT = (
    httpx2.ConnectError,
    httpx2.ConnectTimeout,
    httpx2.PoolTimeout,
    httpx2.ProxyError,
    httpx2.UnsupportedProtocol,
)

EVENTS = "text/event-stream"

# Lines of an event stream that hold nothing; the last may go on.
_COMMENTS = re.compile(rb"(?:(?::[^\r\n]*)?[\r\n])*(:[^\r\n]*)?")

_load_certificates = cache(httpx2.create_ssl_context)


class TooLongError(httpx2.StreamError):
    """More than is taken; the text says what came."""


class StalledError(httpx2.StreamError):
    """What had begun to come has not come whole in time."""

    def __init__(self) -> None:
        super().__init__("did not end its answer in time")


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
            return _bound_events(request, await super().send(request, **options))
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
        except TooLongError as error:
            return _failure(request, TOO_LONG, str(error))
        except StalledError as error:
            return _failure(request, REPLY_LOST, str(error))
        except (httpx2.RequestError, httpx2.StreamError) as error:
            return _failure(request, REPLY_LOST, _reason(error, "broke off its answer"))


async def _read_answer(
    request: httpx2.Request, response: httpx2.Response
) -> httpx2.Response:
    """The answer, read to its end where it is not a stream of events."""
    kind = _read_kind(response)
    if response.is_success and kind == EVENTS:
        return _bound_events(request, response)
    if response.has_redirect_location:
        return response
    try:
        body = b"".join([chunk async for chunk in Chunks(response)])
    finally:
        await response.aclose()
    _check(body)
    if not response.is_success:
        return _refused(request, response, body)
    asked = _json(request.content)
    # A notification asks for no answer.
    is_call = {"id", "method"} <= asked.keys()
    if is_call and (kind != "application/json" or not body):
        said = f"{response.status_code} {kind}".strip()
        return _failure(request, REPLY_LOST, f"answered {said}, which is not MCP")
    if is_call and not _answers(asked, _json(body)):
        return _failure(request, REPLY_LOST, "answered something else")
    return _copy(request, response, body)


def _answers(asked: dict[str, Any], said: dict[str, Any]) -> bool:
    """Whether this is the answer to a call; for another one the SDK would wait on."""
    ours = type(said.get("id")) is type(asked["id"]) and said["id"] == asked["id"]
    return ours and not {"result", "error"}.isdisjoint(said)


def _check(data: bytes) -> None:
    try:
        BOUNDS.check(data)
    except (TooMuchJsonError, TooDeepJsonError) as error:
        raise TooLongError(f"sent an answer of {error}") from None


class Chunks:
    """The bytes of a response as they come: not too many, and without stalling.

    ``begun`` is when that began to come which is not whole yet.
    """

    def __init__(self, response: httpx2.Response) -> None:
        self._left = response.aiter_bytes()
        self._size = 0
        self.begun: float | None = None

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (chunk := await self._read()) is not None:
            if self.begun is None:
                self.begun = time.monotonic()
            yield chunk

    async def _read(self) -> bytes | None:
        ends = self.begun and self.begun + BODY_SECONDS - time.monotonic()
        try:
            async with asyncio.timeout(ends):
                chunk = await anext(self._left, None)
        except TimeoutError:
            raise StalledError from None
        self._size += len(chunk or b"")
        if self._size > MAX_BYTES:
            raise TooLongError(f"sent more than {MAX_BYTES >> 20} MiB")
        return chunk


def _bound_events(
    request: httpx2.Request, response: httpx2.Response
) -> httpx2.Response:
    if not response.is_success or _read_kind(response) != EVENTS:
        return response
    return httpx2.Response(
        response.status_code,
        headers=_drop_encoding(response.headers),
        stream=Events(request, response),
        request=request,
    )


class Events(httpx2.AsyncByteStream):
    """The events of a stream, each whole and within bounds.

    One beyond them is the last: a call gets an error in its place.
    """

    def __init__(self, request: httpx2.Request, response: httpx2.Response) -> None:
        self._request, self._response = request, response
        self._chunks = Chunks(response)
        # How the line that goes on began where it holds nothing; None after what does.
        self._line: bytes | None = b""
        self._count = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        kind = {"Content-Type": EVENTS}
        plain = httpx2.Response(
            200, headers=kind, content=self._read(), request=self._request
        )
        try:
            async for event in httpx2.EventSource(plain, max_event_size=None):
                self._step()
                _check(event.data.encode())
                yield _write(event)
        except (TooLongError, StalledError) as error:
            if self._request.method != "GET":
                failure = TOO_LONG if isinstance(error, TooLongError) else REPLY_LOST
                said = _describe_failure(self._request, failure, str(error))
                yield _write(httpx2.ServerSentEvent(data=json.dumps(said)))

    async def aclose(self) -> None:
        """Close the response."""
        await self._response.aclose()

    async def _read(self) -> AsyncIterator[bytes]:
        async for chunk in self._chunks:
            if chunk and self._line is not None:
                found = _COMMENTS.fullmatch(self._line + chunk)
                self._line = found and found[1] and b":"
                if found and not found[1]:
                    # A server that holds a call says so by them.
                    self._step()
            yield chunk

    def _step(self) -> None:
        """Count an event, or comments alone, after which nothing has begun."""
        self._line = b""
        self._chunks.begun = None
        self._count += 1
        if self._count > MAX_EVENTS:
            raise TooLongError(f"sent {MAX_EVENTS:,} messages and no answer")


def _write(event: httpx2.ServerSentEvent) -> bytes:
    fields = [f"event: {event.event}"]
    fields += [f"id: {event.id}"] if event.id else []
    fields += [f"retry: {event.retry}"] if event.retry is not None else []
    fields += [f"data: {line}" for line in event.data.split("\n")]
    return "\n".join([*fields, "", ""]).encode()


def _read_kind(response: httpx2.Response) -> str:
    kind: str = response.headers.get("content-type", "")
    return kind.partition(";")[0].strip().lower()


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
    headers = _drop_encoding(response.headers)
    return httpx2.Response(
        response.status_code, headers=headers, content=body, request=request
    )


def _drop_encoding(given: httpx2.Headers) -> httpx2.Headers:
    headers = httpx2.Headers(given)
    for name in ("content-encoding", "content-length", "transfer-encoding"):
        headers.pop(name, None)
    return headers


def _failure(
    request: httpx2.Request,
    failure: str,
    detail: str,
    *,
    retry_after: float | None = None,
) -> httpx2.Response:
    answer = _describe_failure(request, failure, detail, retry_after)
    return httpx2.Response(503, json=answer, request=request)


def _describe_failure(
    request: httpx2.Request,
    failure: str,
    detail: str,
    retry_after: float | None = None,
) -> dict[str, Any]:
    data = {"failure": failure, "retry_after": retry_after}
    error = {"code": FAILURE, "message": detail, "data": data}
    return {"jsonrpc": "2.0", "id": _json(request.content).get("id"), "error": error}


def _json(body: bytes) -> dict[str, Any]:
    """The object that this is, read as the SDK reads it; empty for anything else."""
    try:
        value = from_json(body)
    except ValueError:
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
