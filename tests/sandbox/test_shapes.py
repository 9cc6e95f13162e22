"""The keys of every answer, as they were recorded in the seed's time."""

from __future__ import annotations

from typing import Any

import pytest

from tests.sandbox.captains import Captain

PLAYER = (
    "id username empire credits created_at last_login_at last_active_at status_message "
    "clan_tag primary_color secondary_color anonymous is_cloaked current_ship_id "
    "current_system current_poi home_base docked_at_base last_chat_check skills stats "
    "revealed_pois completed_missions"
)
STATS = (
    "credits_earned credits_spent ships_destroyed ships_lost pirates_destroyed "
    "bases_destroyed ore_mined items_crafted trades_completed systems_explored "
    "distance_traveled time_played"
)
SHIP = (
    "id owner_id class_id name created_at hull max_hull shield max_shield "
    "shield_recharge armor speed fuel max_fuel cargo_used cargo_capacity cpu_used "
    "cpu_capacity power_used power_capacity weapon_slots defense_slots utility_slots "
    "modules cargo"
)
MODULE = (
    "id type_id name type cpu_usage power_usage quality quality_grade wear wear_status "
    "mining_power mining_range"
)
CLASS = (
    "id name description lore class price tier scale base_hull base_shield "
    "base_shield_recharge base_armor base_speed base_fuel cargo_capacity cpu_capacity "
    "power_capacity weapon_slots defense_slots utility_slots default_modules "
    "required_skills shipyard_tier build_time"
)
BASE = (
    "id poi_id name description empire services facilities defense_level has_drones "
    "public_access"
)
NEARBY = (
    "player_id username ship_class status_message clan_tag primary_color "
    "secondary_color anonymous in_combat"
)
MARKET = (
    "item_id item_name buy_orders sell_orders best_buy best_sell buy_price sell_price "
    "buy_quantity sell_quantity spread"
)


def keys(view: dict[str, Any]) -> list[str]:
    return list(view)


def same(view: dict[str, Any], names: str) -> None:
    assert keys(view) == names.split()


def test_get_status(captain: Captain) -> None:
    view = captain.call("get_status")
    same(view, "player ship modules")
    same(view["player"], PLAYER)
    same(view["player"]["stats"], STATS)
    same(view["ship"], SHIP)
    same(view["modules"][0], MODULE)
    captain.do("undock")
    assert "docked_at_base" not in captain.call("get_status")["player"]


def test_get_ship_and_get_cargo(captain: Captain) -> None:
    captain.player.ship.cargo = {"ore_iron": 3}
    view = captain.call("get_ship")
    same(view, "ship class modules cargo_used cargo_max")
    same(view["ship"], SHIP)
    same(view["class"], CLASS)
    same(view["ship"]["cargo"][0], "item_id quantity")
    cargo = captain.call("get_cargo")
    same(cargo, "cargo used capacity available")
    same(cargo["cargo"][0], "item_id name quantity size")
    assert (cargo["used"], cargo["capacity"], cargo["available"]) == (3, 50, 47)


def test_get_system_has_the_form_before_v0_87(captain: Captain) -> None:
    view = captain.call("get_system")
    same(view, "system pois security_status")
    same(
        view["system"],
        "id name description empire police_level connections pois position",
    )
    assert view["system"]["pois"] == [poi["id"] for poi in view["pois"]]
    assert all(isinstance(name, str) for name in view["system"]["connections"])
    for poi in view["pois"]:
        names = "id system_id type name description position"
        same(poi, names + (" base_id" if poi["id"] == "sol_station" else ""))
    assert view["security_status"] == "Maximum Security (empire capital)"


def test_get_poi_at_a_station_and_at_a_belt(captain: Captain) -> None:
    station = captain.call("get_poi")
    assert set(station) == {"poi", "base"}
    same(station["base"], f"{BASE} market")
    same(
        station["base"]["market"][0],
        "id base_id item_id quantity price_each is_npc",
    )
    same(station["poi"], "id system_id type name description position base_id")
    captain.go_mining()
    belt = captain.call("get_poi")
    assert set(belt) == {"poi", "base", "resources"}
    assert belt["base"] is None
    same(belt["poi"], "id system_id type name description position resources")
    same(
        belt["resources"][0],
        "resource_id name richness remaining remaining_display max_remaining "
        "depletion_percent",
    )
    same(belt["poi"]["resources"][0], "resource_id richness remaining max_remaining")


def test_get_base(captain: Captain) -> None:
    view = captain.call("get_base")
    same(view, "base condition")
    same(view["base"], BASE)
    same(
        view["condition"],
        "condition condition_text satisfaction_pct satisfied_count total_service_infra",
    )
    assert view["base"]["services"]["refuel"] is True


def test_get_nearby(captain: Captain) -> None:
    Captain(captain.game, "Other")
    view = captain.call("get_nearby")
    same(view, "nearby count pirates pirate_count poi_id")
    for other in view["nearby"]:
        same(other, NEARBY)
    assert view["count"] == len(view["nearby"]) >= 1
    assert "Wanderer" not in [other["username"] for other in view["nearby"]]


def test_get_map(captain: Captain) -> None:
    view = captain.call("get_map")
    same(view, "systems total_count")
    sol = next(star for star in view["systems"] if star["system_id"] == "sol")
    same(
        sol,
        "system_id name position connections empire poi_count online visited "
        "visited_at description",
    )
    assert (sol["visited"], sol["visited_at"]) == (True, "2026-02-06 00:42:16")
    assert sol["online"] >= 1
    other = next(star for star in view["systems"] if not star["visited"])
    assert other["visited_at"] == ""
    one = captain.call("get_map", system_id="sol")
    assert one == {"systems": [sol], "total_count": 1}
    assert captain.refused("get_map", system_id="no").code == "invalid_system"


def test_get_skills(captain: Captain) -> None:
    captain.go_mining()
    captain.do("mine")
    view = captain.call("get_skills")
    same(view, "skills player_skills player_skill_count")
    assert view["player_skill_count"] == len(view["player_skills"]) == 2
    same(
        view["player_skills"][0],
        "skill_id name category level max_level current_xp next_level_xp",
    )
    definition = view["skills"]["mining_basic"]
    same(
        definition,
        "id name description category max_level bonus_per_level training_source "
        "xp_per_level",
    )
    assert len(definition["xp_per_level"]) == definition["max_level"] == 10


def test_view_market(captain: Captain) -> None:
    view = captain.call("view_market")
    same(view, "action base items")
    assert view["base"] == "Confederacy Central Command"
    for item in view["items"]:
        assert set(keys(item)) <= set(MARKET.split())
    iron = view["items"][0]
    same(iron, MARKET)
    same(iron["buy_orders"][0], "price_each quantity source")


def test_find_route_and_search_systems(captain: Captain) -> None:
    route = captain.call("find_route", target_system="haven")
    same(
        route,
        "target_system found total_jumps route fuel_per_jump estimated_fuel "
        "fuel_available cargo_used message",
    )
    same(route["route"][0], "system_id name jumps")
    assert route["route"][0]["jumps"] == 0
    assert route["total_jumps"] == len(route["route"]) - 1
    assert captain.refused("find_route", target_system="no").code == "invalid_system"
    found = captain.call("search_systems", query="SOL")
    same(found, "query systems total_found message")
    same(found["systems"][0], "system_id name position connections")
    assert found["systems"][0]["system_id"] == "sol"
    assert captain.call("search_systems", query="zzz")["systems"] == []
    assert len(captain.call("search_systems", query="s")["systems"]) <= 20


def test_register_login_and_version(captain: Captain) -> None:
    given = captain.registered
    same(given, "message player_id password session_id player ship system poi")
    assert {"skill_xp", "experience", "discovered_systems"} <= set(given["player"])
    logged = captain.game.call(
        "login", {"username": "Wanderer", "password": given["password"]}
    )
    same(
        logged,
        "message session_id username player ship system poi captains_log "
        "pending_trades unread_chat release_info",
    )
    same(captain.game.call("get_version"), "version release_date notes")


def test_get_commands(captain: Captain) -> None:
    commands = captain.game.call("get_commands")["commands"]
    for command in commands:
        assert sorted(command) == [
            "category",
            "description",
            "format",
            "is_mutation",
            "name",
            "notes",
            "requires_auth",
        ]
    mutations = {one["name"] for one in commands if one["is_mutation"]}
    assert mutations == {
        *("travel", "jump", "dock", "undock", "mine", "buy", "sell"),
        *("refuel", "repair", "scan", "attack", "self_destruct"),
        *("accept_mission", "complete_mission", "abandon_mission"),
        *("deposit_items", "withdraw_items", "deposit_credits", "withdraw_credits"),
        *("jettison", "loot_wreck"),
        *("craft", "install_mod", "uninstall_mod", "set_home_base"),
        *("trade_offer", "trade_accept", "trade_decline", "trade_cancel"),
        *("create_sell_order", "create_buy_order", "modify_order", "cancel_order"),
        *("buy_ship", "sell_ship", "switch_ship", "send_gift", "salvage_wreck"),
        *("buy_insurance", "claim_insurance", "cloak", "deploy_drone", "recall_drone"),
        *("create_faction", "join_faction", "leave_faction"),
        *("faction_invite", "faction_declare_war"),
    }


def test_captains_log(captain: Captain) -> None:
    for number in range(21):
        added = captain.call("captains_log_add", entry=f"day {number}")
    assert added == {
        "index": 0,
        "created_at": "2026-02-06 00:42:16",
        "message": "Log entry added successfully",
    }
    listed = captain.call("captains_log_list")
    same(listed, "entries total_count max_entries")
    assert (listed["total_count"], listed["max_entries"]) == (20, 20)
    assert listed["entries"][0]["entry"] == "day 20"
    assert listed["entries"][19]["entry"] == "day 1"
    assert captain.call("captains_log_get", index=2) == {
        "index": 2,
        "entry": "day 18",
        "created_at": "2026-02-06 00:42:16",
    }
    for index in (20, -1):
        assert captain.refused("captains_log_get", index=index).code == "invalid_index"


@pytest.mark.parametrize(
    ("tool", "arguments", "names"),
    [
        ("buy", {"item_id": "fuel_cell", "quantity": 1}, "delivered_to_cargo"),
        ("sell", {"item_id": "ore_iron", "quantity": 1}, "quantity_sold"),
    ],
)
def test_trades(
    captain: Captain, tool: str, arguments: dict[str, Any], names: str
) -> None:
    captain.player.ship.cargo = {"ore_iron": 3}
    (news,) = captain.do(tool, **arguments)
    same(news["data"]["fills"][0], "quantity price_each subtotal source")
    assert {"action", "item", "item_id", "level_up", "message", names} <= set(
        news["data"]
    )
