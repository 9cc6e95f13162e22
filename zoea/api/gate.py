"""The gate of the REST API: admission, bounded bodies, one shape for every error.

It stands in front of the routes, so that a role is checked before a body is read, and
an unknown path answers like every other error. A body is bounded before it is parsed,
and what comes out of it can be stored in PostgreSQL.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NoReturn

from django.http import HttpRequest, JsonResponse, UnreadablePostError
from django.http.response import HttpResponseBase

from agents import process_memory
from memory.audit import acting_as
from memory.json_bounds import (
    MAX_DEPTH,
    JsonBounds,
    TooDeepJsonError,
    TooMuchJsonError,
)
from memory.problems import Problem, make_busy
from memory.redaction import hide_secrets_offline
from zoea import rate_limits
from zoea.auth import (
    API_ROOT,
    READS,
    WRITES,
    Caller,
    admit_caller,
    check_csrf,
    find_address,
)
from zoea.idempotency import answer_once
from zoea.middleware import Middleware
from zoea.models import Role

MAX_BYTES = 1024 * 1024
# Bytes of the routes that take whole histories.
LARGER = {f"{API_ROOT}/context/assemble": 64 * 1024 * 1024}
# The server's mark on a request whose large body it had no room for (zoea/daphne.py).
NO_ROOM = "X-Zoea-No-Room"
# A history within MAX_BYTES has fewer: its messages are longer.
BOUNDS = JsonBounds(containers=50_000, messages=50_000, values=2_000_000)
LARGE_BOUNDS = JsonBounds(containers=200_000, messages=100_000, values=2_000_000)

MESSAGES = {
    400: ("bad_request", "The request cannot be understood."),
    403: ("forbidden", "This is not allowed."),
    404: ("not_found", f"There is nothing here; {API_ROOT}/openapi.json lists all."),
    405: ("method_not_allowed", "This route does not take this method."),
    500: ("internal", "The server failed; its log says why."),
}


class ApiGateMiddleware(Middleware):
    """Admits, bounds and answers everything below ``/api/v1/``."""

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if not request.path_info.startswith(f"{API_ROOT}/"):
            return self.get_response(request)
        try:
            if request.method not in READS | WRITES:
                # No route takes it, and so the router answers 405, with those it takes.
                return _shape_error(self.get_response(request))
            return _shape_error(self._answer(request))
        except Problem as problem:
            return answer_problem(problem)

    def _answer(self, request: HttpRequest) -> HttpResponseBase:
        caller = admit_caller(request)
        request.caller = caller  # type: ignore[attr-defined]
        with acting_as(caller.as_actor(find_address(request))):
            return self._answer_caller(request, caller)

    def _answer_caller(self, request: HttpRequest, caller: Caller) -> HttpResponseBase:
        if request.method in READS:
            return self.get_response(request)
        with read_body(request, caller.role) as body:
            if caller.session:
                check_csrf(request)
            request.json = parse_body(body) if body else None  # type: ignore[attr-defined]
            return answer_once(request, caller.by, body, self.get_response)


def answer_problem(problem: Problem) -> JsonResponse:
    return JsonResponse(
        {"detail": hide_secrets_offline(problem.detail), "code": problem.code},
        status=problem.status,
        headers=problem.headers,
    )


def _shape_error(response: HttpResponseBase) -> HttpResponseBase:
    """Give an error that no route made (Django's own) the shape of those that routes make."""
    status = response.status_code
    if status < 400 or response.headers.get("Content-Type", "").startswith(
        "application/json"
    ):
        return response
    code, detail = MESSAGES.get(status, MESSAGES[500 if status >= 500 else 400])
    names = {"Allow", "Retry-After"} & response.headers.keys()
    headers = {name: response.headers[name] for name in names}
    return answer_problem(Problem(status, code, detail, headers=headers))


@contextmanager
def read_body(request: HttpRequest, role: Role) -> Iterator[bytes]:
    """Read the body, and hold a place while it is worked on if it may be a history.

    Raises a Problem: 413 for more than the route takes from this role, 503 where no
    place became free in time.
    """
    limit = LARGER.get(request.path_info, MAX_BYTES)
    allowed = limit if role >= Role.OPERATOR else MAX_BYTES
    length = request.headers.get("Content-Length", "0")
    if length.isdecimal() and int(length) > allowed:
        raise make_too_large(allowed, limit)
    # A chunked body has no Content-Length.
    body = _read(request, MAX_BYTES + 1)
    is_large = len(body) > MAX_BYTES
    if is_large and allowed == MAX_BYTES:
        raise make_too_large(allowed, limit)
    if is_large and NO_ROOM in request.headers:
        raise make_busy(rate_limits.large_bodies.refusal)
    place: AbstractContextManager[None] = nullcontext()
    # A viewer may also write to the path with a slash, though nothing is there.
    if request.path_info.removesuffix("/") in LARGER:
        places = rate_limits.large_bodies if is_large else rate_limits.histories
        place = places.taken()
    with place:
        body += _read(request, allowed - MAX_BYTES)
        if len(body) > allowed:
            raise make_too_large(allowed, limit)
        try:
            check_counts(body)
            # Django's own property would apply one limit to all routes.
            request._body = body
            yield body
        finally:
            if is_large:
                _give_memory_back(request)


def _give_memory_back(request: HttpRequest) -> None:
    """Free a large body, and return its memory to the system.

    Request and values refer to each other, so only the garbage collector frees them.
    """
    request._body = b""
    request.json = None  # type: ignore[attr-defined]
    gc.collect()
    process_memory.trim()


def make_too_large(allowed: int, limit: int = 0) -> Problem:
    """The 413 of a body over ``allowed`` bytes; other roles may send ``limit``."""
    detail = f"The body is larger than {allowed:,} bytes: send less at once"
    if allowed < limit:
        detail += f", or as an operator or admin, who may send {limit:,}"
    return Problem(413, "too_large", f"{detail}.")


def _read(request: HttpRequest, size: int) -> bytes:
    try:
        return bytes(request.read(size))
    except UnreadablePostError as error:
        raise _malformed("it ended early") from error


def check_counts(body: bytes, bounds: JsonBounds | None = None) -> None:
    """Raise a Problem for a body that is not to be parsed: 413, or 400 where too deep."""
    if bounds is None:
        bounds = BOUNDS if len(body) <= MAX_BYTES else LARGE_BOUNDS
    try:
        bounds.check(body)
    except TooMuchJsonError as error:
        detail = f"The body holds {error}: send fewer at once."
        raise Problem(413, "too_large", detail) from error
    except TooDeepJsonError as error:
        raise _malformed(f"it is {error}") from error


def parse_body(body: bytes) -> Any:
    """Parse a body into a JSON value without NUL characters.

    Raises a 400 Problem for anything but JSON in UTF-8: also for NaN and Infinity, lone
    surrogates, and more than MAX_DEPTH levels.
    """
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _malformed(f"byte {error.start} is not UTF-8") from error
    try:
        value = json.loads(text, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise _malformed(
            f"{error.msg} at line {error.lineno}, column {error.colno}"
        ) from error
    except RecursionError as error:
        raise _too_deep() from error
    except ValueError as error:
        raise _malformed("a number in it is too long") from error
    return _clean_value(value, MAX_DEPTH)


def _clean_value(value: Any, depth: int) -> Any:
    """Copy a JSON value without NUL; raises a Problem for bad text or depth."""
    if isinstance(value, str):
        return _strip_nul(value)
    if not isinstance(value, dict | list):
        return value
    if depth == 0:
        raise _too_deep()
    if isinstance(value, list):
        return [_clean_value(item, depth - 1) for item in value]
    return {_strip_nul(k): _clean_value(v, depth - 1) for k, v in value.items()}


def _strip_nul(text: str) -> str:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise _malformed("a text in it holds half a surrogate pair") from error
    return text.replace("\x00", "")


def _malformed(what: str) -> Problem:
    return Problem(400, "malformed", f"The body is not usable JSON: {what}.")


def _too_deep() -> Problem:
    return _malformed(f"it is {TooDeepJsonError()}")


def _no_constant(name: str) -> NoReturn:
    raise _malformed(f"{name} is not a JSON number")
