"""Which action changes which snapshot: the table of API.md section 3, `ACTIONS`.

Each action names the tools whose snapshots it makes untrue and, where that is known,
the fields. Where the ship is, and whether it flies, is read from answers here as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from memory.gamestate.extract import parse_tick
from memory.gamestate.values import find_first, find_value, unwrap_content


@dataclass(frozen=True, slots=True)
class Effect:
    """The fields of one tool's snapshot that an action makes untrue; none: all of it.

    ``when`` names a condition of `invalidation` under which it does.
    """

    fields: tuple[str, ...] = ()
    when: str = ""


Effects = Mapping[str, Effect]

WHOLE = Effect()
CARGO = ("ship.cargo", "ship.cargo_used", "cargo", "cargo_used")
CREDITS = ("player.credits", "credits")
DOCK = (
    "player.docked_at_base",
    "docked_at_base",
    "ship.docked_at_base",
    "location.docked_at",
)
FUEL = ("ship.fuel", "fuel")
HERE = ("location", "player.current_poi", "current_poi", "nearby", *DOCK)
HULL = ("ship.hull", "hull")
MODULES = ("ship.modules", "modules")
SKILLS = (
    "player.skills",
    "player.skill_xp",
    "player.experience",
    "player.stats",
    "skills",
)
STATS = ("player.stats",)
SYSTEM = ("player.current_system", "current_system", "player.discovered_systems")
ONLINE = ("poi", "system.pois.*.online", "pois.*.online", "in_transit")
PROGRESS = Effect(("missions.*",))


def _status(*fields: str) -> Effects:
    return {"get_status": Effect(fields), "get_state": WHOLE}


def _wholly(*tools: str) -> Effects:
    return dict.fromkeys(tools, WHOLE)


# What is read at the place where the ship is.
_MARKET = _wholly("view_market", "get_listings", "estimate_purchase", "analyze_market")
_STATION = {
    **_wholly("get_base", "view_storage", "get_missions", "view_orders"),
    **_wholly("get_insurance_quote"),
    **_MARKET,
}
_AROUND = _wholly("get_poi", "get_nearby", "get_wrecks", "get_location", "get_queue")
_HOLD: Effects = {
    "get_ship": Effect(CARGO),
    "get_cargo": WHOLE,
    "list_ships": Effect(("ships.*.cargo_used",)),
}
_MISSIONS: Effects = {"get_active_missions": PROGRESS, "get_location": WHOLE}
_SKILL_XP = {"get_skills": Effect(when="skill_gain")}

TRAVEL: Effects = {
    **_status(*HERE, *FUEL, *SKILLS),
    "get_ship": Effect((*FUEL, *DOCK)),
    "get_system": Effect(ONLINE),
    **_AROUND,
    **_STATION,
    "get_skills": WHOLE,
    "get_active_missions": PROGRESS,
    "list_ships": Effect(("ships.*.fuel", "ships.*.location")),
}
JUMP: Effects = {
    **TRAVEL,
    **_status(*HERE, *SYSTEM, *FUEL, *SKILLS),
    **_wholly("get_system", "find_route"),
    "get_map": Effect(("systems.*.visited", "systems.*.visited_at")),
}
DOCKING: Effects = {
    **_status(*DOCK),
    "get_ship": Effect(DOCK),
    "get_system": Effect(ONLINE),
    "get_poi": Effect(("poi.online", "online")),
    **_wholly("get_nearby", "get_location", "get_queue"),
    **_STATION,
}
MINE: Effects = {
    **_status(*CARGO, *MODULES, *SKILLS),
    **_HOLD,
    "get_ship": Effect((*CARGO, *MODULES)),
    "get_poi": Effect(("resources", "poi.resources")),
    **_wholly("get_skills", "get_queue"),
    **_MISSIONS,
}
TRADE: Effects = {
    **_status(*CREDITS, *CARGO, *SKILLS),
    **_HOLD,
    "get_poi": Effect(("base.market",)),
    "get_base": Effect(("base.market", "market")),
    **_MARKET,
    "view_storage": Effect(when="storage"),
    "view_orders": WHOLE,
    **_SKILL_XP,
    **_MISSIONS,
}
REFUEL: Effects = {
    **_status(*CREDITS, *FUEL, *CARGO, *STATS),
    "get_ship": Effect((*FUEL, *CARGO)),
    "get_cargo": Effect(when="fuel_cells"),
    "list_ships": Effect(("ships.*.fuel",)),
    **_MARKET,
}
REPAIR: Effects = {
    **_status(*CREDITS, *HULL, *CARGO, *STATS),
    "get_ship": Effect((*HULL, *CARGO)),
    "get_cargo": Effect(when="repair_kits"),
    "list_ships": Effect(("ships.*.hull",)),
}
CRAFT: Effects = {
    **_status(*CREDITS, *CARGO, *SKILLS),
    **_HOLD,
    **_wholly("view_storage", "get_skills"),
    **_MISSIONS,
}
COMBAT: Effects = {
    **_wholly("get_status", "get_state", "get_ship", "get_cargo", "list_ships"),
    **_wholly("get_system", "get_base", "get_battle_status", "get_skills"),
    **_AROUND,
    **_MARKET,
    "get_active_missions": PROGRESS,
}
REFIT: Effects = {
    **_status("ship", "player.credits", "player.stats", "location", *MODULES, *CARGO),
    **_wholly("get_ship", "get_cargo", "list_ships"),
}
SWITCH: Effects = {
    **_status("ship", "player", *MODULES, *CARGO),
    **_wholly("get_ship", "get_cargo", "list_ships", "view_storage", "get_nearby"),
}
STORAGE: Effects = {**_status(*CREDITS, *CARGO, *STATS), **_HOLD, "view_storage": WHOLE}
SELL_ORDER: Effects = {**STORAGE, **_MARKET, **_wholly("view_orders", "get_trades")}
BUY_ORDER: Effects = {**_status(*CREDITS, *STATS), **_MARKET, "view_orders": WHOLE}
JETTISON: Effects = {**_status(*CARGO), **_HOLD, "get_wrecks": WHOLE}
SALVAGE: Effects = {
    **_status("player", *CARGO),
    **_HOLD,
    **_wholly("get_skills", "get_wrecks"),
}
MISSION: Effects = {
    **_status("player", "missions", *CARGO),
    **_HOLD,
    **_wholly("get_active_missions", "get_missions"),
}
COMPLETE: Effects = {
    **MISSION,
    "view_storage": Effect(when="mission_items"),
    **_wholly("get_skills", "completed_missions"),
}
SURVEY: Effects = {
    **_status("player.revealed_pois", "location", *SKILLS),
    **_wholly("get_system", "get_poi", "get_location", "get_skills"),
}
SHIP_ONLY: Effects = {
    **_status("ship", "player.is_cloaked"),
    **_wholly("get_ship", "get_nearby", "list_ships"),
}
USE_ITEM: Effects = {
    **_wholly("get_status", "get_state", "get_ship", "get_cargo", "get_system"),
    **_wholly("get_poi", "get_nearby", "get_location", "list_ships"),
}
PLAYER: Effects = _status("player")
FACTION: Effects = {
    **PLAYER,
    **_wholly("faction_info", "faction_list", "faction_get_invites"),
}
FACILITY: Effects = {
    **_status("player", *CARGO),
    **_HOLD,
    **_wholly("get_base", "view_storage", "get_skills", "facility"),
}

_UNHEARD: Effects = {
    **_status(
        *("ship", "cargo", "cargo_used", "shield", "missions", "queue", "modules"),
        *(*CREDITS, *FUEL, *HULL, *HERE, *SYSTEM, *SKILLS),
    ),
    **_wholly("get_ship", "get_cargo", "get_system", "get_skills", "list_ships"),
    **_wholly("get_trades", "get_battle_status", "get_drones", "facility"),
    **_AROUND,
    **_STATION,
    "get_active_missions": PROGRESS,
    "find_route": WHOLE,
}

_FAMILIES: tuple[tuple[Effects, str], ...] = (
    (TRAVEL, "travel"),
    (JUMP, "jump"),
    ({**DOCKING, "get_active_missions": PROGRESS}, "dock"),
    (DOCKING, "undock"),
    (MINE, "mine"),
    (TRADE, "buy sell"),
    (REFUEL, "refuel"),
    (REPAIR, "repair"),
    (CRAFT, "craft"),
    (COMBAT, "attack hunt self_destruct battle"),
    ({"get_skills": WHOLE}, "scan"),
    (SURVEY, "survey_system"),
    (SHIP_ONLY, "cloak name_ship rename_ship"),
    (USE_ITEM, "use_item"),
    (REFIT, "install_mod uninstall_mod reload refit repair_module"),
    (SWITCH, "switch_ship buy_ship buy_listed_ship sell_ship list_ship_for_sale"),
    (STORAGE, "deposit_items withdraw_items deposit_credits withdraw_credits"),
    (STORAGE, "send_gift"),
    (SELL_ORDER, "create_sell_order cancel_order list_item cancel_list buy_listing"),
    (SELL_ORDER, "trade_offer trade_accept trade_decline trade_cancel"),
    (BUY_ORDER, "create_buy_order modify_order"),
    (JETTISON, "jettison loot_wreck"),
    (SALVAGE, "salvage_wreck scrap_wreck sell_wreck"),
    (MISSION, "accept_mission abandon_mission decline_mission"),
    (COMPLETE, "complete_mission"),
    (PLAYER, "buy_insurance claim_insurance set_home_base tow_wreck release_tow"),
    (FACTION, "create_faction join_faction leave_faction"),
    (FACILITY, "facility"),
    (_wholly("captains_log_list", "captains_log_get"), "captains_log_add"),
    (_wholly("captains_log_list", "captains_log_get"), "captains_log_delete"),
    (_wholly("get_chat_history"), "chat"),
    (_wholly("get_notes", "read_note"), "create_note write_note"),
    (_status("player.status_message", "player.clan_tag"), "set_status"),
    (_status("player.primary_color", "player.secondary_color"), "set_colors"),
    (_status("player.anonymous"), "set_anonymous"),
)

ACTIONS: Mapping[str, Effects] = {
    name: effects for effects, names in _FAMILIES for name in names.split()
}

# Effects by the start of a name, for actions that `ACTIONS` does not hold.
PREFIXES: Mapping[str, Effects] = {
    "faction_": FACTION,
    "trade_": SELL_ORDER,
    "forum_": _wholly("forum_list", "forum_get_thread"),
}

LOST_SESSION = "the lost session"
LOST_EVENTS = "lost events"
# What unread events may have told: of the own ship, wherever it is by then, of others
# near it, and of the outcome of actions under way.
LOSSES: Mapping[str, Effects] = dict.fromkeys((LOST_SESSION, LOST_EVENTS), _UNHEARD)
# All that a refused action can have changed: in era C it may have docked first.
DOCK_STATE: Effects = {**_status(*DOCK), "get_ship": Effect(DOCK)}

# --- Flights: where an answer shows the ship

# Actions that last as long as the way is.
FLIGHTS = frozenset({"travel", "jump"})
# Actions that the game refuses while the ship flies.
NEED_REST = frozenset(
    {"travel", "jump", "mine", "dock", "undock", "buy", "sell", "refuel", "repair"}
    | {"attack", "craft", "survey_system"}
)
# The tool whose answer always tells whether the ship rests.
LOCATION_TOOL = "get_system"
TICK_TOOL = "get_notifications"
# Where an answer holds something, the ship rests.
_PLACES: Mapping[str, tuple[str, ...]] = {
    "get_system": ("system", "pois"),
    "get_poi": ("poi",),
    "get_base": ("base",),
    "get_nearby": ("poi_id",),
    "get_status": ("player.docked_at_base",),
}
_FLYING = ("in_transit", "location.in_transit")
_HERE = ("player.current_poi", "current_poi", "location.poi_id")
_SYSTEM = ("player.current_system", "current_system", "location.system_id")
_TARGETS = ("target_poi", "target_system", "poi_id", "system_id", "id", "target")


def is_at_rest(tool: str, content: object) -> bool:
    """Whether an answer says that the ship is at a place."""
    root = unwrap_content(content)
    if not isinstance(root, Mapping):
        return False
    flags = [find_value(root, path) for path in _FLYING]
    if any(flags):
        return False
    return False in flags or bool(find_first(root, *_PLACES.get(tool, ())))


def is_arrival(tool: str, content: object, target: str) -> bool:
    """Whether an answer shows the ship where a flight was to go."""
    if tool not in ("get_status", "get_state") or not target:
        return False
    root = unwrap_content(content)
    return target in (find_first(root, *_HERE), find_first(root, *_SYSTEM))


def find_ticks_left(content: object) -> int | None:
    """The ticks that the ship still flies by an answer; None if it does not say."""
    root = unwrap_content(content)
    if not any(find_value(root, path) for path in _FLYING):
        return None
    return parse_tick(find_first(root, "ticks_remaining", "location.ticks_remaining"))


def find_target(args: Mapping[str, object]) -> str:
    """Where a flight goes by its arguments; "" where they do not say."""
    found = (args.get(name) for name in _TARGETS)
    return next((value for value in found if isinstance(value, str)), "")
