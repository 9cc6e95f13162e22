"""Methods that no address takes: 405 with those it takes, at every door."""

from __future__ import annotations

import re

import pytest
from django.contrib.auth.models import User
from django.test import Client

from tests.factories import make_mysis
from tests.programs import Program
from zoea.api import api

pytestmark = pytest.mark.django_db

UNKNOWN = ("TRACE", "CONNECT", "PROPFIND")
PAGES = ("/", "/sign-in/", "/myses/Ada/", "/send/", "/search/", "/nowhere/")
ADMIN = ("/admin/", "/admin/login/", "/admin/auth/user/", "/favicon.ico")
SOCKETS = ("/ws/v1/events", "/ws/dashboard/")
READABLE = ("/healthz", "/readyz", "/metrics", "/static/nothing.css", *SOCKETS)


@pytest.fixture(params=["stranger", "admin"])
def visitor(request: pytest.FixtureRequest) -> Client:
    """A browser, with or without a session; its forms lack the CSRF token."""
    client = Client(raise_request_exception=False, enforce_csrf_checks=True)
    if request.param == "admin":
        client.force_login(User.objects.create_superuser("root"))
    return client


def test_pages_probes_and_sockets_say_what_they_take(visitor: Client) -> None:
    make_mysis(name="Ada")
    pages = {path: {"GET", "HEAD", "POST"} for path in PAGES + ADMIN}
    read = {path: {"GET", "HEAD"} for path in READABLE}
    for path, allowed in (pages | read).items():
        for method in (*UNKNOWN, "PUT", "PATCH", "DELETE"):
            answer = visitor.generic(method, path, HTTP_X_SECRET="not to be echoed")
            assert answer.status_code == 405, path
            assert set(answer["Allow"].split(", ")) == allowed, path
            assert b"echoed" not in answer.content
        if path != "/metrics":
            answer = visitor.options(path)
            assert answer.status_code == 204, path
            assert set(answer["Allow"].split(", ")) == allowed, path
        if path not in pages:
            assert visitor.post(path).status_code == 405, path


def test_what_only_begins_like_a_probe_is_not_there(client: Client) -> None:
    client.force_login(User.objects.create_user("ann"))
    assert client.post("/healthzfoo").status_code == 404


@pytest.mark.parametrize("path", SOCKETS)
def test_a_socket_asked_for_as_a_page_says_what_it_is(path: str) -> None:
    answer = Client().get(path)
    assert (answer.status_code, answer["Upgrade"]) == (426, "websocket")
    assert b"is a WebSocket" in answer.content


def test_every_rest_route_says_what_it_takes() -> None:
    viewer = Program("viewer")
    paths = api.get_openapi_schema()["paths"]
    assert len(paths) > 40
    known: tuple[dict[str, str], ...] = (
        {"Authorization": f"Bearer {viewer.secret}"},
        {},
    )
    for place, (path, operations) in enumerate(paths.items()):
        allowed = {name.upper() for name in operations} - {"PARAMETERS"}
        answer = viewer.client.generic(
            UNKNOWN[place % 3],
            re.sub(r"\{[^}]+\}", "1", path),
            headers=known[place % 2],
        )
        assert answer.status_code == 405, path
        assert set(answer["Allow"].split(", ")) == allowed, path
        assert answer.json()["code"] == "method_not_allowed"


@pytest.mark.parametrize("path", ["openapi.json", "docs"])
def test_the_document_can_only_be_read(path: str) -> None:
    admin = Program("admin")
    for method in UNKNOWN:
        answer = admin.call(method, f"/{path}")
        assert (answer.status_code, answer["Allow"]) == (405, "GET, HEAD")
        assert admin.call(method, "/").status_code == 404
    assert admin.get(f"/{path}").status_code == 200
