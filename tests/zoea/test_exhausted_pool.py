"""Passwords are hashed two at a time, and no room for more is 503 at every door."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any, cast

import pytest
from asgiref.sync import SyncToAsync
from channels.testing import WebsocketCommunicator
from django.contrib.auth.hashers import get_hasher, get_hashers
from django.contrib.auth.models import User
from django.db import connection, connections
from django.test import Client
from django.utils.crypto import pbkdf2

from agents.mcp_server import Guest
from memory.concurrency import ConcurrencyLimit
from memory.problems import Problem
from tests.factories import make_mysis
from tests.programs import ROOT, Program
from zoea import mcp, rate_limits
from zoea.asgi import application
from zoea.rate_limits import Limiter

pytestmark = pytest.mark.django_db(transaction=True)

MANY = 60
# In full-width letters, which Unicode calls the same name.
WIDE = "\uff21\uff2e\uff2e"


def in_threads(work: Callable[[int], Any], count: int) -> list[Any]:
    """What each of so many threads found, which all began at once."""
    start = threading.Barrier(count)

    def run(number: int) -> Any:
        start.wait()
        try:
            return work(number)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(count) as threads:
        return list(threads.map(run, range(count)))


class Hashing:
    """Takes the place of the hash function: counts, and takes its time."""

    def __init__(self) -> None:
        self.done = self.most = self.now = self.held = 0
        self._lock = threading.Lock()

    def __call__(self, *args: Any, **kwargs: Any) -> bytes:
        """Hash as ever, after a while."""
        with self._lock:
            self.done += 1
            self.now += 1
            self.most = max(self.most, self.now)
        time.sleep(0.05)
        held = connection.connection is not None
        with self._lock:
            self.now -= 1
            self.held += held
        return pbkdf2(*args, **kwargs)


@pytest.fixture
def hashing(monkeypatch: pytest.MonkeyPatch) -> Hashing:
    User.objects.create_user("ann", password="correct horse")
    monkeypatch.setattr(rate_limits, "wrong_passwords", Limiter(rate=1e-3, burst=10))
    monkeypatch.setattr(rate_limits, "wrong_names", Limiter(rate=1e-3, burst=50))
    # All of a flood may take longer than anybody waits for a place.
    monkeypatch.setattr(rate_limits.hashes, "seconds", 120)
    found = Hashing()
    monkeypatch.setattr("django.contrib.auth.hashers.pbkdf2", found)
    return found


def attempt(name: str, password: str = "", door: str = "/sign-in/") -> Any:
    """One try to sign in."""
    client = Client(raise_request_exception=False)
    return client.post(door, {"username": name, "password": password or "wrong"})


@pytest.mark.parametrize("written", [WIDE, "nobody"])
def test_ten_tries_are_ten_also_when_they_come_together(
    hashing: Hashing, written: str
) -> None:
    found = in_threads(lambda number: attempt(written).status_code, MANY)
    assert sorted(found) == [422] * 10 + [429] * (MANY - 10)
    assert hashing.done == 10


def test_all_ways_to_write_a_name_share_its_tries(hashing: Hashing) -> None:
    ways = ["ann", WIDE, "\uff21nn", " ann ", "ANN"]
    found = in_threads(lambda number: attempt(ways[number % 5]).status_code, MANY)
    assert found.count(422) == 10
    assert attempt("\uff41\uff4e\uff4e", "correct horse").status_code == 429


def test_what_was_right_is_given_back(hashing: Hashing) -> None:
    for _ in range(12):
        assert attempt("ann", "correct horse").status_code == 302


def test_a_flood_hashes_two_at_a_time_and_holds_no_connection(
    hashing: Hashing,
) -> None:
    found = in_threads(lambda number: attempt(f"name {number}").status_code, 80)
    assert sorted(found) == [422] * 50 + [429] * 30
    assert (hashing.done, hashing.most, hashing.held) == (50, 2, 0)


def test_the_admin_has_no_door_of_its_own_for_passwords(hashing: Hashing) -> None:
    answer = attempt("ann", "correct horse", door="/admin/login/")
    assert (answer.status_code, hashing.done) == (302, 0)


@pytest.mark.parametrize(
    ("algorithm", "stored"),
    [
        ("pbkdf2_sha256", "pbkdf2_sha256$1$salt$x"),
        ("pbkdf2_sha1", "pbkdf2_sha1$1$salt$x"),
        ("argon2", "argon2$argon2id$v=19$m=102400,t=2,p=8$c2FsdA$x"),
        ("bcrypt_sha256", "bcrypt_sha256$$2b$12$x"),
        ("scrypt", "scrypt$16384$salt$8$5$x"),
    ],
)
def test_no_hasher_works_without_a_place(
    monkeypatch: pytest.MonkeyPatch, algorithm: str, stored: str
) -> None:
    places = ConcurrencyLimit(1, seconds=0.01, refusal="Too many are signing in.")
    monkeypatch.setattr(rate_limits, "hashes", places)
    assert len(get_hashers()) == 5
    hasher = get_hasher(algorithm)
    with places.taken():
        with pytest.raises(Problem, match="Too many are signing in"):
            hasher.verify("correct horse", stored)
        with pytest.raises(Problem, match="Too many are signing in"):
            hasher.encode("correct horse", "salt of 16 signs")


def test_who_waits_too_long_for_a_hash_is_told_when_to_come_back(
    hashing: Hashing, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = ConcurrencyLimit(1, seconds=0.01, refusal="Too many are signing in.")
    monkeypatch.setattr(rate_limits, "hashes", places)
    monkeypatch.setattr(rate_limits, "wrong_passwords", Limiter(rate=1e-3, burst=1))
    with places.taken():
        answers = [attempt("ann", "correct horse") for _ in range(3)]
    for answer in answers:
        assert (answer.status_code, answer["Retry-After"]) == (503, "5")
        assert b"Too many are signing in. Try again in 5 s." in answer.content
    assert attempt("ann", "correct horse").status_code == 302


@contextmanager
def pool_in_use() -> Iterator[None]:
    """Every connection of the pool is taken, and who waits soon gives up."""
    connections.close_all()
    # The thread of asynchronous tests may have kept one, and would need no other.
    SyncToAsync.single_thread_executor.submit(connections.close_all).result()
    pool = cast(Any, connection).pool
    pool.open()
    patience, taken = pool.timeout, []
    try:
        # Threads of other tests may still hold some: take all that is left.
        while not is_exhausted(pool):
            taken.append(pool.getconn(timeout=60))
        pool.timeout = 0.1
        yield
    finally:
        pool.timeout = patience
        for each in taken:
            pool.putconn(each)


def is_exhausted(pool: Any) -> bool:
    stats: dict[str, int] = pool.get_stats()
    return stats["pool_size"] >= pool.max_size and not stats["pool_available"]


def elsewhere(work: Callable[[], Any]) -> Any:
    """What a thread with no connection yet finds."""
    return in_threads(lambda number: work(), 1)[0]


JSON_DOORS = [
    ("GET", "/metrics", "not_ready"),
    ("GET", "/readyz", "not_ready"),
    ("GET", f"{ROOT}/myses", "overloaded"),
    ("POST", f"{ROOT}/broadcasts", "overloaded"),
    ("POST", f"{ROOT}/context/assemble", "overloaded"),
]


def test_programs_and_probes_without_a_connection_are_503() -> None:
    program = Program("admin")
    headers = {"Authorization": f"Bearer {program.secret}"}
    with pool_in_use():
        for method, path, code in JSON_DOORS:
            answer = elsewhere(
                partial(program.client.generic, method, path, headers=headers)
            )
            assert (answer.status_code, answer["Retry-After"]) == (503, "5"), path
            assert answer.json()["code"] == code
            if code == "overloaded":
                said = "The database has no free connection. Try again in 5 s."
                assert answer.json()["detail"] == said


def test_pages_and_sign_in_without_a_connection_are_503(hashing: Hashing) -> None:
    make_mysis(name="Ada")
    client = Client(raise_request_exception=False)
    client.force_login(User.objects.create_superuser("root"))
    with pool_in_use():
        answers = [
            elsewhere(lambda: client.get("/")),
            elsewhere(lambda: client.post("/myses/Ada/stop/")),
            elsewhere(lambda: client.get("/admin/")),
            elsewhere(lambda: client.get("/", headers={"HX-Request": "true"})),
            elsewhere(lambda: attempt("ann", "correct horse")),
        ]
    for answer in answers:
        assert (answer.status_code, answer["Retry-After"]) == (503, "5")
        assert b"no free connection. Try again in 5 s." in answer.content
        assert answer["Content-Type"].startswith("text/html")


def call_tool(secret: str) -> list[Any]:
    """The messages with which a call of a tool over MCP is answered."""
    call = {"name": "zoea_list_myses", "arguments": {}}
    told = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/mcp",
        "query_string": b"",
        "headers": [
            (b"host", b"localhost"),
            (b"authorization", f"Bearer {secret}".encode()),
            (b"content-type", b"application/json"),
            (b"accept", b"application/json, text/event-stream"),
        ],
    }
    sent: list[Any] = []

    async def ask() -> None:
        async def receive() -> Any:
            return {"type": "http.request", "body": json.dumps(told).encode()}

        async def send(message: Any) -> None:
            sent.append(message)

        await application(scope, receive, send)

    asyncio.run(ask())
    return sent


def test_mcp_without_a_connection_is_503() -> None:
    secret = Program("viewer").secret
    with pool_in_use():
        start, body = elsewhere(lambda: call_tool(secret))
    assert start["status"] == 503
    assert (b"retry-after", b"5") in start["headers"]
    assert json.loads(body["body"])["code"] == "overloaded"


def test_a_tool_over_mcp_without_a_connection_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def admit_guest(scope: Any) -> Guest:
        return Guest(by="ann", role="viewer", may_send=False, throttle=lambda: 0.0)

    monkeypatch.setattr(mcp, "admit_guest", admit_guest)
    with pool_in_use():
        _, body = elsewhere(lambda: call_tool("let in already"))[:2]
    found = json.loads(body["body"])["result"]
    assert found["isError"]
    said = "Error: The database has no free connection. Try again in 5 s."
    assert found["content"][0]["text"] == said


def test_a_socket_without_a_connection_is_told_to_come_back() -> None:
    program = Program("viewer")
    headers = [(b"authorization", f"Bearer {program.secret}".encode())]

    async def ask() -> Any:
        socket = WebsocketCommunicator(application, "/ws/v1/events", headers)
        accepted, _ = await socket.connect(timeout=60)
        return accepted, await socket.receive_output(timeout=60)

    with pool_in_use():
        accepted, closed = elsewhere(lambda: asyncio.run(ask()))
    assert accepted
    assert (closed["type"], closed["code"]) == ("websocket.close", 1013)
    assert "Try again in 5 s" in closed["reason"]
