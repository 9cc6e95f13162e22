"""What each event writes and what it leaves in doubt: the table of API.md section 5."""

from __future__ import annotations

import copy

import pytest

from memory.gamestate.confidence import Confidence
from memory.gamestate.types import Stale
from tests.gamestate.builders import payload
from tests.gamestate.merging import (
    CONTENTS,
    ME,
    STATUS,
    YIELD,
    believed,
    merged,
    notice,
    value,
)  # fmt: skip


@pytest.mark.parametrize(
    ("tool", "kind", "data", "path", "expected"),
    [
        ("get_cargo", "mining_yield", YIELD, "used", 17),
        ("get_cargo", "mining_yield", YIELD, "available", 33),
        ("get_ship", "mining_yield", YIELD, "ship.cargo_used", 17),
        ("get_status", "mining_yield", YIELD, "ship.cargo_used", 17),
        ("get_status", "mining_yield", YIELD, "player.stats.ore_mined", 15),
        ("get_status", "ok", {"action": "arrived", "poi": "Mars", "poi_id": "mars"},
         "player.current_poi", "mars"),
        ("get_status", "ok", {"action": "jumped", "system_id": "sirius", "poi_id": "a"},
         "player.current_system", "sirius"),
        ("get_status", "ok", {"action": "dock", "base_id": "b"},
         "player.docked_at_base", "b"),
        ("get_status", "action_result", {"command": "travel", "result":
         {"action": "arrived", "poi_id": "mars"}}, "player.current_poi", "mars"),
        ("get_status", "action_result", {"command": "sell", "result": {"action": "sell",
         "item_id": "ore_iron", "quantity_sold": 6, "total_earned": 90}},
         "player.credits", 590),
        ("get_cargo", "action_result", {"command": "sell", "result": {"action": "sell",
         "item_id": "ore_iron", "quantity_sold": 12, "total_earned": 90}}, "cargo", []),
        ("get_status", "ok", {"action": "buy", "item_id": "ore_iron", "quantity": 2,
         "total_cost": 10, "delivered_to_cargo": 2}, "player.credits", 490),
        ("get_status", "ok", {"action": "refuel", "source": "station", "fuel": 60,
         "cost": 60, "fuel_now": 100}, "ship.fuel", 100),
        ("get_ship", "ok", {"action": "repair", "cost": 20, "hull": 100}, "ship.hull", 100),
        ("get_status", "skill_level_up", {"skill_id": "mining_basic", "new_level": 2},
         "player.skills.mining_basic", 2),
        ("get_status", "skill_level_up", {"skill_id": "new", "new_level": 1},
         "player.skills.new", 1),
        ("get_ship", "combat_update", {"target": ME, "shield_hit": 25, "hull_hit": 4},
         "ship.shield", 0),
        ("get_ship", "combat_update", {"target": ME, "shield_hit": 25, "hull_hit": 4},
         "ship.hull", 86),
        ("get_status", "battle_damage", {"target_id": "p1", "shield_hit": 5,
         "hull_hit": 0}, "ship.shield", 15),
        ("get_ship", "combat_update", {"target": "Ben", "shield_hit": 25, "hull_hit": 4},
         "ship.hull", 90),
        ("get_ship", "pirate_combat", {"player_hull": 33, "player_shield": 0},
         "ship.hull", 33),
        ("get_ship", "pirate_combat", {"your_hull": 33, "your_shield": 7},
         "ship.shield", 7),
        ("get_status", "pirate_destroyed", {"pirate_id": "x", "credits_reward": 40},
         "player.credits", 540),
        ("get_status", "pirate_destroyed", {"pirate_id": "x", "credits_earned": 40},
         "player.credits", 540),
        ("get_nearby", "pirate_warning", {"pirate_id": "x", "pirate_name": "Rex"},
         "pirate_count", 1),
        ("get_nearby", "poi_arrival", {"username": "Cleo", "poi_id": "sol_belt"},
         "count", 2),
        ("get_nearby", "poi_arrival", {"username": "Cleo", "poi_id": "mars"}, "count", 1),
        ("get_nearby", "poi_departure", {"username": "Ben", "poi_id": "sol_belt"},
         "nearby", []),
        ("get_status", "trade_complete", {"your_credits": 77}, "player.credits", 77),
        ("get_poi", "mining_yield", YIELD, "resources",
         [{"resource_id": "ore_iron", "remaining": 895}]),
    ],
)  # fmt: skip
def test_what_an_event_says_is_written(tool, kind, data, path, expected):
    found = merged(tool, notice(kind, **data))
    assert value(found, path) == expected
    assert found.content == CONTENTS[tool], "the recorded answer stays"


@pytest.mark.parametrize(
    ("kind", "data", "stale"),
    [
        ("player_died", {"respawn_base": "b"}, set(CONTENTS)),
        ("market_update", {"base_id": "b", "items": []}, {"view_market"}),
        ("trade_offer_received", {"trade_id": "t"}, {"get_trades"}),
        ("trade_complete", {"your_credits": 1}, {"get_trades", "get_cargo"}),
        ("pirate_destroyed", {"pirate_id": "x", "credits_reward": 1},
         {"get_wrecks", "get_skills"}),
        ("battle_joined", {}, {"get_nearby"}),
        ("ok", {"action": "undock"}, {"get_nearby", "view_market"}),
        ("ok", {"type": "auto_undock", "message": "m"}, {"get_nearby", "view_market"}),
        ("ok", {"action": "arrived", "poi_id": "mars"},
         {"get_nearby", "view_market", "get_wrecks", "get_skills", "get_poi"}),
        ("chat_message", {"content": "hi"}, set()),
        ("gameplay_tip", {}, set()),
        ("scan_result", {"success": True}, set()),
        ("action_error", {"command": "mine", "code": "no_resources"}, set()),
        ("some_new_type", {"credits": 5}, set()),
        ("police_spawn", {"num_drones": 2}, set()),
    ],
)  # fmt: skip
def test_what_cannot_be_merged_is_stale(kind, data, stale):
    whole = {
        t
        for t in CONTENTS
        if (s := merged(t, notice(kind, **data)).stale) and not s.fields
    }
    assert whole == stale


def test_a_shield_that_was_not_full_is_not_counted_on():
    """It has grown by itself since, nobody knows by how much."""
    ship = {**STATUS["ship"], "shield": 20, "max_shield": 50}
    half = {"ship": ship}
    shot = notice("combat_update", target=ME, shield_hit=5, hull_hit=4)
    found = merged("get_ship", shot, content=half)
    assert believed(found, "ship.shield") is Confidence.INVALIDATED
    assert value(found, "ship.hull") == 86
    ship["shield"] = 50
    found = merged("get_ship", shot, content=half)
    assert value(found, "ship.shield") == 45


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("combat_update", {"target": ME, "hull_hit": 4}),
        ("pirate_combat", {"player_hull": 50}),
        ("police_combat", {"damage": 5}),
    ],
)
def test_a_shot_makes_the_list_of_ships_doubtful(kind, data):
    fleet = {"ships": [{"hull": "90/100", "fuel": "40/100"}]}
    found = merged("list_ships", notice(kind, **data), content=fleet)
    assert believed(found, "ships.*.hull") is Confidence.INVALIDATED
    assert believed(found, "ships.*.fuel") is Confidence.FRESH


@pytest.mark.parametrize(
    ("kind", "tool"),
    [
        ("market_update", "view_orders"),
        ("market_update", "view_storage"),
        ("ship_commission_complete", "view_storage"),
    ],
)
def test_what_a_base_did_for_the_account_lies_in_storage(kind, tool):
    assert merged(tool, notice(kind), content={"items": []}).stale == Stale(kind, 106)


@pytest.mark.parametrize("kind", ["market_update", "crafting_update", "trade_complete"])
def test_what_others_finish_counts_for_the_account(kind):
    found = merged("get_status", notice(kind, your_credits=9))
    assert believed(found, "player.stats") is Confidence.INVALIDATED
    assert believed(found, "ship.fuel") is Confidence.FRESH


def test_police_fire_makes_the_ship_doubtful():
    found = merged("get_ship", notice("police_combat", damage=5))
    assert believed(found, "ship.hull") is Confidence.INVALIDATED
    assert believed(found, "ship.fuel") is Confidence.FRESH
    other = merged("get_ship", notice("police_combat", damage=5, target_id="p2"))
    assert other.stale is None


def test_a_departure_drops_the_dock():
    docked = copy.deepcopy(STATUS)
    docked["player"]["docked_at_base"] = "b"
    found = merged("get_status", notice("ok", action="undock"), content=docked)
    assert value(found, "player.docked_at_base") is None
    assert believed(found, "player.docked_at_base") is Confidence.MERGED


def test_a_text_of_unknown_form_cannot_be_merged_into():
    hurt = notice("pirate_combat", player_hull=3, player_shield=0)
    text = "The hull is at 95 of 95."
    assert merged("get_status", hurt, content=text).stale == Stale("pirate_combat", 106)
    talk = notice("chat_message", content="hi")
    assert merged("get_status", talk, content=text).stale is None


def test_what_is_read_in_a_text_is_merged_into():
    text = payload("_v2.mcp_get_status_text")["result"]["content"][0]["text"]
    hurt = notice("pirate_combat", player_hull=3, player_shield=0)
    found = merged("get_status", hurt, content=text)
    assert value(found, "ship.hull") == 3
    assert believed(found, "ship.hull") is Confidence.MERGED
    # What was recorded stays the text that it was.
    assert found.content == text


@pytest.mark.parametrize("amount", ["500", None, {"n": 1}, True])
def test_a_number_of_another_form_is_doubted_not_guessed(amount):
    odd = copy.deepcopy(STATUS)
    odd["player"]["credits"] = amount
    won = notice("pirate_destroyed", pirate_id="x", credits_reward=40)
    found = merged("get_status", won, content=odd)
    assert value(found, "player.credits") == amount
    if amount is not None:
        assert believed(found, "player.credits") is Confidence.INVALIDATED


def test_an_item_of_unknown_size_leaves_the_space_in_doubt():
    gem = notice("mining_yield", resource_id="gem", quantity=2, remaining=1)
    found = merged("get_status", gem)
    assert {"item_id": "gem", "quantity": 2} in value(found, "ship.cargo")
    assert believed(found, "ship.cargo") is Confidence.MERGED
    assert believed(found, "ship.cargo_used") is Confidence.INVALIDATED
