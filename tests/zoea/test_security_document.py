"""docs/security.md says what is so: roles by calling every route, headers, limits."""

from __future__ import annotations

import asyncio
import re
from datetime import timedelta

import pytest
from asgiref.sync import sync_to_async
from asgiref.testing import ApplicationCommunicator
from django.contrib.auth.models import User
from django.test import Client

import agents.urls
from agents import context_inputs, hub
from agents.consumers import event_stream
from agents.lab import prices
from agents.llm.model_types import MOST_CALLS
from memory.api.parameters import PAGE_BYTES
from memory.search import query
from tests.programs import Program
from tests.zoea.documents import find_routes, list_blocks, read_table
from zoea import asgi, daphne, rate_limits, websockets
from zoea.api import api, gate
from zoea.api.openapi import list_operations
from zoea.auth import API_ROOT, READS, create_token
from zoea.models import Role

pytestmark = pytest.mark.django_db

SECURITY = "docs/security.md"
MCP_CALL = (
    b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", '
    b'"params": {"name": "zoea_list_myses", "arguments": {}}}'
)
ROUTES = sorted(
    (method.upper(), path.removeprefix(API_ROOT))
    for path, method, _ in list_operations(api.get_openapi_schema())
)


def read_roles() -> dict[tuple[str, str], Role]:
    """The least role of each route, as the table says; what is not in it is a read."""
    rows = [
        row for row in read_table(SECURITY, "## Who may do what") if find_routes(row[1])
    ]
    written = [
        (route, role)
        for _, routes, *answers in rows
        for route in find_routes(routes)
        for role in [
            next(r for r, said in zip(Role, answers, strict=True) if said != "no")
        ]
    ]
    # No route stands in two rows.
    assert len(dict(written)) == len(written)
    return dict(written)


def test_the_table_names_every_write_and_no_other_route():
    roles = read_roles()
    writes = {route for route in ROUTES if route[0] not in READS}
    assert writes <= set(roles) <= set(ROUTES)


@pytest.mark.parametrize("role", Role)
def test_every_route_asks_for_the_role_that_the_table_says(
    role: Role, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(
        rate_limits, "writes", rate_limits.Limiter(rate=1e6, burst=10**6)
    )
    program, roles = Program(role.label), read_roles()
    for method, path in ROUTES:
        # Nothing has this name: who is let in is told so, or of the body.
        answer = program.call(method, path.format_map(Nobody()), b"{")
        allowed = role >= roles.get((method, path), Role.VIEWER)
        assert (answer.status_code != 403) is allowed, (method, path, answer.content)


class Nobody(dict[str, str]):
    """Fills every parameter of a path."""

    def __missing__(self, name: str) -> str:
        return "0"


# --- Defaults

PAGES = [
    "/" + re.sub(r"<[^>]+>", "1", str(one.pattern)) for one in agents.urls.urlpatterns
]


@pytest.mark.parametrize("path", [*PAGES, "/admin/", "/admin/agents/mysis/"])
def test_a_stranger_sees_nothing(path: str):
    for method in ("get", "post"):
        answer = getattr(Client(), method)(path)
        assert (answer.status_code, answer["Location"].partition("?")[0]) == (
            302,
            "/sign-in/",
        )


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/sign-in/", 200),
        ("/healthz", 200),
        ("/readyz", 200),
        ("/static/css/fleet.css", 200),
        ("/metrics", 401),
        ("/api/v1/openapi.json", 401),
    ],
)
def test_what_is_open_to_strangers(path: str, status: int):
    assert Client().get(path).status_code == status


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        *[("GET", path, 200) for path in ("/sign-in/", "/healthz", "/readyz")],
        *[("GET", path, 401) for path in ("/api/v1/fleet", "/metrics")],
        ("GET", "/", 302),
        ("TRACE", "/", 405),
        ("OPTIONS", "/", 204),
        ("GET", "/mcp", 405),
        ("POST", "/mcp", 401),
        ("POST", "/mcp with a token", 200),
        ("POST", "/mcp with too much", 413),
    ],
)
def test_every_answer_has_these_headers(
    transactional_db: None, method: str, path: str, status: int
):
    """Also of what is no page: programs, probes, and methods that nothing takes."""
    [block] = [one for one in list_blocks() if one.document == SECURITY and not one.why]
    path, _, what = path.partition(" ")
    body = MCP_CALL + b" " * gate.MAX_BYTES * what.endswith("too much")
    found, headers = asyncio.run(ask_server(method, path, body if what else b"", what))
    assert found == status
    for line in block.text.splitlines():
        name, _, value = line.partition(": ")
        assert headers[name.lower()] == value
    assert {"private", "no-store"} <= set(headers["cache-control"].split(", "))


async def ask_server(
    method: str, path: str, body: bytes, token: str
) -> tuple[int, dict[str, str]]:
    """Status and headers as they leave the server."""
    said = {"host": "localhost", "content-type": "application/json"}
    said["accept"] = "application/json, text/event-stream"
    if token:
        _, secret = await sync_to_async(create_token)(name="program", role="viewer")
        said["authorization"] = f"Bearer {secret}"
    headers = [(name.encode(), value.encode()) for name, value in said.items()]
    scope = {"type": "http", "method": method, "path": path, "query_string": b""}
    asked = ApplicationCommunicator(asgi.application, {**scope, "headers": headers})
    await asked.send_input({"type": "http.request", "body": body})
    start = await asked.receive_output(60)
    while (await asked.receive_output(60)).get("more_body"):
        pass
    await asked.wait(60)
    named = {name.decode().lower(): value.decode() for name, value in start["headers"]}
    return start["status"], named


def test_the_cookies_of_a_session(monkeypatch: pytest.MonkeyPatch):
    grace = User.objects.create_user("grace", password="correct horse")
    client = Client()
    client.post("/sign-in/", {"username": grace.username, "password": "correct horse"})
    cookie = client.cookies["sessionid"]
    weeks = timedelta(seconds=cookie["max-age"]) / timedelta(weeks=1)
    assert (cookie["httponly"], cookie["samesite"], weeks) == (True, "Lax", 2)


def test_the_limits_are_those_of_the_program():
    rates = {
        "wrong passwords for one name from one address": rate_limits.wrong_passwords,
        "wrong passwords from one address": rate_limits.wrong_names,
        "wrong tokens from one address": rate_limits.wrong_tokens,
        "writes of one person or token": rate_limits.writes,
    }
    [assembled] = gate.LARGER.values()
    most = {
        "passwords that are hashed at a time": rate_limits.hashes.places,
        "a body": f"{gate.MAX_BYTES >> 20} MiB",
        "a body of `POST /context/assemble`, for operators and admins": (
            f"{assembled >> 20} MiB"
        ),
        "bodies over 1 MiB that are received at a time": daphne.LARGE_ROOMS,
        "bodies over 1 MiB that are worked on at a time": (
            rate_limits.large_bodies.places
        ),
        "other histories that are worked on at a time": rate_limits.histories.places,
        "searches at a time: half of the `ZOEA_DB_POOL` connections": (
            query._places.places
        ),
        "predictions of prices at a time": prices._places.places,
        "contexts that are put together to be looked at at a time": (
            context_inputs.previews.places
        ),
        "event sockets of one person or token": event_stream.MOST_OF_ONE,
        "event sockets that read what they missed at a time": hub.READING,
        "pieces of answers (logs, tables, the last hour) that are made at a time": (
            asgi.streams.places
        ),
        "of these for one person or token": asgi.streams.each,
        "tool calls in one answer of a model": MOST_CALLS,
        "bytes of texts on a page over REST, of more than one item": (
            f"{PAGE_BYTES >> 20} MiB"
        ),
        "seconds that a client takes nothing of what it asked for, before it is cut off": (
            f"{daphne.STALLED:g}"
        ),
        "seconds between two checks of open sockets": f"{websockets.RECHECK:g}",
    }
    told = [
        *([what, str(one.burst), f"{1 / one.rate:g} s"] for what, one in rates.items()),
        *([what, str(value)] for what, value in most.items()),
    ]
    assert read_table(SECURITY, "### Limits") == told
