"""A flood at one door of a running server leaves the other doors answering."""

from __future__ import annotations

import http.client
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any
from urllib.parse import urlencode

import psycopg
import pytest
from django.contrib.auth.models import User
from django.test import Client

from agents.models import ModelCall, Mysis
from bench.processes import Server, database_url, run_server
from tests.factories import make_mysis, make_turn
from zoea.auth import create_token

pytestmark = pytest.mark.django_db(transaction=True)

Headers = dict[str, str]
FORM = "application/x-www-form-urlencoded"
MCP_CALL = (
    b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", '
    b'"params": {"name": "zoea_list_myses", "arguments": {}}}'
)
WAITING = "SELECT count(*) FROM pg_locks WHERE NOT granted"


@pytest.fixture(scope="module")
def server(django_db_setup: None, django_db_blocker: Any) -> Iterator[Server]:
    """A server with few connections to the database."""
    with django_db_blocker.unblock(), run_server(ZOEA_DB_POOL="4") as started:
        yield started


@pytest.fixture
def bearer() -> Headers:
    _, secret = create_token(name="program", role="viewer")
    return {"Authorization": f"Bearer {secret}"}


def ask(
    server: Server, method: str, path: str, headers: Headers, body: bytes = b""
) -> tuple[int, str]:
    """Status of an answer and the cookie that it sets."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
    connection.request(method, path, body, headers)
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer.status, answer.headers.get("Set-Cookie", "")


@pytest.fixture
def doors(server: Server, bearer: Headers) -> Callable[[], set[int]]:
    """The statuses with which pages, admin, REST, MCP and figures answer."""
    make_mysis(name="Ada")
    browser = Client()
    browser.force_login(User.objects.create_superuser("root"))
    session = {"Cookie": f"sessionid={browser.cookies['sessionid'].value}"}
    mcp = bearer | {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
    }

    def statuses() -> set[int]:
        pages = [
            ask(server, "GET", path, session)
            for path in ("/prompts/", "/admin/auth/user/", "/sign-in/")
        ]
        programs = [
            ask(server, "GET", path, bearer)
            for path in ("/api/v1/policies", "/api/v1/myses", "/metrics", "/readyz")
        ]
        called = ask(server, "POST", "/mcp", mcp, MCP_CALL)
        # Whoever is signed in is sent on from the sign-in page.
        return {status for status, _ in [*pages, *programs, called]} - {302}

    return statuses


def all_done(flood: list[Future[tuple[int, str]]]) -> bool:
    return all(each.done() for each in flood)


def test_a_flood_of_sign_ins_leaves_the_other_doors_open(
    server: Server, doors: Callable[[], set[int]]
) -> None:
    _, cookie = ask(server, "GET", "/sign-in/", {})
    token = cookie.partition("csrftoken=")[2].partition(";")[0]
    headers = {"Cookie": f"csrftoken={token}", "Content-Type": FORM}

    def attempt(number: int) -> tuple[int, str]:
        form = {"username": f"n{number}", "password": "x", "csrfmiddlewaretoken": token}
        return ask(server, "POST", "/sign-in/", headers, urlencode(form).encode())

    with ThreadPoolExecutor(80) as crowd:
        flood = [crowd.submit(attempt, number) for number in range(80)]
        answered = 0
        while not all_done(flood):
            assert doors() == {200}
            answered += 1
    assert answered > 1
    statuses = [each.result()[0] for each in flood]
    # Fifty tries an address; who waits too long for a place is told to come back.
    assert set(statuses) <= {422, 429, 503}
    # While they are tried, a few more become free.
    assert statuses.count(429) >= 20


def check_doors_beside(
    table: str,
    requests: Sequence[Callable[[], tuple[int, str]]],
    doors: Callable[[], set[int]],
    allowed: frozenset[int] = frozenset({200, 503}),
) -> None:
    """These requests come at once, the first wait for a locked table: doors answer."""
    with (
        psycopg.connect(database_url()) as keeper,
        psycopg.connect(database_url(), autocommit=True) as watcher,
        ThreadPoolExecutor(len(requests)) as crowd,
    ):
        keeper.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
        flood = [crowd.submit(request) for request in requests]
        while watcher.execute(WAITING).fetchone() == (0,):
            time.sleep(0.01)
        try:
            for _ in range(2):
                assert doors() == {200}
            assert not all_done(flood)
        finally:
            keeper.rollback()
    assert {each.result()[0] for each in flood} <= allowed


def test_a_flood_of_searches_leaves_the_other_doors_open(
    server: Server, doors: Callable[[], set[int]], bearer: Headers
) -> None:
    """They wait for a table that is locked, as long as a slow search may take."""
    path = "/api/v1/search/messages?q=iron&mode=exact"
    search = partial(ask, server, "GET", path, bearer)
    check_doors_beside(
        "memory_memory", [search] * 24, doors, frozenset({200, 422, 503})
    )


@pytest.mark.parametrize(("page", "spans"), [("digest", 1), ("yield", 24)])
def test_a_flood_of_sums_leaves_the_other_doors_open(
    server: Server,
    doors: Callable[[], set[int]],
    bearer: Headers,
    page: str,
    spans: int,
) -> None:
    """Whether all ask for the same span or each for another one."""
    make_turn(Mysis.objects.get())
    paths = [f"/api/v1/{page}?since={30 + number % spans}m" for number in range(24)]
    requests = [partial(ask, server, "GET", path, bearer) for path in paths]
    check_doors_beside("agents_delivery", requests, doors)


def test_a_flood_of_predicted_prices_leaves_the_other_doors_open(
    server: Server, doors: Callable[[], set[int]], bearer: Headers
) -> None:
    turn = make_turn(Mysis.objects.get())
    ModelCall.objects.create(turn=turn, number=1, model="pilot", input_tokens=1)
    body = b'{"mysis": "Ada", "model": "pilot"}'
    headers = bearer | {"Content-Type": "application/json"}
    price = partial(ask, server, "POST", "/api/v1/prices", headers, body)
    check_doors_beside("memory_sentcontext", [price] * 24, doors)


@pytest.mark.parametrize("path", ["context", "context/diff?a=window&b=tiered"])
def test_a_flood_of_contexts_leaves_the_other_doors_open(
    server: Server, doors: Callable[[], set[int]], bearer: Headers, path: str
) -> None:
    look = partial(ask, server, "GET", f"/api/v1/myses/Ada/{path}", bearer)
    check_doors_beside("memory_memory", [look] * 24, doors)


def test_a_flood_of_downloads_leaves_the_other_doors_open(
    server: Server, doors: Callable[[], set[int]]
) -> None:
    """More than there are connections, each of which is one file of the same viewer."""
    viewer = Client()
    viewer.force_login(User.objects.create_user("ann"))
    session = {"Cookie": f"sessionid={viewer.cookies['sessionid'].value}"}
    load = partial(ask, server, "GET", "/myses/Ada/download/", session)
    check_doors_beside("memory_memory", [load] * 24, doors)
