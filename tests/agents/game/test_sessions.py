"""Sessions outlive turns, are shared, and survive a caller that is cancelled."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from pytest_django import Settings

from agents.game import http, sessions
from agents.game.client import GameUnreachableError, ReplyLostError, SessionLostError
from agents.game.sessions import get_pool
from tests.agents.game.faulty import FaultyServer, Reply, result
from tests.agents.game.faulty import http as faulty_http

PATIENCE = 60


async def test_one_session_serves_all_turns_of_a_mysis(settings: Settings) -> None:
    async with FaultyServer() as server:
        settings.SPACEMOLT_MCP_URL = server.url
        first, same = await asyncio.gather(get_pool().session(1), get_pool().session(1))
        other = await get_pool().session(2)
        assert first is same
        assert first is not other
        assert server.opened == 2


async def test_a_session_opened_in_a_turn_outlives_its_task(settings: Settings) -> None:
    async with FaultyServer() as server:
        settings.SPACEMOLT_MCP_URL = server.url
        await asyncio.create_task(get_pool().session(1))
        session = await get_pool().session(1)
        assert (await session.call("get_status", {})).blocks == ("ok",)
        assert server.opened == 1


async def test_a_cancelled_caller_gives_up_its_own_call_only(
    settings: Settings,
) -> None:
    async with FaultyServer() as server:
        settings.SPACEMOLT_MCP_URL = server.url
        session = await get_pool().session(1)
        held = asyncio.Event()
        server.plan.append(lambda _: Reply(hold=held))
        stopped = asyncio.create_task(session.call("mine", {}))
        await asyncio.wait_for(server.called.wait(), PATIENCE)
        stopped.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stopped
        assert (await session.call("get_status", {})).blocks == ("ok",)
        assert server.opened == 1
        assert len(server.cancelled) == 1
        held.set()


async def test_calls_of_one_session_do_not_wait_for_each_other(
    settings: Settings,
) -> None:
    async with FaultyServer() as server:
        settings.SPACEMOLT_MCP_URL = server.url
        session = await get_pool().session(1)
        held = asyncio.Event()

        def slow(message: object) -> Reply:
            reply = result("slow")(message)  # type: ignore[arg-type]
            return Reply(200, reply.body, hold=held)

        server.plan.append(slow)
        waiting = asyncio.create_task(session.call("mine", {}))
        await asyncio.wait_for(server.called.wait(), PATIENCE)
        assert (await session.call("get_status", {})).blocks == ("ok",)
        held.set()
        assert (await waiting).blocks == ("slow",)


async def test_a_lost_session_is_replaced_by_the_next_one(settings: Settings) -> None:
    async with FaultyServer() as server:
        settings.SPACEMOLT_MCP_URL = server.url
        session = await get_pool().session(1)
        server.forget()
        with pytest.raises(SessionLostError):
            await session.call("mine", {})
        assert not session.open
        with pytest.raises(SessionLostError):
            await session.call("mine", {})
        again = await get_pool().session(1)
        assert (await again.call("mine", {})).blocks == ("ok",)
        assert server.calls == [("mine", {})]


async def test_an_idle_session_closes_itself(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "IDLE_SECONDS", 0.01)
    async with FaultyServer() as server:
        settings.SPACEMOLT_MCP_URL = server.url
        session = await get_pool().session(1)
        await asyncio.wait_for(asyncio.shield(session.task), 60)
        assert server.ended == 1
        assert (await (await get_pool().session(1)).tools())[0].name == "get_status"
        assert server.opened == 2


async def test_a_session_in_use_is_not_idle(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with FaultyServer() as server:
        settings.SPACEMOLT_MCP_URL = server.url
        session = await get_pool().session(1)
        # From its first call on: before, it may be idle for so long.
        monkeypatch.setattr(sessions, "IDLE_SECONDS", 0.01)
        asked: asyncio.Queue[None] = asyncio.Queue()
        get = session._jobs.get

        def ask() -> Any:
            asked.put_nowait(None)
            return get()

        monkeypatch.setattr(session._jobs, "get", ask)
        held = asyncio.Event()
        server.plan.append(
            lambda m: Reply(200, result("late")(m).body, hold=held),
        )
        waiting = asyncio.create_task(session.call("mine", {}))
        await asyncio.wait_for(server.called.wait(), PATIENCE)
        # It asks for work, waits so long in vain, and asks again.
        for _ in range(2):
            await asyncio.wait_for(asked.get(), PATIENCE)
        assert session.open
        held.set()
        assert (await waiting).blocks == ("late",)


async def test_closing_ends_every_session_and_answers_who_waits(
    settings: Settings,
) -> None:
    async with FaultyServer() as server:
        settings.SPACEMOLT_MCP_URL = server.url
        session = await get_pool().session(1)
        await get_pool().session(2)
        server.plan.append(lambda _: Reply(hold=asyncio.Event()))
        waiting = asyncio.create_task(session.call("mine", {}))
        await asyncio.wait_for(server.called.wait(), PATIENCE)
        await sessions.get_pool().close()
        with pytest.raises(ReplyLostError):
            await waiting
        assert server.ended == 2
        assert session.task.done()


async def test_a_server_that_hangs_does_not_hold_up_the_end(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "END_SECONDS", 3.0)
    async with FaultyServer() as server:
        settings.SPACEMOLT_MCP_URL = server.url
        server.hold_end = asyncio.Event()
        session = await get_pool().session(1)
        await sessions.get_pool().close()
        assert session.task.done()
        assert not session.task.cancelled()
        assert server.ended == 1


async def test_an_unreachable_server_is_tried_anew_each_time(
    settings: Settings,
) -> None:
    settings.SPACEMOLT_MCP_URL = "http://127.0.0.1:9/mcp"
    for _ in range(2):
        with pytest.raises(GameUnreachableError, match="cannot be reached"):
            await get_pool().session(1)
    async with FaultyServer() as server:
        settings.SPACEMOLT_MCP_URL = server.url
        assert await (await get_pool().session(1)).tools()


async def test_a_server_that_asks_to_wait_is_waited_for(settings: Settings) -> None:
    async with FaultyServer() as server:
        settings.SPACEMOLT_MCP_URL = server.url
        server.openings.append(faulty_http(429, '{"retry_after": 0}'))
        assert await (await get_pool().session(1)).tools()


async def test_a_server_that_takes_nobody_is_unreachable(settings: Settings) -> None:
    async with FaultyServer() as server:
        settings.SPACEMOLT_MCP_URL = server.url
        server.openings.extend([faulty_http(429, '{"retry_after": 0}')] * 9)
        with pytest.raises(GameUnreachableError, match="no more sessions"):
            await get_pool().session(1)


async def test_the_tools_are_listed_anew_on_request(settings: Settings) -> None:
    async with FaultyServer() as server:
        settings.SPACEMOLT_MCP_URL = server.url
        session = await get_pool().session(1)
        server.tools.pop()
        assert [tool.name for tool in await session.refresh()] == ["get_status"]
        assert await session.tools() == await session.refresh()


async def test_a_loop_that_ends_takes_its_sessions_along(settings: Settings) -> None:
    """A command run in a thread has a loop of its own, and leaves nothing."""
    async with FaultyServer() as server:
        settings.SPACEMOLT_MCP_URL = server.url
        answers: list[tuple[str, ...]] = []

        async def call() -> None:
            session = await get_pool().session(1)
            answers.append((await session.call("get_status", {})).blocks)

        thread = threading.Thread(target=lambda: asyncio.run(call()))
        thread.start()
        await asyncio.to_thread(thread.join)
        assert answers == [("ok",)]
        assert (await (await get_pool().session(1)).call("mine", {})).blocks == ("ok",)
