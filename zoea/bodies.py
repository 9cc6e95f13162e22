"""JSON bodies from outside: bounded, and storable in PostgreSQL."""

from __future__ import annotations

import json
from typing import Any, NoReturn

from django.http import HttpRequest, UnreadablePostError

from memory.problems import Problem

from .auth.roles import API_ROOT

MAX_BYTES = 1024 * 1024
# Whole histories come in here.
LARGER = {f"{API_ROOT}/context/assemble": 64 * 1024 * 1024}
LARGEST = max(MAX_BYTES, *LARGER.values())
MAX_DEPTH = 64


def read_body(request: HttpRequest) -> bytes:
    """The raw body; raises a 413 Problem above what the route takes."""
    limit = LARGER.get(request.path_info, MAX_BYTES)
    too_large = Problem(
        413, "too_large", f"The body is larger than {limit:,} bytes: send less at once."
    )
    length = request.headers.get("Content-Length", "0")
    if length.isdecimal() and int(length) > limit:
        raise too_large
    try:
        # A body sent in chunks tells no length before.
        body: bytes = request.read(limit + 1)
    except UnreadablePostError as error:
        raise malformed("it ended early") from error
    if len(body) > limit:
        raise too_large
    # Django's own property has one limit for all routes.
    request._body = body
    return body


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
        raise malformed(f"it is nested deeper than {MAX_DEPTH} levels") from error
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
        raise malformed(f"it is nested deeper than {MAX_DEPTH} levels")
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


def _no_constant(name: str) -> NoReturn:
    raise malformed(f"{name} is not a JSON number")
