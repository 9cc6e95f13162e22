"""API v2 in the sandbox: grouped tools of the same commands, answers as texts."""

from __future__ import annotations

import pytest

from sandbox.game.api import PRESETS, Api, choose_groups, group_tools, read_call
from sandbox.game.config import Config, GameError
from sandbox.game.game import Game
from sandbox.game.table import list_tools
from sandbox.game.truth import describe_account

TOOLS = list_tools("v2")
GROUPS = group_tools(TOOLS)


@pytest.fixture
def game() -> Game:
    return Game(Config(systems=20, era="v2"))


def test_every_command_of_era_c_is_one_action() -> None:
    held = [tool.name for group in GROUPS.values() for tool in group.actions.values()]
    assert sorted(set(held)) == sorted(list_tools("C"))


def test_a_call_becomes_the_command_with_its_own_arguments() -> None:
    asked = {"session_id": "s", "action": "travel", "id": "sol_belt"}
    wanted = ("travel", {"session_id": "s", "target_poi": "sol_belt"})
    assert read_call(GROUPS, "spacemolt", asked) == wanted
    own = {"action": "travel", "target_poi": "sol_belt"}
    assert read_call(GROUPS, "spacemolt", own) == ("travel", {"target_poi": "sol_belt"})
    log = {"action": "captains_log_add", "content": "found ore"}
    assert read_call(GROUPS, "spacemolt_social", log)[1] == {"entry": "found ore"}
    view = {"action": "view"}
    assert read_call(GROUPS, "spacemolt_storage", view)[0] == "view_storage"
    assert read_call(GROUPS, "spacemolt", {"action": "help"}) == ("", {})


@pytest.mark.parametrize("arguments", [{}, {"action": "fly"}, {"action": 3}])
def test_an_unknown_action_is_refused_with_those_there_are(arguments) -> None:
    with pytest.raises(GameError, match="Actions: ") as caught:
        read_call(GROUPS, "spacemolt", arguments)
    assert caught.value.code == "invalid_payload"
    with pytest.raises(GameError, match="Unknown command"):
        read_call(GROUPS, "mine", {})


def test_a_preset_chooses_groups() -> None:
    basic = {one.name for one in choose_groups(GROUPS, "basic")}
    full = {one.name for one in choose_groups(GROUPS, "full")}
    assert {"spacemolt", "spacemolt_auth"} <= basic < full == set(GROUPS)
    usual = choose_groups(GROUPS, "standard")
    assert choose_groups(GROUPS, "") == choose_groups(GROUPS, "odd") == usual
    less = {one.name for one in choose_groups(GROUPS, "full", ["social", "auth"])}
    assert full - less == {"spacemolt_social", "spacemolt_auth"}
    assert set(PRESETS) == {"basic", "standard", "full"}


def test_the_texts_are_as_they_were_recorded(game: Game) -> None:
    api = Api(game)
    given = {"username": "Ada", "empire": "solarian"}
    session = game.call("register", given)["session_id"]
    who = {"session_id": session}

    def said(command: str) -> list[str]:
        text = api.render(command, game.answer(command, who), session)
        return text.splitlines()

    status = said("get_status")
    assert status[0] == "Ada [solarian] | 100cr | Sol"
    assert status[1].startswith("Ship: Prospector (starter_mining) | Hull: 100/100 | ")
    assert status[2].startswith("Fuel: 100/100 | Cargo: 0/50 | CPU: ")
    assert status[3] == "Docked at: sol_base"
    assert "id\ttype\tslot\tsize\twear\tstats" in status
    game.answer("accept_mission", {**who, "mission_id": "iron_for_the_docks"})
    while game.outcome(game.player_of(session)) is None:
        game.step()
    assert "- Iron for the Docks (mining)" in said("get_status")
    system = said("get_system")
    assert system[0].startswith("System: Sol (sol) | Empire: solarian | Security: Max")
    assert system[1:3] == ["POIs (6):", "id\tname\ttype\tclass\tbase\tonline"]
    assert said("get_poi")[0].startswith(
        "POI: Sol Central (sol_station) | Type: station"
    )
    game.call("get_notifications", who)
    assert said("get_notifications") == ["No notifications."]
    true = describe_account(game, "Ada")
    for tool in ("get_status", "get_system", "get_cargo"):
        assert true["texts"][tool].splitlines() == said(tool)
    assert true["texts"].keys() <= true["snapshots"].keys()
    api_v1 = Api(Game(Config(systems=20, era="C")))
    assert api_v1.render("get_status", "{}", session) == "{}"


def test_a_bad_era_is_named() -> None:
    with pytest.raises(ValueError, match="A, C or v2"):
        Config(era="B")


def test_a_tool_that_is_one_command_passes_its_actions_on() -> None:
    asked = {"action": "build", "facility_type": "arboretum"}
    assert read_call(GROUPS, "spacemolt_facility", asked) == ("facility", asked)
    assert read_call(GROUPS, "spacemolt_facility", {"action": "help"}) == ("", {})
    # An action that nobody knows is the command's to refuse.
    odd = {"action": "fly"}
    assert read_call(GROUPS, "spacemolt_facility", odd) == ("facility", odd)
    action = GROUPS["spacemolt_facility"].schema()["properties"]["action"]
    assert action["enum"] == ["build", "produce", "help"]
    with pytest.raises(GameError, match="Unknown action"):
        read_call(GROUPS, "spacemolt_transfer", asked)
