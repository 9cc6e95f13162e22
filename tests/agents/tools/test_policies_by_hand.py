"""What a policy set by hand changes of a call, and what it must leave as it was (A1)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from channels.db import database_sync_to_async as in_db
from pytest_django import Settings

from agents import actions
from agents.db import run_in_db
from agents.models import Event, Mysis
from agents.tools import transport
from agents.tools.chain import Toolbox, open_toolbox
from agents.tools.request import Request
from memory.models import GameSnapshot
from memory.redaction import HIDDEN
from tests.agents.game.faulty import FaultyServer, Reply, result
from tests.agents.tools.test_grouped_tools import AUTH, CORE, STATUS, _give_account

SESSION = {"session_id": {"type": "string"}}
SOCIAL = {
    "name": "spacemolt_social",
    "inputSchema": {
        "type": "object",
        "properties": {
            **SESSION,
            "action": {"type": "string"},
            "content": {"type": "string"},
        },
        "required": ["session_id", "action"],
    },
}
SHOWN = '{"player":{"username":"Ada","credits":5},"ship":{"fuel":3}}'


def plain(name: str) -> dict[str, object]:
    schema = {"type": "object", "properties": SESSION, "required": ["session_id"]}
    return {"name": name, "inputSchema": schema}


def call_of(action: str, **given: str) -> str:
    return json.dumps({"action": action, **given})


async def open_grouped(mysis: Mysis) -> Toolbox:
    await in_db(_give_account)(mysis)
    return await open_toolbox(mysis.pk)


@pytest.mark.parametrize("policy", ["", "secret"])
async def test_an_action_that_is_hidden_changes_as_much_as_one_that_is_shown(
    mysis: Mysis, settings: Settings, policy: str
) -> None:
    async with FaultyServer(plain("get_status"), plain("do_thing")) as server:
        settings.SPACEMOLT_MCP_URL = server.url
        await in_db(_give_account)(mysis)
        if policy:
            await run_in_db(actions.save_tool_policy, tool="do_thing", policy=policy)
        box = await open_toolbox(mysis.pk)
        server.plan += [result(SHOWN), result('{"ok":true}')]
        await box.call("get_status", "{}")
        await box.call("do_thing", "{}")
        row = await GameSnapshot.objects.aget(tool_name="get_status")
        assert row.stale_reason == "do_thing"
        server.plan.append(lambda _: Reply(drop=True))
        assert (await box.call("do_thing", "{}")).unknown
        told = [row.data async for row in Event.objects.filter(kind="tool.called")]
        hidden = [one["arguments"] == HIDDEN for one in told]
        assert any(hidden) == (policy == "secret")
        row = await GameSnapshot.objects.aget(tool_name="get_status")
        assert row.stale_reason == "do_thing"


@pytest.mark.parametrize("policy", ["secret", "mutation", "query"])
async def test_what_is_set_for_a_whole_grouped_tool_reaches_its_actions(
    mysis: Mysis, settings: Settings, policy: str
) -> None:
    async with FaultyServer(CORE, AUTH, SOCIAL) as server:
        settings.SPACEMOLT_MCP_URL = server.url
        await run_in_db(
            actions.save_tool_policy, tool="spacemolt_social", policy=policy
        )
        box = await open_grouped(mysis)

        def make(action: str) -> Request:
            return Request(box, "spacemolt_social", call_of(action))

        # No action becomes a read: it would be sent twice.
        assert make("captains_log_add").kind == "mutation"
        assert make("wave").kind == "mutation"
        reads = make("get_chat_history")
        assert reads.kind == ("mutation" if policy == "mutation" else "snapshot")
        assert reads.is_secret == (policy == "secret")
        await box.call("spacemolt_social", call_of("wave", content="THEVAULT"))
        told = [row.data async for row in Event.objects.filter(kind="tool.called")]
        assert ("THEVAULT" in json.dumps(told)) == (policy != "secret")


async def test_an_action_nobody_knows_can_be_declared(
    mysis: Mysis, settings: Settings
) -> None:
    async with FaultyServer(CORE, AUTH, SOCIAL) as server:
        settings.SPACEMOLT_MCP_URL = server.url
        await run_in_db(
            actions.save_tool_policy, tool="spacemolt_social/waves", policy="query"
        )
        box = await open_grouped(mysis)
        assert Request(box, "spacemolt_social", call_of("waves")).kind == "query"
        assert Request(box, "spacemolt_social", call_of("wave")).kind == "mutation"


@pytest.fixture
def waited(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    found: list[float] = []

    async def wait(seconds: float) -> None:
        found.append(seconds)

    monkeypatch.setattr(transport, "wait_for_pace", wait)
    return found


def refuse(code: str, seconds: int) -> Callable[[dict[str, Any]], Reply]:
    words = f"Error: {code}: Too early. Try again in {seconds} seconds."
    return result(words, is_error=True)


async def test_a_cooldown_stops_its_own_command_and_no_login(
    mysis: Mysis, settings: Settings, waited: list[float]
) -> None:
    async with FaultyServer(CORE, AUTH, SOCIAL) as server:
        settings.SPACEMOLT_MCP_URL = server.url
        box = await open_grouped(mysis)
        travel = call_of("travel", id="x")
        server.plan.append(refuse("cooldown", 540))
        await box.call("spacemolt", travel)
        assert not (await box.call("spacemolt", call_of("mine"))).is_error
        refused = await box.call("spacemolt", travel)
        assert refused.text.startswith("Error: rate_limited: ")
        # An action that may not be sent for minutes, and then a lost session.
        server.plan.append(refuse("action_pending", 540))
        await box.call("spacemolt", call_of("mine"))
        lost = "Error: session_invalid: Session not found or expired."
        server.plan.append(result(lost, is_error=True))
        await box.call("spacemolt", STATUS)
        sent = [given.get("action") for _, given in server.calls]
        assert "login" in sent
        assert waited == []


@pytest.mark.parametrize("action", ["chat", "captains_log_add"])
async def test_what_counts_as_a_query_holds_no_action_up(
    mysis: Mysis, settings: Settings, waited: list[float], action: str
) -> None:
    async with FaultyServer(CORE, AUTH, SOCIAL) as server:
        settings.SPACEMOLT_MCP_URL = server.url
        box = await open_grouped(mysis)
        server.plan.append(refuse("rate_limited", 20))
        await box.call("spacemolt_social", call_of(action, content="x"))
        await box.call("spacemolt", call_of("mine"))
        assert waited == []
        await box.call("spacemolt_social", call_of(action, content="x"))
        assert len(waited) == 1
