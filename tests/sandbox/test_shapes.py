"""The keys of every answer, as they were recorded in the seed's time."""

from __future__ import annotations

from typing import Any

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


POI = "id system_id type name description position"
# By what is asked, and where in its answer: the keys of the object there.
DOCKED = {
    ("get_status", ""): "player ship modules",
    ("get_status", "player"): PLAYER,
    ("get_status", "player stats"): STATS,
    ("get_status", "ship"): SHIP,
    ("get_status", "modules 0"): MODULE,
    ("get_ship", ""): "ship class modules cargo_used cargo_max",
    ("get_ship", "ship"): SHIP,
    ("get_ship", "class"): CLASS,
    ("get_ship", "ship cargo 0"): "item_id quantity",
    ("get_cargo", ""): "cargo used capacity available",
    ("get_cargo", "cargo 0"): "item_id name quantity size",
    ("get_system", ""): "system pois security_status",
    ("get_system", "system"):
        "id name description empire police_level connections pois position",
    ("get_poi", ""): "poi base",
    ("get_poi", "base"): f"{BASE} market",
    ("get_poi", "base market 0"): "id base_id item_id quantity price_each is_npc",
    ("get_poi", "poi"): f"{POI} base_id",
    ("get_base", ""): "base condition",
    ("get_base", "base"): BASE,
    ("get_base", "condition"):
        "condition condition_text satisfaction_pct satisfied_count total_service_infra",
    ("get_nearby", ""): "nearby count pirates pirate_count poi_id",
    ("get_nearby", "nearby 0"): NEARBY,
    ("get_map", ""): "systems total_count",
    ("get_map", "systems 0"):
        "system_id name position connections empire poi_count online visited "
        "visited_at description",
    ("get_skills", ""): "skills player_skills player_skill_count",
    ("get_skills", "skills mining_basic"):
        "id name description category max_level bonus_per_level training_source "
        "xp_per_level",
    ("view_market", ""): "action base items",
    ("view_market", "items 0"): MARKET,
    ("view_market", "items 0 buy_orders 0"): "price_each quantity source",
    ("find_route", ""):
        "target_system found total_jumps route fuel_per_jump estimated_fuel "
        "fuel_available cargo_used message",
    ("find_route", "route 0"): "system_id name jumps",
    ("search_systems", ""): "query systems total_found message",
    ("search_systems", "systems 0"): "system_id name position connections",
    ("get_version", ""): "version release_date notes",
    ("captains_log_list", ""): "entries total_count max_entries",
    ("captains_log_list", "entries 0"): "index entry created_at",
}  # fmt: skip
AT_A_BELT = {
    ("get_poi", ""): "poi base resources",
    ("get_poi", "poi"): f"{POI} resources",
    ("get_poi", "poi resources 0"): "resource_id richness remaining max_remaining",
    ("get_poi", "resources 0"):
        "resource_id name richness remaining remaining_display max_remaining "
        "depletion_percent",
    ("get_skills", "player_skills 0"):
        "skill_id name category level max_level current_xp next_level_xp",
}  # fmt: skip
GIVEN = {"find_route": {"target_system": "haven"}, "search_systems": {"query": "SOL"}}


def check_keys(captain: Captain, tool: str, way: str, names: str) -> None:
    view: Any = captain.call(tool, **GIVEN.get(tool, {}))
    for step in way.split():
        view = view[int(step) if step.isdigit() else step]
    assert list(view) == names.split()


def test_the_keys_of_answers_at_a_station(captain: Captain) -> None:
    Captain(captain.game, "Other")
    captain.player.ship.cargo = {"ore_iron": 3}
    captain.call("captains_log_add", entry="day 1")
    for (tool, way), names in DOCKED.items():
        check_keys(captain, tool, way, names)


def test_the_keys_of_answers_at_a_belt(captain: Captain) -> None:
    captain.go_mining()
    captain.do("mine")
    for (tool, way), names in AT_A_BELT.items():
        check_keys(captain, tool, way, names)
    assert captain.call("get_poi")["base"] is None
    assert "docked_at_base" not in captain.call("get_status")["player"]
    view = captain.call("get_skills")
    assert view["player_skill_count"] == len(view["player_skills"]) == 2
    definition = view["skills"]["mining_basic"]
    assert len(definition["xp_per_level"]) == definition["max_level"] == 10


def test_the_keys_of_registration_and_login(captain: Captain) -> None:
    given = captain.registered
    names = "message player_id password session_id player ship system poi"
    assert list(given) == names.split()
    assert {"skill_xp", "experience", "discovered_systems"} <= set(given["player"])
    password = {"username": "Wanderer", "password": given["password"]}
    names = "message session_id username player ship system poi captains_log "
    names += "pending_trades unread_chat release_info"
    assert list(captain.game.call("login", password)) == names.split()


def test_figures_of_the_hold_and_the_base(captain: Captain) -> None:
    captain.player.ship.cargo = {"ore_iron": 3}
    cargo = captain.call("get_cargo")
    assert (cargo["used"], cargo["capacity"], cargo["available"]) == (3, 50, 47)
    assert captain.call("get_base")["base"]["services"]["refuel"] is True
    market = captain.call("view_market")
    assert market["base"] == "Confederacy Central Command"
    assert all(set(item) <= set(MARKET.split()) for item in market["items"])


def test_get_system_has_the_form_before_v0_87(captain: Captain) -> None:
    view = captain.call("get_system")
    assert view["system"]["pois"] == [poi["id"] for poi in view["pois"]]
    assert all(isinstance(name, str) for name in view["system"]["connections"])
    for poi in view["pois"]:
        base = " base_id" if poi["id"] == "sol_station" else ""
        assert list(poi) == f"{POI}{base}".split()
    assert view["security_status"] == "Maximum Security (empire capital)"


def test_get_nearby_leaves_the_asker_out(captain: Captain) -> None:
    Captain(captain.game, "Other")
    view = captain.call("get_nearby")
    assert all(list(other) == NEARBY.split() for other in view["nearby"])
    assert view["count"] == len(view["nearby"]) >= 1
    assert "Wanderer" not in [other["username"] for other in view["nearby"]]


def test_get_map(captain: Captain) -> None:
    systems = captain.call("get_map")["systems"]
    sol = next(star for star in systems if star["system_id"] == "sol")
    assert (sol["visited"], sol["visited_at"]) == (True, "2026-02-06 00:42:16")
    assert sol["online"] >= 1
    other = next(star for star in systems if not star["visited"])
    assert other["visited_at"] == ""
    one = captain.call("get_map", system_id="sol")
    assert one == {"systems": [sol], "total_count": 1}
    assert captain.refused("get_map", system_id="no").code == "invalid_system"


def test_find_route_and_search_systems(captain: Captain) -> None:
    route = captain.call("find_route", target_system="haven")
    assert route["route"][0]["jumps"] == 0
    assert route["total_jumps"] == len(route["route"]) - 1
    assert captain.refused("find_route", target_system="no").code == "invalid_system"
    found = captain.call("search_systems", query="SOL")
    assert found["systems"][0]["system_id"] == "sol"
    assert captain.call("search_systems", query="zzz")["systems"] == []
    assert len(captain.call("search_systems", query="s")["systems"]) <= 20


def test_get_commands(captain: Captain) -> None:
    commands = captain.game.call("get_commands")["commands"]
    for command in commands:
        assert " ".join(sorted(command)) == (
            "category description format is_mutation name notes requires_auth"
        )
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


def test_trades(captain: Captain) -> None:
    captain.player.ship.cargo = {"ore_iron": 3}
    for tool, item, count in (
        ("buy", "fuel_cell", "delivered_to_cargo"),
        ("sell", "ore_iron", "quantity_sold"),
    ):
        (news,) = captain.do(tool, item_id=item, quantity=1)
        (fill,) = news["data"]["fills"]
        assert list(fill) == ["quantity", "price_each", "subtotal", "source"]
        named = {"action", "item", "item_id", "level_up", "message", count}
        assert named <= set(news["data"])
