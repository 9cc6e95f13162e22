"""The same bad requests at every route of the document, so also at new ones."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from tests.factories import make_account, make_memory, make_mysis, make_turn
from tests.programs import ROOT, Program
from zoea import rate_limits
from zoea.api import api
from zoea.api.openapi import list_operations

pytestmark = pytest.mark.django_db

#: What no route can use.
BODIES = (
    b"{",
    b'{"text": "\xff\xfe"}',
    '{"text": "x"}'.encode("utf-16"),
    b'{"text": "\\ud800"}',
    b'{"\\udc00": 1}',
    b'{"a": NaN}',
    b'{"a": ' + b"9" * 5000 + b"}",
    b"[" * 5000 + b"]" * 5000,
    b'{"a":' * 80 + b"1" + b"}" * 80,
)
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
    "0", "9" * 400, "nobody", "%00", "%ED%A0%80", "%2e%2e%2f", "%D9%A3", "x" * 3000,
)  # fmt: skip
VALUES = (
    "", "x", "-1", "9" * 40, "%00", "%ED%A0%80", "x" * 5000, "{%22tokens%22:1e999}",
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
    said = (response.status_code, content[:300], response.request["PATH_INFO"])
    assert response.status_code < 500 or said[0] == 503, said
    if expected is not None:
        assert response.status_code in expected, said
    if response.status_code >= 400:
        assert set(response.json()) == {"detail", "code"}
        assert response.json()["detail"].strip()


@everywhere
def test_no_route_fails(
    program: Program, method: str, path: str, query: tuple[str, ...]
) -> None:
    for body in STRANGE.values() if method != "GET" else ():
        check(program.call(method, filled(path), body))
    for reference in REFERENCES if "{" in path else ():
        response = program.call(
            method, filled(path, reference), None if method == "GET" else b"{}"
        )
        check(response, {404, 405, 409, 422})
    for place, name in enumerate(query):
        for value in VALUES:
            check(program.call(method, f"{filled(path)}?{name}={value}"))
        twice = f"{name}={VALUES[place % len(VALUES)]}&{name}=x"
        check(program.call(method, f"{filled(path)}?{twice}"))
    check(program.call(method, f"{filled(path)}?%00=%00&unknown=1&&=", b"{}"))


def test_every_write_is_refused_with_what_nobody_can_use(program: Program) -> None:
    """Each thing at a few routes, and one of them at each."""
    for place, (method, path) in enumerate(WRITES):
        body = BODIES[place % len(BODIES)]
        check(program.call(method, filled(path), body), {400})
        key = ("", "x" * 201, "é", "a\tb")[place % 4]
        response = program.call(method, filled(path), b"{}", **{"Idempotency-Key": key})
        check(response, {422})


def test_pages_of_other_sites_cannot_write_with_a_session(program: Program) -> None:
    """Not even with a CSRF token, which they could have planted."""
    client = Client(enforce_csrf_checks=True)
    client.force_login(User.objects.create_superuser("root"))
    client.cookies["csrftoken"] = "a" * 32
    for place, (method, path) in enumerate(WRITES):
        response = client.generic(
            method,
            ROOT + filled(path),
            b"{}",
            content_type="application/json",
            headers={
                "X-CSRFToken": "a" * 32,
                "Origin": ORIGINS[place % len(ORIGINS)],
            },
        )
        check(response, {403})


@pytest.mark.parametrize("place", ["/", "/nowhere", "/myses/", "/myses//start", "/%00"])
def test_places_that_are_none(program: Program, place: str) -> None:
    for method in ("GET", "POST", "PUT", "DELETE", "OPTIONS", "ODD"):
        check(program.call(method, place, b"{}"))
