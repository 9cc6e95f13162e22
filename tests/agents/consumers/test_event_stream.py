"""The JSON socket, on a real server with a real client."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

import httpx2
import pytest
from channels.db import database_sync_to_async
from channels.testing import WebsocketCommunicator
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.typing import Origin

from agents import events
from agents.consumers import event_stream
from agents.consumers.event_stream import (
    MOST_OF_ONE,
    EventStream,
    StreamRequest,
    StreamRequestError,
    read_stream_request,
)
from agents.events import Kind
from agents.hub import Hub, hub
from bench.processes import Server, run_server
from tests.factories import make_account, make_item, make_mysis
from zoea import rate_limits, websockets
from zoea.auth import create_token
from zoea.models import ApiToken

pytestmark = pytest.mark.django_db(transaction=True)
SOON = 60.0


@pytest.fixture(scope="module")
def hasty(django_db_setup: None, django_db_blocker: Any) -> Iterator[Server]:
    """A server that asks every second whether a client is there and reads."""
    impatient = "tests.application:application"
    with (
        django_db_blocker.unblock(),
        run_server("--ping-interval=1", application=impatient, STALLED="1") as found,
    ):
        yield found


@pytest.fixture
def token() -> str:
    return create_token(name="program", role="viewer")[1]


@asynccontextmanager
async def stream(
    server: Server, query: str = "", **options: Any
) -> AsyncIterator[ClientConnection]:
    url = f"{server.socket}/ws/v1/events{query}"
    async with connect(url, **options) as client:
        yield client


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


async def items(client: ClientConnection, number: int) -> list[dict[str, Any]]:
    async with asyncio.timeout(SOON):
        return [json.loads(await client.recv()) for _ in range(number)]


async def closing(client: ClientConnection) -> tuple[int | None, str]:
    async with asyncio.timeout(60):
        await client.wait_closed()
    return client.close_code, client.close_reason or ""


def add(number: int, kind: Kind = Kind.TOOL_CALLED, **values: Any) -> list[int]:
    for n in range(number):
        events.append(kind, data={"n": n}, **values)
    found = [item["id"] for item in events.read_after(0, limit=10_000)]
    return found[-number:]


async def test_backlog_then_live_in_order_and_once(server: Server, token: str) -> None:
    old = add(3)
    async with stream(server, additional_headers=bearer(token)) as client:
        first = await items(client, 3)
        new = add(2)
        later = await items(client, 2)
    assert [item["id"] for item in first + later] == old + new
    assert set(first[0]) == {"id", "kind", "at", "mysis", "data"}
    assert first[0]["kind"] == "tool.called"


async def test_no_secret_is_in_an_event(server: Server, token: str) -> None:
    """Of those that were stored before as little as of new ones (A11)."""
    make_account(password="opensesame-4711")
    said = {"detail": "opensesame-4711, pwd: hunter2", "arguments": {"secret": "s3"}}
    events.append(Kind.ERROR, data=said)
    async with stream(server, additional_headers=bearer(token)) as client:
        first = await items(client, 1)
        events.append(Kind.ERROR, data=said)
        later = await items(client, 1)
    shown = {"detail": "[hidden], pwd: [hidden]", "arguments": {"secret": "[hidden]"}}
    assert [item["data"] for item in first + later] == [shown, shown]


async def test_one_caller_has_few_sockets(server: Server, token: str) -> None:
    """Who closes one may open another; others are not concerned."""
    add(1)
    other = create_token(name="other", role="viewer")[1]
    async with AsyncExitStack() as opened:
        for _ in range(MOST_OF_ONE):
            asked = stream(server, additional_headers=bearer(token))
            last = await opened.enter_async_context(asked)
            await items(last, 1)
        async with stream(server, additional_headers=bearer(token)) as refused:
            assert await closing(refused) == (
                4429,
                "You have 20 event sockets open: close one first.",
            )
        async with stream(server, additional_headers=bearer(other)) as client:
            await items(client, 1)
        await last.close()
        await open_one(server, token)


async def open_one(server: Server, token: str) -> None:
    """Open a socket, as soon as the server knows that there is room."""
    async with asyncio.timeout(SOON):
        while True:
            async with stream(server, additional_headers=bearer(token)) as client:
                with suppress(ConnectionClosed):
                    await client.recv()
                    return


class FastReader:
    """The flow of a client that takes all at once."""

    def send(self, *texts: str) -> bool:
        return True

    async def is_read(self) -> bool:
        return True


async def test_a_long_log_gives_all_else_its_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However fast its client reads."""
    mine, turns = Hub(), 0

    async def many(*_: Any, **__: Any) -> AsyncIterator[Any]:
        for number in range(1_000):
            yield make_item(number, "error", text="x" * 1_000)
        raise StreamRequestError

    async def turn() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def subscribe() -> None:
        return None

    monkeypatch.setattr(mine, "subscribe", subscribe)
    monkeypatch.setattr(event_stream, "hub", mine)
    monkeypatch.setattr(event_stream, "stream_after", many)
    consumer = EventStream()
    consumer.scope = {"flow": FastReader()}
    others = asyncio.ensure_future(turn())
    await asyncio.sleep(0)
    with pytest.raises(StreamRequestError):
        await consumer._follow(StreamRequest())
    others.cancel()
    assert turns > 10


async def test_a_cursor_skips_what_was_seen(server: Server, token: str) -> None:
    old = add(3)
    query = f"?token={token}&after={old[1]}"
    async with stream(server, query) as client:
        assert [item["id"] for item in await items(client, 1)] == old[2:]


async def test_filters(server: Server, token: str) -> None:
    ada, bob = make_mysis(name="Ada"), make_mysis(name="Bob")
    for mysis in (ada, bob):
        for kind in (Kind.TURN_STARTED, Kind.TURN_FINISHED, Kind.ERROR):
            add(1, kind, mysis_id=mysis.pk)
    for reference in ("Ada", str(ada.pk)):
        query = f"?token={token}&mysis={reference}&kind=turn.started,error"
        async with stream(server, query) as client:
            add(1, Kind.ERROR, mysis_id=bob.pk)
            add(1, Kind.TURN_FINISHED, mysis_id=ada.pk)
            add(1, Kind.TURN_STARTED, mysis_id=ada.pk)
            found = await items(client, 3)
        assert {item["mysis"] for item in found} == {ada.pk}
        assert [item["kind"] for item in found][:2] == ["turn.started", "error"]


async def test_bad_parameters_close_with_4400_and_the_field(
    server: Server, token: str
) -> None:
    for query in (
        "after=x", "after=-1", "after=1e3", "after=" + "9" * 30, "kind=nonsense",
        "mysis=Nobody", "mysis=%00", "mysis=", "after=", "mysis=999999999",
        "kind=error,%ED%A0%80",
    ):  # fmt: skip
        async with stream(server, f"?token={token}&{query}") as client:
            code, reason = await closing(client)
        assert code == 4400, query
        assert reason.startswith(query.partition("=")[0])


async def test_strangers_are_accepted_and_closed_with_4401(server: Server) -> None:
    for query in ("", "?token=wrong", "?token="):
        async with stream(server, query) as client:
            assert (await closing(client))[0] == 4401
        async with stream(server, query, additional_headers=bearer("wrong")) as client:
            assert (await closing(client))[0] == 4401


@pytest.mark.parametrize("by", ["header", "query"])
async def test_who_keeps_guessing_tokens_is_slowed_down(
    monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    """Over HTTP and over sockets it is one account; a good token stays unhurt."""
    narrow = rate_limits.Limiter(rate=1e-6, burst=11)
    monkeypatch.setattr(rate_limits, "wrong_tokens", narrow)
    _, good = await database_sync_to_async(create_token)(name="good", role="viewer")
    url = "/ws/v1/events"
    seen = []
    for number in range(13):
        secret = good if number == 12 else f"zoea_wrong{number}"
        query = f"?token={secret}" if by == "query" else ""
        sent = [] if query else [(b"authorization", f"Bearer {secret}".encode())]
        app = websockets.with_caller(EventStream.as_asgi())
        client = WebsocketCommunicator(app, url + query, sent)
        assert (await client.connect(SOON))[0]
        if number < 12:
            seen.append((await client.receive_output(SOON))["code"])
        await client.disconnect()
    assert seen == [4401] * 11 + [4429]
    await hub.close()


async def test_origins(server: Server, token: str) -> None:
    port = server.port
    refused = [
        "null",
        "https://127.0.0.1:" + str(port),
        f"http://127.0.0.1:{port + 1}",
        "http://127.0.0.1",
        "http://evil.example",
        f"http://evil.example:{port}",
        f"http://127.0.0.1.evil.example:{port}",
        "file://",
    ]
    for origin in refused:
        with pytest.raises(InvalidStatus) as error:
            async with stream(server, f"?token={token}", origin=Origin(origin)):
                pass
        assert error.value.response.status_code == 403, origin
    add(1)
    async with stream(
        server, f"?token={token}", origin=Origin(server.origin)
    ) as client:
        assert await items(client, 1)


async def test_a_false_host_does_not_make_an_origin_ours(
    server: Server, token: str
) -> None:
    evil = f"evil.example:{server.port}"
    with pytest.raises(InvalidStatus) as error:
        async with connect(
            f"ws://{evil}/ws/v1/events?token={token}",
            host="127.0.0.1",
            port=server.port,
            origin=Origin(f"http://{evil}"),
        ):
            pass
    assert error.value.response.status_code == 403


async def test_a_session_needs_its_own_origin(server: Server) -> None:
    browser = Client()
    browser.force_login(User.objects.create_user("ann"))
    cookie = {"Cookie": f"sessionid={browser.cookies['sessionid'].value}"}
    add(1)
    async with stream(
        server, additional_headers=cookie, origin=Origin(server.origin)
    ) as client:
        assert await items(client, 1)
    with pytest.raises(InvalidStatus):
        async with stream(server, additional_headers=cookie):
            pass
    async with stream(
        server, "?token=wrong", additional_headers=cookie, origin=Origin(server.origin)
    ) as client:
        assert (await closing(client))[0] == 4401


async def test_an_expired_token_is_a_stranger(server: Server, token: str) -> None:
    ApiToken.objects.update(revoked_at="2020-01-01T00:00:00Z")
    async with stream(server, f"?token={token}") as client:
        assert (await closing(client))[0] == 4401


async def test_what_a_client_sends_is_ignored(server: Server, token: str) -> None:
    async with stream(server, f"?token={token}") as client:
        for frame in ("{", b"\x00\xff", "x" * 10_000, ""):
            await client.send(frame)
        new = add(1)
        assert [item["id"] for item in await items(client, 1)] == new


async def test_a_client_that_does_not_read_is_dropped_with_1013(
    hasty: Server, token: str
) -> None:
    async with stream(
        hasty, f"?token={token}", max_queue=1, ping_interval=None
    ) as client:
        flood(40, 200_000)
        # Silent until the server has given up; then read what it had sent.
        async with asyncio.timeout(SOON):
            while not await asyncio.to_thread(count_dropped, hasty, token):
                pass
        async with asyncio.timeout(SOON):
            with pytest.raises(ConnectionClosed) as closed:
                while True:
                    await client.recv()
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1013


def count_dropped(server: Server, token: str) -> int:
    """How many clients the server has given up."""
    bearer = {"Authorization": f"Bearer {token}"}
    said = httpx2.get(f"{server.origin}/metrics", headers=bearer, timeout=60).text
    found = re.search(r"^zoea_sockets_dropped\S* (\d+)", said, re.M)
    assert found is not None
    return int(found[1])


def flood(number: int, size: int) -> None:
    for _ in range(number):
        events.append(Kind.TOOL_CALLED, data={"text": "x" * size})


async def test_a_slow_reader_gets_everything(server: Server, token: str) -> None:
    flood(60, 50_000)
    last = add(1)[0]
    seen: list[int] = []
    async with stream(server, f"?token={token}", max_queue=1) as client:
        while not seen or seen[-1] < last:
            async with asyncio.timeout(SOON):
                seen.append(json.loads(await client.recv())["id"])
            await asyncio.sleep(0)
    assert seen == sorted(set(seen))
    assert len(seen) == 61


async def test_pings_come_from_the_server(hasty: Server, token: str) -> None:
    pinged = asyncio.Event()
    async with stream(hasty, f"?token={token}", ping_interval=None) as client:
        real = client.protocol.recv_frame

        def watch(frame: Any) -> None:
            if frame.opcode.name == "PING":
                pinged.set()
            real(frame)

        client.protocol.recv_frame = watch  # type: ignore[method-assign]
        async with asyncio.timeout(SOON):
            await pinged.wait()


def test_a_wish_without_parameters_is_everything() -> None:
    assert read_stream_request("").after == 0
    assert read_stream_request("after=0&token=x").kinds == frozenset()
    with pytest.raises(StreamRequestError, match="kind"):
        read_stream_request("kind=mysis")
    assert connection.vendor == "postgresql"
