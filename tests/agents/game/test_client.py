"""What a failed call means: not sent, lost, refused, or the session gone."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import pytest

from agents.game import client, http
from agents.game.client import (
    GameUnreachableError,
    ProtocolRefusalError,
    RateLimitedError,
    ReplyLostError,
    SessionLostError,
    connect,
)
from tests.agents.game.faulty import (
    FaultyServer,
    Json,
    Reply,
    result,
    rpc,
    rpc_error,
    sse,
)
from tests.agents.game.faulty import http as faulty_http

Make = Callable[[Json], Reply]


async def test_lists_tools_with_their_annotations() -> None:
    async with FaultyServer() as server, connect(server.url) as connection:
        assert [(t.name, t.read_only) for t in connection.tools] == [
            ("get_status", True),
            ("mine", False),
        ]


async def test_a_tool_error_is_an_answer() -> None:
    async with FaultyServer() as server, connect(server.url) as connection:
        server.plan.append(
            result("Error: cargo_full: Cargo hold is full", is_error=True)
        )
        answer = await connection.call("mine", {})
        assert answer == client.Answer(("Error: cargo_full: Cargo hold is full",), True)


async def test_an_event_stream_is_an_answer_too() -> None:
    async with FaultyServer() as server, connect(server.url) as connection:
        server.plan.append(sse('{"hull": 85}'))
        assert (await connection.call("get_status", {})).blocks == ('{"hull": 85}',)


async def test_other_blocks_and_structured_content_become_text() -> None:
    image = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
    inner = {"uri": "a://b", "text": "deep"}
    blocks = [image, {"type": "resource", "resource": inner}]
    async with FaultyServer() as server, connect(server.url) as connection:
        server.plan.append(rpc({"result": {"content": blocks}}))
        server.plan.append(
            rpc({"result": {"content": [], "structuredContent": {"a": 1}}})
        )
        first = await connection.call("get_status", {})
        second = await connection.call("get_status", {})
    assert first.blocks == ("[image, not shown]", "deep")
    assert second.blocks == ('{"a": 1}',)


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (rpc_error(0, "empty_entry"), ProtocolRefusalError),
        (rpc_error(-32602, "bad"), ProtocolRefusalError),
        (rpc_error(-32000, "not today"), ProtocolRefusalError),
        (rpc_error(-32600, "Session not initialized"), SessionLostError),
        (rpc_error(-32001, "Session not found", 404), SessionLostError),
        (faulty_http(404, "gone", kind="text/plain"), SessionLostError),
        (faulty_http(400, "no session", kind="text/plain"), SessionLostError),
        (
            faulty_http(429, '{"error":"rate_limited","retry_after":7}'),
            RateLimitedError,
        ),
        (rpc_error(-32000, "Too many", 429), RateLimitedError),
        (faulty_http(502, "<html>", kind="text/html"), ReplyLostError),
        (faulty_http(500, "{}"), ReplyLostError),
        (rpc_error(-32603, "No response received", 500), ReplyLostError),
        (rpc_error(-32603, "Internal error"), ProtocolRefusalError),
        (rpc_error(-32600, "Session not initialized", 500), SessionLostError),
        (faulty_http(200, "<html>", kind="text/html"), ReplyLostError),
        (faulty_http(200, "{not json"), ReplyLostError),
        (faulty_http(202), ReplyLostError),
        (rpc({"result": {"content": "no list"}}), ReplyLostError),
        (lambda _: Reply(drop=True), ReplyLostError),
        (lambda _: Reply(200, '{"jsonrpc": "2.0"}', cut=True), ReplyLostError),
        (
            faulty_http(200, "event: message\n\n", kind="text/event-stream"),
            ReplyLostError,
        ),
        (faulty_http(403, "no", kind="text/plain"), GameUnreachableError),
    ],
)
async def test_every_failure_says_what_may_have_happened(
    reply: Make, expected: type[Exception]
) -> None:
    async with FaultyServer() as server, connect(server.url) as connection:
        server.plan.append(reply)
        with pytest.raises(expected):
            await connection.call("mine", {})
        # One call failed, alone: the session goes on.
        assert (await connection.call("mine", {})).blocks == ("ok",)
        assert server.opened == 1


async def test_the_wait_that_a_server_asks_for_is_kept() -> None:
    async with FaultyServer() as server, connect(server.url) as connection:
        server.plan.append(faulty_http(429, '{"retry_after": 7}'))
        server.plan.append(faulty_http(429, "slow", headers={"Retry-After": "9"}))
        server.plan.append(faulty_http(429, "slow"))
        waits = []
        for _ in range(3):
            with pytest.raises(RateLimitedError) as caught:
                await connection.call("mine", {})
            waits.append(caught.value.retry_after)
        assert waits == [7.0, 9.0, None]


async def test_a_server_that_went_away_executed_nothing() -> None:
    async with FaultyServer() as server, connect(server.url) as connection:
        server.stop()
        with pytest.raises(GameUnreachableError, match="SPACEMOLT_MCP_URL"):
            await connection.call("mine", {})


async def test_too_long_an_answer_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "MAX_BYTES", 1000)
    async with FaultyServer() as server, connect(server.url) as connection:
        server.plan.append(result("x" * 2000))
        with pytest.raises(ReplyLostError):
            await connection.call("get_status", {})


async def test_a_call_that_never_ends_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client, "CALL_SECONDS", 0.01)
    async with FaultyServer() as server, connect(server.url) as connection:
        server.plan.append(lambda _: Reply(hold=asyncio.Event()))
        with pytest.raises(ReplyLostError, match="mine"):
            await connection.call("mine", {})


@pytest.mark.parametrize("url", ["ftp://x/mcp", "nonsense", "", "http://[::1"])
async def test_an_address_that_is_none_is_named(url: str) -> None:
    with pytest.raises(GameUnreachableError, match="SPACEMOLT_MCP_URL is not"):
        async with connect(url):
            pass


@pytest.mark.parametrize(
    ("opening", "says"),
    [
        (faulty_http(404, "no", kind="text/plain"), "HTTP 404"),
        (faulty_http(200, "<html>", kind="text/html"), "not MCP"),
        (faulty_http(503, ""), "HTTP 503"),
        (rpc_error(-32000, "closed today"), "closed today"),
        (rpc({"result": {"protocolVersion": "1999-01-01"}}), "does not speak MCP"),
        (lambda _: Reply(drop=True), "broke off"),
        (rpc({"result": {"capabilities": 7}}), "does not speak MCP"),
    ],
)
async def test_a_server_that_gives_no_session_is_one_clear_sentence(
    opening: Make, says: str
) -> None:
    async with FaultyServer() as server:
        server.openings.append(opening)
        with pytest.raises(GameUnreachableError, match=says) as caught:
            async with connect(server.url):
                pass
        assert server.url in caught.value.detail
        assert "SPACEMOLT_MCP_URL" in caught.value.detail


@pytest.mark.parametrize(
    "opening",
    [faulty_http(429, "{}"), rpc_error(-32000, "Too many new sessions from your IP")],
)
async def test_a_server_that_takes_no_more_sessions_asks_to_wait(opening: Make) -> None:
    async with FaultyServer() as server:
        server.openings.append(opening)
        with pytest.raises(RateLimitedError):
            async with connect(server.url):
                pass


async def test_a_list_of_tools_that_is_none_is_one_clear_sentence() -> None:
    async with FaultyServer() as server:
        server.tools.append({"name": 7})
        with pytest.raises(GameUnreachableError, match="an answer that is not MCP:"):
            async with connect(server.url):
                pass


async def test_secrets_in_the_address_are_not_shown() -> None:
    with pytest.raises(GameUnreachableError) as caught:
        async with connect("http://ann:hush@127.0.0.1:9/mcp?key=hush"):
            pass
    assert "hush" not in caught.value.detail


async def test_the_library_logs_no_messages(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with FaultyServer() as server, connect(server.url) as connection:
        server.plan.append(faulty_http(200, '{"password": "hush-hush"'))
        with pytest.raises(ReplyLostError):
            await connection.call("login", {"password": "hush-hush"})
        await connection.call("login", {"password": "hush-hush"})
    assert "hush" not in caplog.text
