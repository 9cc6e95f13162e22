"""The texts of refusals, word for word as the real server has sent them."""

from __future__ import annotations

from typing import Any

import pytest

from sandbox.game.config import GameError
from sandbox.game.game import Game
from sandbox.game.table import list_tools
from tests.sandbox.captains import Captain

EMPIRES = (
    "Error: invalid_empire: Invalid empire. Choose one of:\n"
    "  - solarian: Masters of energy and trade. Mining and trading bonuses.\n"
    "  - voidborn: Children of the dark. Stealth and shield bonuses.\n"
    "  - crimson: Warriors of the red nebula. Combat damage bonuses.\n"
    "  - nebula: Explorers and scientists. Exploration speed bonuses.\n"
    "  - outerrim: Frontier survivors. Crafting and cargo bonuses.\n"
    'Example: {"type": "register", "payload": {"username": "myname", '
    '"empire": "solarian", "registration_code": "your_code"}}'
)
NOT_DOCKED = (
    "Error: not_docked: You must be docked at a base to perform this action. Use "
    "'dock' at a POI with a base, or use 'get_poi' to check if your current location "
    "has a base."
)
NOT_SOLD = (
    "Error: item_not_available: No one is selling Titanium Ore at this station. To "
    'place a standing buy order, use: {"type": "create_buy_order", "payload": '
    '{"item_id": "ore_titanium", "quantity": 1, "price_each": <your_price>}}. Credits '
    "are escrowed immediately; when a seller fills your order, items are delivered to "
    "your station storage."
)


@pytest.mark.parametrize(
    ("where", "tool", "arguments", "text"),
    [
        ("nobody", "register", {"username": "OreMiner", "empire": "Solarian"}, EMPIRES),
        (
            "nobody",
            "register",
            {},
            "Error: invalid_username: Username must be 3-24 characters",
        ),
        (
            "nobody",
            "get_status",
            {},
            "Error: session_required: You must provide a session_id. "
            "Get one by calling login() or register() first.",
        ),
        (
            "nobody",
            "get_status",
            {"session_id": "0" * 32},
            "Error: session_invalid: Session not found or expired. "
            "Call login() again to get a new session_id.",
        ),
        (
            "nobody",
            "<|constrain|>json",
            {},
            "Error: unknown_command: Unknown command: <|constrain|>json. "
            "Use the 'help' command to see available commands.",
        ),
        (
            "docked",
            "travel",
            {"destination": "main_belt"},
            "Error: invalid_payload: Unknown parameter(s): [destination]. "
            'Requires \'target_poi\'. Example: {"target_poi": "main_belt"}',
        ),
        (
            "docked",
            "jump",
            {"destination": "market_prime"},
            "Error: invalid_payload: Unknown parameter(s): [destination]. "
            'Requires \'target_system\'. Example: {"target_system": "sol"}',
        ),
        (
            "docked",
            "travel",
            {"target_poi": "main_b?"},
            "Error: invalid_poi: Unknown destination: main_b?",
        ),
        (
            "docked",
            "sell",
            {"item": "copper_ore", "quantity": 6},
            "Error: invalid_item: Unknown item ''. Use exact item ID "
            "(e.g. 'iron_ore') or full name (e.g. 'Iron Ore').",
        ),
        (
            "docked",
            "buy",
            {"item_id": "laser Cannon I"},
            "Error: invalid_item: Unknown item 'laser Cannon I'. Use exact item ID "
            "(e.g. 'iron_ore') or full name (e.g. 'Iron Ore').",
        ),
        ("docked", "buy", {"item_id": "ore_titanium", "quantity": 1}, NOT_SOLD),
        ("docked", "dock", {}, "Error: already_docked: Already docked"),
        (
            "docked",
            "search_systems",
            {"system": "sirius"},
            "Error: invalid_query: Search query is required. "
            "Provide a partial system name to search for.",
        ),
        (
            "docked",
            "captains_log_add",
            {"title": "Mission Start", "content": "Registered."},
            "Error: empty_entry: Log entry cannot be empty. "
            "Use the 'entry' parameter to provide your log text.",
        ),
        ("space", "undock", {}, "Error: not_docked: Not docked"),
        ("space", "mine", {}, "Error: no_resources: Nothing to mine here"),
        ("space", "view_market", {"item_id": "ore_nickel"}, NOT_DOCKED),
        ("space", "get_base", {}, NOT_DOCKED),
        ("space", "sell", {"item_id": "ore_iron", "quantity": 1}, NOT_DOCKED),
        ("space", "repair", {}, NOT_DOCKED),
    ],
)
def test_a_refusal_has_the_recorded_words(
    captain: Captain, where: str, tool: str, arguments: dict[str, Any], text: str
) -> None:
    if where == "space":
        captain.do("undock")
    given = arguments if where == "nobody" else {"session_id": captain.session_id}
    with pytest.raises(GameError) as caught:
        captain.game.call(tool, given | arguments)
    assert caught.value.text == text


def test_a_full_hold(captain: Captain) -> None:
    captain.go_mining()
    captain.fill_hold()
    assert captain.refused("mine").text == "Error: cargo_full: Cargo hold is full"


def test_an_empty_tank_far_from_any_station(captain: Captain) -> None:
    captain.go_mining()
    captain.player.ship.fuel = 0
    assert captain.refused("travel", target_poi="sol_station").code == "no_fuel"
    assert captain.refused("refuel").text == (
        "Error: no_fuel_cells: No fuel cells found in cargo. "
        "Buy fuel cells from a market or craft them."
    )


def test_a_taken_name(game: Game, captain: Captain) -> None:
    with pytest.raises(GameError) as caught:
        Captain(game)
    assert caught.value.text == "Error: username_taken: Username already taken"


@pytest.mark.parametrize(
    ("tool", "arguments", "complaint"),
    [
        ("get_status", {"verbose": True}, "[verbose]. Takes no parameters."),
        ("get_map", {"page": 1}, "[page]. Accepts 'system_id'."),
        ("travel", {}, "Missing parameter(s): [target_poi]. Requires 'target_poi'."),
        ("travel", {"target_poi": None}, "Missing parameter(s): [target_poi]."),
        ("travel", {"target_poi": 7}, "'target_poi' must be a string."),
        ("travel", {"target_poi": "x" * 257}, "longer than 256 characters"),
        ("buy", {"item_id": "fuel_cell", "quantity": "2"}, "must be a whole number"),
        ("buy", {"item_id": "fuel_cell", "quantity": 1.5}, "must be a whole number"),
        ("buy", {"item_id": "fuel_cell", "quantity": True}, "must be a whole number"),
        ("buy", {"item_id": "fuel_cell", "quantity": -5}, "from 1 to 1000000"),
        ("get_notifications", {"limit": 0}, "'limit' must be from 1 to 100."),
        ("get_notifications", {"limit": 101}, "'limit' must be from 1 to 100."),
        ("get_notifications", {"clear": "no"}, "'clear' must be true or false."),
        ("get_notifications", {"types": "chat"}, "'types' must be a list of strings."),
        ("captains_log_add", {"entry": "x" * 100_001}, "longer than 100000"),
    ],
)
def test_arguments_that_do_not_fit(
    captain: Captain, tool: str, arguments: dict[str, Any], complaint: str
) -> None:
    refusal = captain.refused(tool, **arguments)
    assert refusal.code == "invalid_payload"
    assert complaint in refusal.message


def test_a_whole_number_may_be_written_with_a_point(captain: Captain) -> None:
    assert captain.call("buy", item_id="fuel_cell", quantity=2.0)["quantity"] == 2


@pytest.mark.parametrize(
    "tool", [name for name, tool in list_tools("A").items() if not tool.open]
)
def test_every_tool_but_the_open_ones_asks_for_a_session(game: Game, tool: str) -> None:
    with pytest.raises(GameError) as caught:
        game.call(tool)
    assert caught.value.code == "session_required"
