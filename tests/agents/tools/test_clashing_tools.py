"""A game whose tools have names of ours: left out, told, and never offered twice."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from channels.db import database_sync_to_async as in_db
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import Settings

from agents.context_inputs import preview_context
from agents.models import Mysis
from agents.tool_catalogue import read_game_offer, remember_tools
from agents.tools.chain import open_toolbox
from agents.tools.own_tools import FOR_MYSES
from memory.context.offered_tools import offer_tools
from memory.context.tool_calls import GAME, GAME_HELP, OWN_TOOLS
from memory.context.types import TOOL_MODES
from memory.models import ContextPolicy
from tests.agents.game.faulty import ACTION, QUERY, FaultyServer

THEIRS = ("game", "game_help", "zoea_note", "zoea_broadcast")


@pytest_asyncio.fixture
async def clashing(settings: Settings) -> AsyncIterator[FaultyServer]:
    more = [{"name": name} for name in (*THEIRS, "zoea_scout")]
    async with FaultyServer(QUERY, ACTION, *more) as server:
        settings.SPACEMOLT_MCP_URL = server.url
        yield server


def test_what_is_ours_is_written_down() -> None:
    assert {*FOR_MYSES, GAME, GAME_HELP} == OWN_TOOLS


def preview_names(mysis: Mysis, mode: str, *, messaging: bool) -> list[str]:
    """The tools beside the next call, and those that have a line."""
    policy = ContextPolicy.objects.create(
        name=f"{mode} {messaging}", options={"tools": mode}
    )
    Mysis.objects.update(policy=policy, messaging=messaging)
    view = preview_context(Mysis.objects.get(pk=mysis.pk))
    offered = view.subject.offered
    assert offered is not None
    listed = [line.split("(")[0] for line in offered.catalogue.splitlines()]
    return [*(tool["name"] for tool in offered.sent), *listed]


@pytest.mark.parametrize("mode", TOOL_MODES)
async def test_no_name_is_offered_twice(
    clashing: FaultyServer, mysis: Mysis, mode: str
) -> None:
    box = await open_toolbox(mysis.pk)
    assert box.clashing == tuple(sorted(THEIRS))
    await in_db(remember_tools)(box.specs, box.clashing)
    for messaging in (False, True):
        names = await in_db(preview_names)(mysis, mode, messaging=messaging)
        assert sorted(names) == sorted(set(names))
        # Named like ours, but none of them: one of the game's.
        assert {"zoea_scout", "mine", "zoea_note"} <= set(names)
        assert ("zoea_broadcast" in names) == messaging
        assert (GAME in names) == (mode == "on_demand")


async def test_a_name_of_ours_never_reaches_the_game(
    clashing: FaultyServer, mysis: Mysis
) -> None:
    await in_db(Mysis.objects.update)(messaging=False)
    for by in ("", "ann"):
        box = await open_toolbox(mysis.pk, by=by)
        told = await box.call("zoea_broadcast", "{}")
        assert told.text.startswith("Error: unknown_tool: ")
        for name in THEIRS:
            await box.call(name, "{}")
        assert clashing.calls == []
    assert not (await box.call("zoea_scout", "{}")).is_error
    assert clashing.calls == [("zoea_scout", {})]


async def test_the_operator_is_told_as_long_as_it_is_so(
    clashing: FaultyServer, mysis: Mysis, caplog: pytest.LogCaptureFixture
) -> None:
    box = await open_toolbox(mysis.pk)
    for _ in range(2):
        await in_db(remember_tools)(box.specs, box.clashing)
    assert caplog.text.count("zoea_broadcast, zoea_note are not offered") == 1
    client = Client()
    user = await User.objects.acreate(username="ann", is_superuser=True, is_staff=True)
    await client.aforce_login(user)
    for address in ("/health/", "/myses/Ada/context/?view=tools"):
        page = (await in_db(client.get)(address)).content.decode()
        assert "tools of its own named <code>game</code>" in page
        assert page.count("<code>zoea_note</code>. Zoea has tools of these names") == 1
    await in_db(remember_tools)(box.specs)
    offer = await in_db(read_game_offer)()
    assert (offer.clashing, offer.tools, offer.api_version) == ((), 3, 1)
    page = (await in_db(client.get)("/health/")).content.decode()
    assert "tools of its own" not in page
    assert clashing.url in page


def test_a_list_of_somebody_else_keeps_its_game() -> None:
    known = [{"name": GAME, "description": "", "parameters": {}}]
    assert [one["name"] for one in offer_tools(known, "full", None).sent] == [GAME]
    mine = {"name": "mine", "description": "", "parameters": {}}
    sent = offer_tools([*known, mine], "on_demand", None).sent
    assert [one["name"] for one in sent] == [GAME, GAME_HELP]
