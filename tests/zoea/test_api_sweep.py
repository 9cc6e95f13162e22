"""The same bad requests at every route of the document, so also at new ones."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from tests.factories import make_account, make_memory, make_mysis, make_turn
from tests.programs import ROOT, Program
from zoea import rate_limits
from zoea.api import api
from zoea.api.openapi import list_operations
from zoea.models import ApiToken

pytestmark = pytest.mark.django_db

DEEP = b"[" * 5000 + b"]" * 5000
#: What no route can use, and the statuses that say so.
BODIES = {
    "not JSON": (b"{", {400}),
    "bad UTF-8": (b'{"text": "\xff\xfe"}', {400}),
    "UTF-16": ('{"text": "x"}'.encode("utf-16"), {400}),
    "half a surrogate": (b'{"text": "\\ud800"}', {400}),
    "half a surrogate as a key": (b'{"\\udc00": 1}', {400}),
    "NaN": (b'{"a": NaN}', {400}),
    "endless number": (b'{"a": ' + b"9" * 5000 + b"}", {400}),
    "deep list": (DEEP, {400}),
    "deep object": (b'{"a":' * 80 + b"1" + b"}" * 80, {400}),
}
#: Of these some routes take what they need; none may fail.
STRANGE = {
    "nothing": b"",
    "null": b"null",
    "a list": b"[]",
    "a text": b'"x"',
    "a number": b"1e308",
    "NUL": b'{"text": "\\u0000", "name": "\\u0000", "model": "\\u0000"}',
    "huge numbers": b'{"number": 1e300, "max_iterations": 99999999999999999999, '
    b'"name": "x", "model": "pilot", "window": -1, "kind": "openai", "text": 5}',
    "wrong types": b'{"text": {}, "name": [], "model": 1, "options": "x", '
    b'"budget": [], "messages": 3, "tool": null, "arguments": [], "number": "x"}',
    "half right": b'{"budget": {"tokens": 1e400, "reserve": "x"}, "name": "x"}',
}
REFERENCES = (
    "0", "-1", "1.5", "9" * 19, "9" * 400, "nobody", "%00", "%ED%A0%80", "%FF", "..",
    "%2e%2e%2f", "%D9%A3", "x" * 3000, "%F0%9F%9A%80", "'%20or%201=1--", "%25", "{}",
)  # fmt: skip
VALUES = (
    "", "x", "-1", "1e3", "9" * 40, "%00", "%ED%A0%80", "%FF", "null", "[]", "{}", "%",
    "x" * 5000, "{%22tokens%22:1e999}", "%D9%A3", "true",
)  # fmt: skip
ORIGINS = ("https://evil.example", "null", "http://testserver:81", "\x00", "é")
ROUTES = [
    (
        method.upper(),
        path.removeprefix(ROOT),
        tuple(p["name"] for p in one.get("parameters", []) if p.get("in") == "query"),
    )
    for path, method, one in list_operations(api.get_openapi_schema())
]
WRITES = [(method, path) for method, path, _ in ROUTES if method != "GET"]
everywhere = pytest.mark.parametrize(
    ("method", "path", "query"), ROUTES, ids=[f"{m} {p}" for m, p, _ in ROUTES]
)
writing = pytest.mark.parametrize(
    ("method", "path"), WRITES, ids=[f"{m} {p}" for m, p in WRITES]
)


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> Program:
    for limit in ("writes", "wrong_tokens"):
        monkeypatch.setattr(
            rate_limits, limit, rate_limits.Limiter(rate=1e6, burst=10**6)
        )
    mysis = make_mysis(name="Ada", account=make_account())
    make_memory(mysis)
    make_turn(mysis)
    return Program()


def filled(path: str, reference: str = "") -> str:
    """A path that names what is there, or else this."""
    path = path.replace("{reference}", reference or "Ada")
    return path.replace("{turn_id}", reference or "1").replace(
        "{number}", reference or "1"
    )


def check(response: Any, expected: set[int] | None = None) -> None:
    """A refusal in the one shape, or, where nothing is expected, no failure."""
    content = b"" if response.streaming else response.content
    said = (response.status_code, content[:300])
    assert response.status_code < 500 or said[0] == 503, said
    if expected is not None:
        assert response.status_code in expected, said
    if response.status_code >= 400:
        assert set(response.json()) == {"detail", "code"}
        assert response.json()["detail"].strip()


@writing
def test_bodies_that_nobody_can_use(program: Program, method: str, path: str) -> None:
    for body, expected in BODIES.values():
        check(program.call(method, filled(path), body), expected)


@writing
def test_bodies_that_are_strange(program: Program, method: str, path: str) -> None:
    for body in STRANGE.values():
        check(program.call(method, filled(path), body))


@writing
def test_bodies_of_ten_megabytes(program: Program, method: str, path: str) -> None:
    body = b'{"text": "' + b"x" * (10 * 1024 * 1024) + b'"}'
    large = path == "/context/assemble"
    check(program.call(method, filled(path), body), {422} if large else {413})


@everywhere
def test_references_to_nothing(
    program: Program, method: str, path: str, query: tuple[str, ...]
) -> None:
    for reference in REFERENCES if "{" in path else ():
        response = program.call(
            method, filled(path, reference), None if method == "GET" else b"{}"
        )
        check(response, {404, 405, 409, 422})


@everywhere
def test_parameters_that_are_strange(
    program: Program, method: str, path: str, query: tuple[str, ...]
) -> None:
    for place, name in enumerate(query):
        for value in VALUES:
            check(program.call(method, f"{filled(path)}?{name}={value}"))
        twice = f"{name}={VALUES[place % len(VALUES)]}&{name}=x"
        check(program.call(method, f"{filled(path)}?{twice}"))
    check(program.call(method, f"{filled(path)}?%00=%00&unknown=1&&=", b"{}"))


@everywhere
def test_tokens_that_are_over(
    program: Program, method: str, path: str, query: tuple[str, ...]
) -> None:
    ApiToken.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    check(program.call(method, filled(path), b"{}"), {401})
    ApiToken.objects.update(expires_at=None, revoked_at=timezone.now())
    check(program.call(method, filled(path), b"{}"), {401})
    ApiToken.objects.all().delete()
    check(program.call(method, filled(path), b"{}"), {401})


@writing
def test_pages_of_other_sites_cannot_write_with_a_session(
    program: Program, method: str, path: str
) -> None:
    """Not even with a CSRF token, which they could have planted."""
    client = Client(enforce_csrf_checks=True)
    client.force_login(User.objects.create_superuser("root"))
    client.cookies["csrftoken"] = "a" * 32
    for origin in ORIGINS:
        response = client.generic(
            method,
            ROOT + filled(path),
            b"{}",
            content_type="application/json",
            headers={"X-CSRFToken": "a" * 32, "Origin": origin},
        )
        check(response, {403})


@writing
def test_keys_that_are_none(program: Program, method: str, path: str) -> None:
    for key in ("", "x" * 201, "é", "a\tb"):
        response = program.call(method, filled(path), b"{}", **{"Idempotency-Key": key})
        check(response, {422})


@pytest.mark.parametrize("place", ["/", "/nowhere", "/myses/", "/myses//start", "/%00"])
@pytest.mark.parametrize(
    "method", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "ODD"]
)
def test_places_that_are_none(program: Program, method: str, place: str) -> None:
    check(program.call(method, place, b"{}"))
