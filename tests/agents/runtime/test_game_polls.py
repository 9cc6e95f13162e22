"""The game's events are asked for while a Mysis waits for its next turn."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from channels.db import database_sync_to_async as in_db
from django.utils import timezone
from pytest_django import Settings

from agents.dashboard import map
from agents.game.sessions import get_pool
from agents.models import Event, Mysis
from agents.runtime import game_polls
from agents.runtime.game_polls import EventPolls
from agents.tools.chain import Toolbox
from memory.models import ContextPolicy, GameEvent, GameSnapshot, Memory
from sandbox.game.testing import SandboxServer
from tests.agents.runtime.conftest import fly


async def _wait_for_a_turn(mysis: Mysis, minutes: int) -> None:
    at = timezone.now() + timedelta(minutes=minutes)
    await in_db(Mysis.objects.filter(pk=mysis.pk).update)(wake_at=at)


async def test_events_are_fetched_while_it_waits(
    ada: Mysis, sandbox: SandboxServer
) -> None:
    await fly(ada)
    await asyncio.to_thread(sandbox.happen, "Ada", "skill_level_up")
    before = await in_db(GameEvent.objects.count)()
    polls = EventPolls()
    # Due at once: its own turn will ask.
    await _wait_for_a_turn(ada, 0)
    assert await polls.poll() == []
    await _wait_for_a_turn(ada, 5)
    assert await polls.poll() == [ada.pk]
    assert await in_db(GameEvent.objects.count)() > before
    # Not again before some ticks have passed.
    assert await polls.poll() == []


async def test_nobody_is_asked_for_who_does_not_wait_or_may_not_be(
    ada: Mysis, sandbox: SandboxServer, settings: Settings
) -> None:
    await fly(ada)
    await _wait_for_a_turn(ada, 5)
    settings.ZOEA_FETCH_EVENTS = False
    assert await EventPolls().poll() == []
    settings.ZOEA_FETCH_EVENTS = True
    await in_db(Mysis.objects.filter(pk=ada.pk).update)(state="stopped")
    assert await EventPolls().poll() == []
    await in_db(Mysis.objects.filter(pk=ada.pk).update)(state="running")
    # The game has asked for a pause: nothing is sent.
    get_pool().pace(ada.pk, "get_notifications", 60)
    asked = sandbox.calls("Ada")["by_tool"]["queries"].get("get_notifications", 0)
    assert await EventPolls().poll() == [ada.pk]
    again = sandbox.calls("Ada")["by_tool"]["queries"].get("get_notifications", 0)
    assert again == asked


async def test_nobody_is_asked_for_whom_the_fleets_default_shows_no_state(
    ada: Mysis, sandbox: SandboxServer
) -> None:
    """What is drained would be shown to nobody: it would be lost."""
    await fly(ada)
    await _wait_for_a_turn(ada, 5)
    add = in_db(ContextPolicy.objects.create)
    default = await add(name="a", options={"state_block": False}, is_default=True)
    assert await EventPolls().poll() == []
    shown = await add(name="b")
    await in_db(Mysis.objects.filter(pk=ada.pk).update)(policy=shown)
    assert await EventPolls().poll() == [ada.pk]
    await in_db(default.delete)()
    await in_db(Mysis.objects.filter(pk=ada.pk).update)(policy=None)
    assert await EventPolls().poll() == [ada.pk]


async def test_no_session_is_opened_for_it(ada: Mysis, sandbox: SandboxServer) -> None:
    await fly(ada)
    await _wait_for_a_turn(ada, 5)
    await get_pool().close()
    assert await EventPolls().poll() == []


async def test_a_poll_that_brings_no_event_leaves_no_line_in_the_feed(
    ada: Mysis, sandbox: SandboxServer
) -> None:
    await fly(ada)
    await _wait_for_a_turn(ada, 5)
    await EventPolls().poll()
    called = Event.objects.filter(kind="tool.called", data__tool="get_notifications")
    before = await in_db(called.count)()
    assert await EventPolls().poll() == [ada.pk]
    assert await in_db(called.count)() == before
    await asyncio.to_thread(sandbox.happen, "Ada", "skill_level_up")
    assert await EventPolls().poll() == [ada.pk]
    assert await in_db(called.count)() == before + 1


async def test_a_game_that_hangs_does_not_hold_a_round_up(
    ada: Mysis, sandbox: SandboxServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fly(ada)
    await _wait_for_a_turn(ada, 5)

    async def hang(toolbox: Toolbox) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(game_polls, "drain_events", hang)
    monkeypatch.setattr(game_polls, "POLL_SECONDS", 0.0)
    assert await EventPolls().poll() == [ada.pk]


def _map_calls(sandbox: SandboxServer) -> int:
    asked: int = sandbox.calls("Ada")["by_tool"]["queries"].get("get_map", 0)
    return asked


async def test_the_map_of_a_local_game_is_asked_for_once_a_day(
    ada: Mysis, sandbox: SandboxServer, settings: Settings
) -> None:
    assert settings.ZOEA_FETCH_MAP
    # No session is opened for it.
    assert await EventPolls().fetch_map() is None
    await fly(ada)
    said = await in_db(Memory.objects.count)()
    events = await in_db(Event.objects.count)()
    settings.ZOEA_FETCH_MAP = False
    assert await EventPolls().fetch_map() is None
    settings.ZOEA_FETCH_MAP = True
    polls = EventPolls()
    before = _map_calls(sandbox)
    assert await polls.fetch_map() == ada.pk
    assert await polls.fetch_map() is None
    assert await EventPolls().fetch_map() is None
    assert _map_calls(sandbox) == before + 1
    chart = await in_db(map.load_chart)()
    assert chart is not None
    assert len(chart.stars) == 20
    # It is of no account, and in nobody's log: no context changes by it.
    rows = GameSnapshot.objects.filter(tool_name="get_map")
    assert await in_db(lambda: [row.username for row in rows])() == [""]
    assert await in_db(Memory.objects.count)() == said
    assert await in_db(Event.objects.count)() == events
    # A day later it is asked for again.
    await in_db(rows.update)(captured_at=timezone.now() - timedelta(hours=25))
    assert await EventPolls().fetch_map() == ada.pk
    assert await in_db(rows.count)() == 1


async def test_a_game_without_a_map_is_left_alone(
    ada: Mysis, sandbox: SandboxServer
) -> None:
    await fly(ada)
    get_pool().pace(ada.pk, "get_map", 60)
    polls = EventPolls()
    before = _map_calls(sandbox)
    assert await polls.fetch_map() is None
    assert _map_calls(sandbox) == before
    assert await in_db(map.load_chart)() is None
    get_pool().pace(ada.pk, "get_map", 0)
    # Not again before some minutes have passed.
    assert await polls.fetch_map() is None
    assert await EventPolls().fetch_map() == ada.pk
