"""Sessions are opened no faster than the game allows, by all processes together."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from channels.db import database_sync_to_async as in_db
from django.db import connection
from pytest_django import Settings

from agents.game import connect_limit
from agents.game.client import GameUnreachableError, RateLimitedError
from agents.game.sessions import get_pool
from agents.models import GameGate
from tests.agents.game.faulty import FaultyServer, http
from zoea.settings import openings_at

pytestmark = pytest.mark.django_db(transaction=True)
HOST = "127.0.0.1"


@pytest.fixture
def twelve_a_minute(settings: Settings) -> Settings:
    settings.ZOEA_GAME_OPENINGS = 12
    return settings


def pass_time(seconds: float) -> None:
    """As if so much of it were gone."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE agents_gamegate SET full_at = full_at - %s * interval '1 second'",
            [seconds],
        )


def passed(wanted: int) -> int:
    return sum(connect_limit.take_token(HOST) == 0 for _ in range(wanted))


def test_a_burst_passes_and_then_one_after_the_other(twelve_a_minute: Settings) -> None:
    assert passed(10) == connect_limit.BURST
    # A minute, in which a slow machine may not lose itself, and the 5 s.
    pass_time(-60)
    assert 55 < connect_limit.take_token(HOST) <= 65
    pass_time(65.1)
    assert passed(10) == 1
    pass_time(3600)
    assert passed(10) == connect_limit.BURST, "a quiet hour is no store of tokens"


def test_another_game_has_a_gate_of_its_own(twelve_a_minute: Settings) -> None:
    passed(10)
    assert connect_limit.take_token("other.example") == 0
    assert GameGate.objects.count() == 2


def test_who_is_shut_out_waits_in_every_process(twelve_a_minute: Settings) -> None:
    connect_limit.block_host(HOST, 90)
    assert 75 < connect_limit.take_token(HOST) <= 90


async def test_a_session_that_is_open_needs_no_gate(
    twelve_a_minute: Settings,
) -> None:
    async with FaultyServer() as server:
        twelve_a_minute.SPACEMOLT_MCP_URL = server.url
        waits = [
            await get_pool().begin_session(number)
            for number in range(connect_limit.BURST + 2)
        ]
        assert waits[: connect_limit.BURST] == [0.0] * connect_limit.BURST
        assert all(wait > 0 for wait in waits[connect_limit.BURST :])
        assert await get_pool().begin_session(0) == 0
        assert await (await get_pool().session(0)).tools()
        assert len(get_pool()._sessions) == connect_limit.BURST


async def test_who_waits_in_a_turn_can_be_stopped_and_leaves_no_gap(
    twelve_a_minute: Settings,
) -> None:
    async with FaultyServer() as server:
        twelve_a_minute.SPACEMOLT_MCP_URL = server.url
        await in_db(passed)(connect_limit.BURST)
        before = await in_db(GameGate.objects.get)()
        first, second = (asyncio.create_task(get_pool().session(n)) for n in (1, 2))
        # Both have asked or stand in line: a look at the database lies between.
        await in_db(GameGate.objects.get)()
        second.cancel()
        first.cancel()
        done = await asyncio.gather(first, second, return_exceptions=True)
        assert all(isinstance(one, asyncio.CancelledError) for one in done)
        assert await in_db(GameGate.objects.get)() == before
        await in_db(pass_time)(6)
        assert await (await get_pool().session(2)).tools()


async def test_logins_pass_the_gate_too(twelve_a_minute: Settings) -> None:
    async with FaultyServer({"name": "login"}, {"name": "get_status"}) as server:
        twelve_a_minute.SPACEMOLT_MCP_URL = server.url
        session = await get_pool().session(1)
        await session.call("login", {})
        await session.call("get_status", {})
        assert await in_db(passed)(10) == connect_limit.BURST - 2


async def test_a_game_that_shuts_us_out_is_left_alone(settings: Settings) -> None:
    """Fifty rejections in a minute are a ban: nobody calls before the time."""
    async with FaultyServer() as server:
        settings.SPACEMOLT_MCP_URL = server.url
        first, second = await get_pool().session(1), await get_pool().session(2)
        server.plan.append(http(429, '{"retry_after": 30}'))
        with pytest.raises(RateLimitedError):
            await first.call("get_status", {})
        with pytest.raises(RateLimitedError) as caught:
            await first.call("get_status", {})
        assert caught.value.retry_after is not None
        assert 20 < caught.value.retry_after <= 30
        await second.call("get_status", {})
        assert len(server.calls) == 2, "only the one that was told keeps still"
        server.plan.append(http(429, '{"retry_after": 120}'))
        with pytest.raises(RateLimitedError):
            await second.call("get_status", {})
        third = await get_pool().begin_session(3)
        assert 110 < third <= 120
        with pytest.raises(GameUnreachableError) as told:
            await get_pool().session(3)
        assert told.value.retry_after is not None
        assert 110 < told.value.retry_after <= 120


@pytest.mark.parametrize(
    ("url", "openings"),
    [
        ("http://127.0.0.1:8765/mcp", 0),
        ("http://sandbox:8765/mcp", 0),
        ("http://[::1]:8765/mcp", 0),
        ("http://192.168.1.7/mcp", 0),
        ("https://game.spacemolt.com/mcp", 25),
        ("https://8.8.8.8/mcp", 25),
    ],
)
def test_a_local_game_has_no_gate(url: str, openings: int) -> None:
    assert openings_at(url) == openings


def test_the_rate_is_kept_to_over_a_minute(settings: Settings, db: Any) -> None:
    """With the default, fewer than thirty in any minute."""
    settings.ZOEA_GAME_OPENINGS = 25
    begun = time.monotonic()
    through = passed(10)
    for _ in range(60):
        pass_time(1)
        through += passed(3)
    # The test's own seconds count too.
    assert through < 30 + (time.monotonic() - begun) * 25 / 60
