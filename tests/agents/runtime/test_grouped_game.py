"""The game of 2026: grouped tools and answers in texts, flown by the pilot."""

from __future__ import annotations

import json
from typing import Any

from channels.db import database_sync_to_async

from agents import actions
from agents.models import Event, Mysis, Turn
from memory.gamestate.rows import recall_content
from memory.models import GameSnapshot, Memory
from memory.search.results import search_messages
from memory.snapshots.reads import read_account_state
from sandbox.game.testing import SandboxServer
from tests.agents.runtime.conftest import fly
from tests.fakes.openai import FakeProvider, call, completion

TURNS = 25


def _read(mysis: Mysis) -> dict[str, Any]:
    tools = Memory.objects.filter(mysis=mysis, role="tool")
    account = Mysis.objects.select_related("account").get(pk=mysis.pk).account
    assert account is not None
    state = read_account_state(account.username)
    rows = GameSnapshot.objects.filter(username=account.username)
    return {
        "errors": list(tools.filter(is_error=True).values_list("tool_name", "content")),
        "names": set(tools.values_list("tool_name", flat=True)),
        "snapshots": {row.tool_name for row in rows},
        "status": recall_content(state.snapshots, "state://get_status#raw"),
        "outcomes": set(Turn.objects.values_list("outcome", flat=True)),
        "called": [
            one["tool"]
            for one in Event.objects.filter(kind="tool.called").values_list(
                "data", flat=True
            )
        ],
        "found": search_messages(query="mine", mysis_id=mysis.pk),
        "texts": "\n".join(Memory.objects.values_list("content", flat=True)),
    }


async def test_the_pilot_plays_it_and_no_request_is_invalid(
    ada: Mysis, grouped: SandboxServer
) -> None:
    for _ in range(TURNS):
        await fly(ada)
    found = await database_sync_to_async(_read)(ada)
    calls = grouped.calls("Ada")
    assert found["outcomes"] == {"done"}
    codes = set(calls["refused"])
    assert not codes & {"invalid_payload", "unknown_command", "session_required"}
    # Work was done: ore was mined and sold.
    executed = calls["by_tool"]["executed"]
    assert executed["mine"] > 3, executed
    assert executed["travel"] >= 1, executed
    # What is stored, cached and told goes by the command, not by the tool.
    assert {"get_status", "mine", "travel"} <= found["names"]
    assert not [name for name in found["names"] if name.startswith("spacemolt")]
    assert "get_status" in found["snapshots"]
    assert found["status"].startswith("Ada [")
    assert "mine" in found["called"]
    assert "spacemolt" not in found["called"]
    assert found["found"]
    player = grouped.game.state.find_player("Ada")
    assert player is not None
    sessions_now = grouped.game.state.sessions.of(player.id)
    assert sessions_now
    assert all(one.id not in found["texts"] for one in sessions_now)


async def test_an_order_is_done(ada: Mysis, grouped: SandboxServer) -> None:
    for _ in range(6):
        await fly(ada)
    await database_sync_to_async(actions.send_message)(
        mysis=ada, text="Dock at the nearest station.", by="op"
    )
    for _ in range(10):
        await fly(ada)
        player = grouped.game.state.find_player("Ada")
        if player is not None and player.docked_at:
            break
    assert player is not None
    assert player.docked_at


async def test_what_happened_in_the_tick_of_an_action_is_known_in_the_next_call(
    eve: Mysis, provider: FakeProvider, grouped: SandboxServer
) -> None:
    """The game answers at the tick; who shot at the ship then, only its events tell."""
    given = {"action": "register", "username": "Eve", "empire": "solarian"}
    for tool, arguments in (
        ("spacemolt_auth", given),
        ("spacemolt", {"action": "get_status"}),
    ):
        called = call(tool, json.dumps(arguments))
        provider.answer(completion(None, tool_calls=[called]))
    provider.answer(completion("Ready."))
    await fly(eve)
    asked = grouped.calls("Eve")["by_tool"]["queries"]
    assert "get_notifications" not in asked
    undock = call("spacemolt", json.dumps({"action": "undock"}))
    provider.answer(completion(None, tool_calls=[undock]))
    provider.answer(completion("Done."))
    await fly(eve)
    asked = grouped.calls("Eve")["by_tool"]["queries"]
    # At the start of the turn, and after the action.
    assert asked["get_notifications"] == 2
