"""Answers in pieces: few at a time, and nothing stays of one that is cut off."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from asgiref.testing import ApplicationCommunicator
from django.contrib.auth.models import User
from django.db import connections
from django.http import JsonResponse
from django.test import Client

from agents.streamed import StreamedAnswer, StreamPlaces
from agents.views import logs
from memory.problems import Problem
from memory.transfer import in_out
from tests.factories import make_memory, make_mysis
from zoea import asgi, middleware
from zoea.asgi import application

PATIENCE = 60
DOWNLOAD = "/myses/Ada/download/"
EXPORT = "/api/v1/audit/export"


@pytest.fixture
def cookie(transactional_db: None) -> bytes:
    """The session of an admin; there is a log to download."""
    make_memory(make_mysis(name="Ada"), content="Fly.")
    browser = Client()
    browser.force_login(User.objects.create_superuser("root"))
    return f"sessionid={browser.cookies['sessionid'].value}".encode()


@pytest.fixture
def one_place(monkeypatch: pytest.MonkeyPatch) -> None:
    places = StreamPlaces(1, each=1, seconds=0.01)
    monkeypatch.setattr(asgi, "streams", places)


async def ask(path: str, cookie: bytes) -> ApplicationCommunicator:
    """A client that has sent a GET."""
    scope = {"type": "http", "method": "GET", "path": path, "query_string": b""}
    headers = [(b"host", b"localhost"), (b"cookie", cookie)]
    client = ApplicationCommunicator(application, {**scope, "headers": headers})
    await client.send_input({"type": "http.request", "body": b""})
    return client


async def read(client: ApplicationCommunicator) -> tuple[int, dict[bytes, bytes], str]:
    """Status, headers and body of an answer."""
    start = await client.receive_output(PATIENCE)
    body, more = b"", True
    while more:
        piece = await client.receive_output(PATIENCE)
        body += piece.get("body", b"")
        more = piece.get("more_body", False)
    await client.wait(PATIENCE)
    return start["status"], dict(start["headers"]), body.decode()


def test_no_connection_is_held_while_an_answer_is_sent(
    transactional_db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    used: list[Any] = []
    held: list[bool] = []

    def query(*args: Any, **kwargs: Any) -> JsonResponse:
        used.append(connections["default"])
        used[0].ensure_connection()
        return JsonResponse(*args, **kwargs)

    async def send(message: Any) -> None:
        held.append(used[0].connection is not None)

    async def answer() -> None:
        asked: asyncio.Queue[Any] = asyncio.Queue()
        asked.put_nowait({"type": "http.request", "body": b""})
        scope = {"type": "http", "method": "GET", "path": "/healthz", "headers": []}
        await application({**scope, "query_string": b""}, asked.get, send)

    monkeypatch.setattr(middleware, "JsonResponse", query)
    asyncio.run(answer())
    assert held == [False, False]


class Slow:
    """A log whose second piece waits until it may come."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.gate = threading.Event()
        self.fails = False
        monkeypatch.setattr(in_out, "write_pieces", self.write)
        monkeypatch.setattr(logs, "AT_ONCE", 1)

    def write(self, *_: Any, **__: Any) -> Iterator[str]:
        yield "one\n"
        assert self.gate.wait(PATIENCE)
        assert not self.fails
        yield "two\n"


def test_who_finds_no_place_is_told_when_to_come_back(
    cookie: bytes, one_place: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = Slow(monkeypatch)

    async def ask_thrice() -> list[Any]:
        first = await ask(DOWNLOAD, cookie)
        await first.receive_output(PATIENCE)
        refused = [await read(await ask(path, cookie)) for path in (DOWNLOAD, EXPORT)]
        slow.gate.set()
        await first.wait(PATIENCE)
        return [*refused, await read(await ask(DOWNLOAD, cookie))]

    page, program, after = asyncio.run(ask_thrice())
    told = "Other downloads are being sent: not begun. Try again in 5 s."
    for status, headers, text in (page, program):
        assert (status, headers[b"Retry-After"]) == (503, b"5")
        assert told in text
    assert json.loads(program[2])["code"] == "overloaded"
    assert (after[0], after[2]) == (200, "one\ntwo\n")


@pytest.mark.parametrize("fault", ["its client leaves", "it is cut off", "it fails"])
def test_a_stream_that_breaks_off_gives_back_its_place(
    cookie: bytes, one_place: None, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    slow = Slow(monkeypatch)

    async def break_off(client: ApplicationCommunicator) -> None:
        if fault == "its client leaves":
            await client.send_input({"type": "http.disconnect"})
        elif fault == "it is cut off":
            client.future.cancel()
        else:
            slow.fails = True
        slow.gate.set()
        await asyncio.gather(client.future, return_exceptions=True)

    async def ask_twice() -> int:
        client = await ask(DOWNLOAD, cookie)
        start, piece = [await client.receive_output(PATIENCE) for _ in range(2)]
        assert (start["status"], piece["body"]) == (200, b"one\n")
        await break_off(client)
        status, _, _ = await read(await ask(EXPORT, cookie))
        return status

    assert asyncio.run(ask_twice()) == 200


async def test_the_streams_of_one_caller_leave_places_for_others() -> None:
    places = StreamPlaces(3, each=2, seconds=0.01)
    mine = [await places.take("ann") for _ in range(2)]
    with pytest.raises(Problem, match="Other downloads"):
        await places.take("ann")
    other = await places.take("bob")
    # Now all are taken.
    with pytest.raises(Problem, match="Other downloads"):
        await places.take("eve")
    for give_back in (*mine, other):
        give_back()
    again = [await places.take(name) for name in ("ann", "ann", "bob")]
    assert len(again) == 3


@pytest.mark.parametrize("keeps_much", [False, True])
async def test_who_reads_slowly_has_no_place(keeps_much: bool) -> None:
    places = StreamPlaces(1, each=1, seconds=0.01)
    slow = StreamedAnswer(iter(["one", "two"]), "text/plain", keeps_much=keeps_much)
    slow.caller = "ann"
    await slow.begin(places)
    pieces = aiter(slow)
    assert await anext(pieces) == b"one"
    if keeps_much:
        with pytest.raises(Problem, match="Other downloads"):
            await places.take("bob")
        assert await anext(pieces) == b"two"
        return
    give_back = await places.take("bob")
    # It goes on whenever there is a place, however long that takes.
    following = asyncio.ensure_future(anext(pieces))
    with pytest.raises(Problem, match="Other downloads"):
        await places.take("ann")
    assert not following.done()
    give_back()
    assert await asyncio.wait_for(following, PATIENCE) == b"two"
    assert [piece async for piece in pieces] == []
    slow.give_back()
    (await places.take("bob"))()


def test_a_client_that_takes_nothing_keeps_nobody_out(
    cookie: bytes, one_place: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    Slow(monkeypatch).gate.set()

    async def answer_beside() -> tuple[int, str]:
        sent, taken = asyncio.Event(), asyncio.Event()
        bodies: list[bytes] = []

        async def send(message: Any) -> None:
            bodies.append(message.get("body", b""))
            if bodies[-1]:
                sent.set()
                await taken.wait()

        asked: asyncio.Queue[Any] = asyncio.Queue()
        asked.put_nowait({"type": "http.request", "body": b""})
        scope = {"type": "http", "method": "GET", "path": DOWNLOAD, "query_string": b""}
        headers = [(b"host", b"localhost"), (b"cookie", cookie)]
        task = asyncio.ensure_future(
            application({**scope, "headers": headers}, asked.get, send)
        )
        await asyncio.wait_for(sent.wait(), PATIENCE)
        status, _, _ = await read(await ask(EXPORT, cookie))
        taken.set()
        await asyncio.wait_for(task, PATIENCE)
        return status, b"".join(bodies).decode()

    assert asyncio.run(answer_beside()) == (200, "one\ntwo\n")


async def test_who_waits_gets_the_next_place() -> None:
    places = StreamPlaces(2, each=1, seconds=PATIENCE)
    first = await places.take("ann")
    left, next_one = (asyncio.ensure_future(places.take("ann")) for _ in range(2))
    await asyncio.sleep(0)
    left.cancel()
    first()
    give_back = await asyncio.wait_for(next_one, PATIENCE)
    give_back()
    assert left.cancelled()
