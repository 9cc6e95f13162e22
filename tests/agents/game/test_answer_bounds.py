"""How much of an answer is taken, and how long a call waits for what is none."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from agents.game import client, http
from agents.game.client import ReplyLostError, ReplyTooLongError, connect
from tests.agents.game.faulty import FaultyServer, Json, Reply, result, rpc, sse

Make = Callable[[Json], Reply]
PING = 'data: {"jsonrpc": "2.0", "id": 9, "method": "ping"}\n\n'
TOO_MANY = http.BOUNDS.containers + 1
# A map of the whole galaxy, a little larger than the largest recorded one.
MAP = json.dumps(
    {
        "systems": [
            {
                "system_id": f"system_{number}",
                "name": f"System {number}",
                "position": {"x": number, "y": -number},
                "connections": [{"system_id": f"system_{n}"} for n in range(5)],
            }
            for number in range(800)
        ]
    },
    indent=2,
)


def blocks(*contents: Json, **more: Any) -> Make:
    return rpc({"result": {"content": list(contents), **more}})


def stream(body: str) -> Make:
    """A stream of events without an end."""
    return lambda _: Reply(
        200, body, "text/event-stream", stall=asyncio.Event(), cut=False
    )


def stalled(make: Make) -> Make:
    return lambda message: replace(make(message), stall=asyncio.Event())


def under(number: object, make: Make) -> Make:
    """An answer under another id."""
    return lambda message: make({**message, "id": number})


async def lost(reply: Make, error: type[ReplyLostError]) -> int:
    """Have a call fail, alone; how many messages of ours were answered meanwhile."""
    async with FaultyServer() as server, connect(server.url) as connection:
        server.plan.append(reply)
        async with asyncio.timeout(30):
            with pytest.raises(ReplyLostError) as caught:
                await connection.call("mine", {})
        assert type(caught.value) is error
        assert (await connection.call("mine", {})).blocks == ("ok",)
        return len(server.calls)


@pytest.mark.parametrize(
    "reply",
    [
        blocks({"type": "text", "text": "x" * http.MAX_BYTES}),
        blocks(*[{"type": "text", "text": ""}] * TOO_MANY),
        blocks(structuredContent={"a": [[]] * TOO_MANY}),
        blocks(structuredContent={"a": [{}] * TOO_MANY}),
        blocks(structuredContent={"a": [0] * (http.BOUNDS.values + 1)}),
        sse("x" * http.MAX_BYTES),
        stream(PING * 11),
        stream(f"data: {json.dumps([[]] * TOO_MANY)}\n\n"),
    ],
    ids=["text", "blocks", "lists", "objects", "values", "event", "pings", "in event"],
)
async def test_more_than_is_taken_is_given_up(
    reply: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "MAX_EVENTS", 10)
    assert await lost(reply, ReplyTooLongError) == 2


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(http, "BODY_SECONDS", 0.05)
    yield


@pytest.mark.parametrize(
    "reply",
    [
        stalled(result("half of it")),
        stream('data: {"jsonrpc": "2.0",'),
        stream('data: {"jsonrpc": "2.0",\ndata: "id":\n'),
        stream(": half of a comment"),
        under(10_000, result("another's")),
        under(None, result("nobody's")),
        under("1", result("spelled in another way")),
        rpc({"method": "ping"}),
    ],
    ids=["body", "line", "event", "comment", "id", "null", "text", "no answer"],
)
async def test_what_is_no_answer_or_has_no_end_is_given_up(
    soon: None, reply: Make
) -> None:
    assert await lost(reply, ReplyLostError) == 2


async def test_who_holds_a_call_may_say_so_for_as_long(soon: None) -> None:
    """By comments, whole events or nothing at all."""
    async with FaultyServer() as server, connect(server.url) as connection:
        server.plan.append(stream(": still here\n\n"))
        server.plan.append(stream("id: 7\ndata:\n\n" + PING))
        held = asyncio.Event()
        server.plan.append(lambda message: replace(result("late")(message), hold=held))
        calls = [asyncio.create_task(connection.call("mine", {})) for _ in range(3)]
        done, _ = await asyncio.wait(calls, timeout=0.5)
        assert not done
        held.set()
        done, _ = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
        assert [call.result().blocks for call in done] == [("late",)]
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)


@pytest.mark.parametrize("make", [result, sse])
async def test_a_whole_map_is_taken(make: Callable[[str], Make]) -> None:
    assert len(MAP) > 250_000
    async with FaultyServer() as server, connect(server.url) as connection:
        server.plan.append(make(MAP))
        assert (await connection.call("get_status", {})).blocks == (MAP,)


async def test_a_read_is_given_up_sooner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "READ_CALL_SECONDS", 0.01)
    async with FaultyServer() as server, connect(server.url) as connection:
        server.plan.append(lambda _: Reply(hold=asyncio.Event()))
        with pytest.raises(ReplyLostError, match="get_status"):
            await connection.call("get_status", {}, reads_only=True)
