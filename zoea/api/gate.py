"""JSON bodies from outside: bounded, and storable in PostgreSQL."""

from __future__ import annotations

import ctypes
import gc
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from django.http import HttpRequest, JsonResponse, UnreadablePostError
from django.http.response import HttpResponseBase

from memory.lookup import Problem, release_connection
from zoea import rate_limits
from zoea.api.idempotency import answer_once
from zoea.auth import API_ROOT, READS, Role, admit, check_csrf

MAX_BYTES = 1024 * 1024
# Whole histories come in here.
LARGER = {f"{API_ROOT}/context/assemble": 64 * 1024 * 1024}
LARGEST = max(MAX_BYTES, *LARGER.values())
MAX_DEPTH = 64
# Each list and object of a body takes some hundred bytes of memory, however short it is
# written. Within MAX_BYTES no history is refused for them: its messages are longer.
MAX_CONTAINERS = 50_000
MAX_CONTAINERS_LARGE = 200_000
MAX_MESSAGES = 100_000
MAX_VALUES = 2_000_000

# Only glibc has it.
TRIM = getattr(ctypes.CDLL(None), "malloc_trim", None)

# A string (also one that nobody closed), the begin or end of a list or an object, or
# another value. Possessive, so that no string is gone through twice.
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[\[\]{}]|[^\s\[\]{}:,"]++', re.DOTALL)


@contextmanager
def body_of(request: HttpRequest, role: Role) -> Iterator[bytes]:
    """The raw body, while it is worked on; a large one waits for its turn.

    Raises a Problem: 413 above what the route takes from this role, or where there is
    too much in it; 503 where other large bodies take too long.
    """
    limit = LARGER.get(request.path_info, MAX_BYTES)
    allowed = limit if role >= Role.OPERATOR else MAX_BYTES
    length = request.headers.get("Content-Length", "0")
    if length.isdecimal() and int(length) > allowed:
        raise too_large(allowed, limit)
    # A body sent in chunks tells no length before.
    body = _read(request, MAX_BYTES + 1)
    if len(body) <= MAX_BYTES:
        yield _kept(request, body)
        return
    if allowed == MAX_BYTES:
        raise too_large(allowed, limit)
    release_connection()
    with rate_limits.large_bodies.taken():
        body += _read(request, allowed - MAX_BYTES)
        if len(body) > allowed:
            raise too_large(allowed, limit)
        try:
            yield _kept(request, body)
        finally:
            _give_memory_back(request)


def _give_memory_back(request: HttpRequest) -> None:
    """Let the system have again what a large body took.

    The request and its values refer to each other, so only the collector finds them. And
    glibc keeps freed texts for the arena of their thread: without the trim 180 MiB stay
    after three bodies of 60 MiB, with it 40.
    """
    request._body = b""
    request.json = None  # type: ignore[attr-defined]
    gc.collect()
    if TRIM is not None:
        TRIM(0)


def too_large(allowed: int, limit: int) -> Problem:
    """The 413 of a body over ``allowed`` bytes, where some may send ``limit``."""
    detail = f"The body is larger than {allowed:,} bytes: send less at once"
    if allowed < limit:
        detail += f", or as an operator or admin, who may send {limit:,}"
    return Problem(413, "too_large", f"{detail}.")


def _read(request: HttpRequest, size: int) -> bytes:
    try:
        body: bytes = request.read(size)
    except UnreadablePostError as error:
        raise malformed("it ended early") from error
    return body


def _kept(request: HttpRequest, body: bytes) -> bytes:
    """The body, if it may be parsed, also where Django looks for it."""
    check_counts(body)
    # Django's own property has one limit for all routes.
    request._body = body
    return body


def check_counts(body: bytes) -> None:
    """Raise a 413 Problem for a body that would take too much memory parsed.

    This goes over the bytes and keeps nothing, so it takes none itself. A body that is
    too deep is the 400 that parsing it would end in.
    """
    containers = MAX_CONTAINERS if len(body) <= MAX_BYTES else MAX_CONTAINERS_LARGE
    opened = body.count(b"[") + body.count(b"{")
    signs = opened + body.count(b",")
    # What stands in texts is counted here as well, so there is no more than this.
    if opened <= min(containers, MAX_MESSAGES) and signs <= MAX_VALUES // 2:
        return
    opened = messages = values = depth = 0
    for token in _TOKEN.finditer(body):
        sign = body[token.start()]
        if sign in b"[{":
            opened += 1
            depth += 1
            if depth > MAX_DEPTH:
                raise too_deep()
            # {"messages": [{...
            messages += sign in b"{" and depth == 3
        elif sign in b"]}":
            depth -= 1
        else:
            values += 1
        if opened > containers:
            raise too_many(containers, "lists and objects")
        if messages > MAX_MESSAGES:
            raise too_many(MAX_MESSAGES, "messages")
        if values > MAX_VALUES:
            raise too_many(MAX_VALUES, "names and values")


def too_many(most: int, what: str) -> Problem:
    """The 413 of a body that holds too much, however few bytes it takes."""
    return Problem(
        413,
        "too_large",
        f"The body holds more than {most:,} {what}: send fewer at once.",
    )


def parse_body(body: bytes) -> Any:
    """The JSON value of a body, without NUL characters.

    Raises a 400 Problem for what is not JSON in UTF-8, for NaN and Infinity,
    for lone surrogates, and beyond 64 levels.
    """
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise malformed(f"byte {error.start} is not UTF-8") from error
    try:
        value = json.loads(text, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise malformed(
            f"{error.msg} at line {error.lineno}, column {error.colno}"
        ) from error
    except RecursionError as error:
        raise too_deep() from error
    except ValueError as error:
        raise malformed("a number in it is too long") from error
    return clean(value, MAX_DEPTH)


def clean(value: Any, depth: int) -> Any:
    """A copy without NUL; raises a Problem where text or depth is unusable."""
    if isinstance(value, str):
        return clean_text(value)
    if not isinstance(value, dict | list):
        return value
    if depth == 0:
        raise too_deep()
    if isinstance(value, list):
        return [clean(item, depth - 1) for item in value]
    return {clean_text(k): clean(v, depth - 1) for k, v in value.items()}


def clean_text(text: str) -> str:
    """Text without NUL; raises a Problem for a lone surrogate."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise malformed("a text in it holds half a surrogate pair") from error
    return text.replace("\x00", "")


def malformed(what: str) -> Problem:
    """The 400 of a body that is not usable JSON."""
    return Problem(400, "malformed", f"The body is not usable JSON: {what}.")


def too_deep() -> Problem:
    """The 400 of a body with more levels than are taken."""
    return malformed(f"it is nested deeper than {MAX_DEPTH} levels")


def _no_constant(name: str) -> NoReturn:
    raise malformed(f"{name} is not a JSON number")


# SECTION Around the REST API: admission, bodies, repeated writes, and one error shape.
#
# This stands in front of the routes, so that a role is checked before anything
# is read and a path that does not exist answers like every other error.

GetResponse = Callable[[HttpRequest], HttpResponseBase]

SAYINGS = {
    400: ("bad_request", "The request cannot be understood."),
    403: ("forbidden", "This is not allowed."),
    404: ("not_found", f"There is nothing here; {API_ROOT}/openapi.json lists all."),
    405: ("method_not_allowed", "This route does not take this method."),
    500: ("internal", "The server failed; its log says why."),
}


class ApiGateMiddleware:
    """Guards everything below ``/api/v1/``."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Admit, answer, and put every error into one shape."""
        if not request.path_info.startswith(f"{API_ROOT}/"):
            return self.get_response(request)
        try:
            return in_shape(self._answer(request))
        except Problem as problem:
            return respond(problem)

    def _answer(self, request: HttpRequest) -> HttpResponseBase:
        caller = admit(request)
        request.caller = caller  # type: ignore[attr-defined]
        if request.method in READS:
            return self.get_response(request)
        with body_of(request, caller.role) as body:
            if caller.session:
                check_csrf(request)
            request.json = parse_body(body) if body else None  # type: ignore[attr-defined]
            return answer_once(request, caller.by, body, self.get_response)


def respond(problem: Problem) -> JsonResponse:
    """A Problem as an answer."""
    return JsonResponse(
        {"detail": problem.detail, "code": problem.code},
        status=problem.status,
        headers=problem.headers,
    )


def in_shape(response: HttpResponseBase) -> HttpResponseBase:
    """Errors that were not made by the routes, in the shape of those that were."""
    status = response.status_code
    if status < 400 or response.headers.get("Content-Type", "").startswith(
        "application/json"
    ):
        return response
    code, detail = SAYINGS.get(status, SAYINGS[500 if status >= 500 else 400])
    answer = JsonResponse({"detail": detail, "code": code}, status=status)
    for name in ("Allow", "Retry-After"):
        if name in response.headers:
            answer[name] = response.headers[name]
    return answer
