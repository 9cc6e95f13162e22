"""Tools of API v2 through the chain: kinds, cached state, lost replies, structured content."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest_asyncio
from channels.db import database_sync_to_async as in_db
from pytest_django import Settings

from agents.models import Account, Mysis, UnknownOutcome
from agents.tool_catalogue import read_game_offer, remember_tools
from agents.tools.chain import open_toolbox
from memory.gamestate.facts import View
from memory.gamestate.sections import read_facts
from memory.models import GameSnapshot
from memory.snapshots.reads import read_account_state
from tests.agents.game.faulty import FaultyServer, Reply, result, rpc

CORE = {
    "name": "spacemolt",
    "inputSchema": {
        "type": "object",
        "properties": {
            "session_id": {"type": "string"},
            "action": {
                "type": "string",
                "enum": ["get_status", "mine", "travel", "get_notifications"],
            },
            "id": {"type": "string"},
        },
        "required": ["session_id", "action"],
    },
}
AUTH = {
    "name": "spacemolt_auth",
    "inputSchema": {
        "type": "object",
        "properties": {
            "action": {"type": "string", "enum": ["login", "register", "logout"]},
            "username": {"type": "string"},
            "password": {"type": "string"},
            "session_id": {"type": "string"},
        },
        "required": ["action"],
    },
}
STATUS = json.dumps({"action": "get_status"})
TEXT = "Ada [solarian] | 1,250cr | Sol\nFuel: 5/10 | Cargo: 0/50"
STRUCTURE = {
    "player": {"username": "Ada", "credits": 1250},
    "location": {"poi_id": "sol_belt", "system_name": "Sol", "docked_at": None},
}


@pytest_asyncio.fixture
async def grouped(settings: Settings) -> AsyncIterator[FaultyServer]:
    async with FaultyServer(CORE, AUTH) as server:
        settings.SPACEMOLT_MCP_URL = server.url
        yield server


def _give_account(mysis: Mysis) -> None:
    account = Account(username="Ada", assigned_to=mysis)
    account.game_session = "a" * 32
    account.password = "b" * 64
    account.save()
    mysis.account = account
    mysis.save()


def _rows() -> list[GameSnapshot]:
    return list(GameSnapshot.objects.order_by("tool_name"))


async def test_structured_content_is_kept_beside_the_text_and_read(
    grouped: FaultyServer, mysis: Mysis
) -> None:
    await in_db(_give_account)(mysis)
    box = await open_toolbox(mysis.pk)
    blocks = [{"type": "text", "text": TEXT}]
    both = {"content": blocks, "structuredContent": STRUCTURE}
    grouped.plan.append(rpc({"result": both}))
    answer = await box.call("spacemolt", STATUS)
    # The model is shown the text.
    assert answer.text == TEXT
    [row] = await in_db(_rows)()
    assert (row.tool_name, row.args) == ("get_status", {})
    assert json.loads(row.content) == {
        "result": TEXT,
        "structuredContent": STRUCTURE,
    }
    state = await in_db(read_account_state)("Ada")
    facts = read_facts("get_status", View(STRUCTURE), STRUCTURE)
    assert any("1,250" in fact.value for fact in facts)
    assert [one.tool for one in state.snapshots] == ["get_status"]
    # The next answer without it takes the same place, as the text that it is.
    grouped.plan.append(result(TEXT))
    await box.call("spacemolt", STATUS)
    [row] = await in_db(_rows)()
    assert row.content == TEXT
    await in_db(remember_tools)(box.specs, box.clashing)
    offer = await in_db(read_game_offer)()
    assert (offer.api_version, offer.tools) == (2, 2)


async def test_an_action_doubts_its_fields_and_an_unknown_one_everything(
    grouped: FaultyServer, mysis: Mysis
) -> None:
    await in_db(_give_account)(mysis)
    box = await open_toolbox(mysis.pk)
    grouped.plan.append(result(TEXT))
    await box.call("spacemolt", STATUS)
    grouped.plan.append(result("Arrived at Main Belt."))
    await box.call("spacemolt", json.dumps({"action": "travel", "id": "sol_belt"}))
    [row] = await in_db(_rows)()
    assert row.stale_reason == "travel"
    assert "ship.fuel" in row.stale_fields
    assert "player.credits" not in row.stale_fields
    # The enum of the schema refuses what the server does not offer; without one
    # nobody knows what an action does.
    del box.tools["spacemolt"].spec.parameters["properties"]["action"]["enum"]
    assert box.reads_only("spacemolt", STATUS)
    assert not box.reads_only("spacemolt", json.dumps({"action": "get_rumours"}))
    assert not box.reads_only("spacemolt", "{}")


async def test_a_lost_action_is_looked_into_by_the_grouped_read(
    grouped: FaultyServer, mysis: Mysis
) -> None:
    await in_db(_give_account)(mysis)
    box = await open_toolbox(mysis.pk)
    grouped.plan.extend([lambda _: Reply(drop=True), result(TEXT)])
    lost = await box.call("spacemolt", json.dumps({"action": "mine"}))
    assert lost.text.startswith("Error: outcome_unknown: The reply to mine was lost.")
    assert "get_status says now" in lost.text
    asked = [arguments.get("action") for _, arguments in grouped.calls]
    assert "get_status" in asked
    assert asked.count("mine") <= 1
    known = await in_db(lambda: list(UnknownOutcome.objects.values_list("tool")))()
    assert known in ([], [("mine",)])


async def test_a_lost_session_logs_in_again_by_the_grouped_tool(
    grouped: FaultyServer, mysis: Mysis
) -> None:
    await in_db(_give_account)(mysis)
    box = await open_toolbox(mysis.pk)
    gone = "Error: session_invalid: Session not found or expired."
    session = "c" * 32
    welcome = f"Welcome back, Ada! Session ID: {session}\nLatest release: v0.493.0"
    grouped.plan.extend([result(gone, is_error=True), result(welcome), result(TEXT)])
    answer = await box.call("spacemolt", STATUS)
    assert answer.text == TEXT
    names = [(name, arguments.get("action")) for name, arguments in grouped.calls]
    assert ("spacemolt_auth", "login") in names
    assert grouped.calls[-1][1]["session_id"] == session
    # No secret is shown to the model, also where it logs in itself.
    grouped.plan.append(result(welcome))
    own = json.dumps({"action": "login", "username": "Ada"})
    shown = await box.call("spacemolt_auth", own)
    assert not shown.is_error
    assert session not in shown.text


async def test_an_unknown_tool_does_not_take_the_place_of_a_known_read(
    mysis: Mysis, settings: Settings
) -> None:
    citizenship = {**CORE, "name": "spacemolt_citizenship"}
    async with FaultyServer(citizenship, CORE, AUTH) as server:
        settings.SPACEMOLT_MCP_URL = server.url
        await in_db(_give_account)(mysis)
        box = await open_toolbox(mysis.pk)
        server.plan += [result(TEXT), result("Citizen of Solarian since 2026.")]
        await box.call("spacemolt", STATUS)
        await box.call("spacemolt_citizenship", STATUS)
        [row] = await in_db(_rows)()
        assert (row.tool_name, row.content) == ("get_status", TEXT)
