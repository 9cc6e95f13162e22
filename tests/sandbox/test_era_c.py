"""Era C: the caller waits for the tick, and gets what came of the action."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from agents.game.client import Connection, connect
from sandbox.game.game import Game
from sandbox.game.testing import SandboxServer
from tests.sandbox.captains import Captain, make_game


@pytest.fixture
def game() -> Game:
    return make_game(era="C")


def finish(captain: Captain, tool: str, **arguments: Any) -> dict[str, Any]:
    """Act, let ticks pass until the outcome is there, and give it."""
    assert captain.call(tool, **arguments)["pending"] is True
    for _ in range(10):
        captain.game.step()
        outcome = captain.game.outcome(captain.player.id)
        if outcome is not None:
            if outcome.error is not None:
                raise outcome.error
            assert outcome.result is not None
            return outcome.result
    raise AssertionError("no outcome")


def test_results_have_the_forms_of_the_era(captain: Captain) -> None:
    assert finish(captain, "undock") == {"action": "undock"}
    assert finish(captain, "travel", target_poi="sol_belt") == {
        "action": "arrived",
        "poi": "Main Belt",
        "poi_id": "sol_belt",
        "online_players": None,
        "online_players_count": 0,
        "online_players_truncated": False,
    }
    mined = finish(captain, "mine")
    assert " ".join(mined) == (
        "resource_id resource_name quantity remaining remaining_display max_remaining "
        "xp_gained depletion_percent kind"
    )
    finish(captain, "travel", target_poi="sol_station")
    docked = finish(captain, "dock")
    assert set(docked) == {"action", "base", "story", "station_condition"}
    near = captain.game.state.world.systems["sol"].connections[0]
    finish(captain, "undock")
    jumped = finish(captain, "jump", target_system=near)
    assert list(jumped) == [
        "action",
        "from_system",
        "system",
        "system_id",
        "poi",
        "exploration_xp",
        "navigation_xp",
    ]


def test_every_outcome_is_told_with_its_tick(captain: Captain) -> None:
    result = finish(captain, "undock")
    (told,) = captain.news()
    assert told["msg_type"] == "action_result"
    assert told["data"] == {
        "command": "undock",
        "tick": captain.game.tick,
        "result": result,
    }


def test_a_second_action_is_refused_until_the_first_is_done(captain: Captain) -> None:
    captain.call("undock")
    refusal = captain.refused("travel", target_poi="sol_belt")
    assert refusal.code == "action_pending"
    assert refusal.message == "Another action is already in progress"
    captain.game.step()
    captain.call("travel", target_poi="sol_belt")
    captain.game.step()
    # One tick away: it has arrived.
    assert captain.player.poi_id == "sol_belt"


def test_in_flight_actions_are_refused_and_questions_say_so(captain: Captain) -> None:
    near = captain.game.state.world.systems["sol"].connections[0]
    captain.call("jump", target_system=near)
    captain.game.step()
    assert captain.refused("mine").code == "in_transit"
    assert captain.refused("jump", target_system=near).code == "already_jumping"
    assert captain.call("get_system")["in_transit"] is True


def test_undocking_is_done_for_the_captain(captain: Captain) -> None:
    refusal = captain.refused("mine")
    assert refusal.code == "no_resources"
    # The refused action has undocked the ship all the same, as was recorded.
    assert captain.player.docked_at is None
    (told,) = captain.news()
    assert told["data"] == {
        "message": "Automatically undocked (required for mine)",
        "type": "auto_undock",
    }


def test_docking_is_done_for_the_captain(captain: Captain) -> None:
    captain.player.docked_at = None
    captain.player.ship.load("ore_iron", 3)
    sold = finish(captain, "sell", item_id="ore_iron", quantity=3)
    assert sold["auto_docked"] is True
    assert sold["quantity_sold"] == 3
    assert captain.player.docked_at == "sol_base"


def test_what_fails_at_its_tick_repeats_its_code(captain: Captain) -> None:
    captain.call("buy", item_id="fuel_cell", quantity=2)
    captain.player.credits = 0
    captain.game.step()
    outcome = captain.game.outcome(captain.player.id)
    assert outcome is not None
    assert outcome.error is not None
    assert outcome.error.text == (
        "Error: insufficient_credits: insufficient_credits: "
        "Need 30 credits. You have 0."
    )
    (told,) = captain.news()
    assert told["msg_type"] == "action_error"


def test_a_system_has_the_form_since_v0_87(captain: Captain) -> None:
    view = captain.call("get_system")
    assert list(view) == ["action", "system", "poi", "security_status"]
    assert view["poi"] in view["system"]["pois"]
    assert view["poi"]["base_name"] == "Confederacy Central Command"
    assert set(view["system"]["connections"][0]) == {"system_id", "name", "distance"}


def test_the_log_is_read_one_entry_at_a_time(captain: Captain) -> None:
    assert captain.call("captains_log_list")["entry"] is None
    for text in ("first", "second"):
        captain.call("captains_log_add", entry=text)
    newest = captain.call("captains_log_list")
    assert (newest["entry"]["entry"], newest["has_next"]) == ("second", True)
    oldest = captain.call("captains_log_list", index=1)
    assert (oldest["entry"]["entry"], oldest["has_prev"]) == ("first", True)
    assert captain.refused("captains_log_list", index=2).code == "invalid_index"
    again = captain.game.call(
        "login",
        {"username": "Wanderer", "password": captain.registered["password"]},
    )
    assert [one["entry"] for one in again["captains_log"]] == ["second"]


def test_an_unknown_era_is_refused() -> None:
    with pytest.raises(ValueError, match="era must be A, C or v2"):
        make_game(era="B")


async def call(connection: Connection, tool: str, **arguments: Any) -> dict[str, Any]:
    answer = await connection.call(tool, arguments)
    assert not answer.is_error, answer.blocks
    view: dict[str, Any] = json.loads(answer.blocks[0])
    return view


async def test_over_http_the_answer_comes_with_the_tick() -> None:
    with SandboxServer(era="C") as sandbox:
        async with connect(sandbox.url) as connection:
            registered = await call(
                connection, "register", username="Patience", empire="solarian"
            )
            given = {"session_id": registered["session_id"]}
            going = asyncio.create_task(
                call(connection, "travel", target_poi="sol_belt", **given)
            )
            await asyncio.to_thread(sandbox.wait_until_held)
            assert not going.done()
            twice = await connection.call("mine", given)
            assert twice.blocks[0].startswith("Error: action_pending: ")
            sandbox.step()
            arrived = await going
            assert arrived["action"] == "arrived"
            assert arrived["auto_undocked"] is True


async def test_over_http_what_failed_is_an_error() -> None:
    with SandboxServer(era="C") as sandbox:
        async with connect(sandbox.url) as connection:
            registered = await call(
                connection, "register", username="Poor", empire="solarian"
            )
            given = {"session_id": registered["session_id"]}
            buying = asyncio.create_task(
                connection.call("buy", {**given, "item_id": "fuel_cell", "quantity": 1})
            )
            await asyncio.to_thread(sandbox.wait_until_held)
            player = sandbox.player("Poor")
            sandbox.run(lambda: setattr(player, "credits", 0))
            sandbox.step()
            answer = await buying
            assert answer.is_error
            assert answer.blocks[0].startswith("Error: insufficient_credits: insuff")
