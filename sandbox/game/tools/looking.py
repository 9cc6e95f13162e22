"""What a captain looks at: what is his own, what is around him, and the galaxy."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from sandbox.game import views
from sandbox.game.config import NS, GameError, Json, make_view
from sandbox.game.state import State
from sandbox.game.tool import Parameter, flag, number, text
from sandbox.game.tools.flight import JUMP_FUEL
from sandbox.game.tools.market import Offers, list_offers
from sandbox.game.tools.rules import DOCKED, Call, ask
from sandbox.game.world import catalogue
from sandbox.game.world.catalogue import ITEMS, find_item
from sandbox.game.world.galaxy import Chart, Poi, System, World
from sandbox.game.world.markets import Shelf
from sandbox.game.world.models import LogEntry

# --- What is one's own

MOST_ENTRIES = 20
LONGEST_ENTRY = 100_000
_SKILL = make_view("id name description category")
_ROOM = make_view("used=cargo_used capacity=build.cargo available=cargo_free")
_LEARNED = make_view("skill_id=id name category")
_UNLISTED = {"required": False, "listed": False}


def _get_status(call: Call) -> Json:
    return {
        "player": views.view_player(call.player, call.state.faction_of(call.player)),
        "ship": views.view_ship(call.player.ship),
        "modules": [views.view_module(module) for module in call.player.ship.modules],
    }


def _get_ship(call: Call) -> Json:
    ship = call.player.ship
    return {
        "ship": views.view_ship(ship),
        "class": views.view_class(ship.build),
        "modules": [views.view_module(module) for module in ship.modules],
        "cargo_used": ship.cargo_used,
        "cargo_max": ship.build.cargo,
    }


def _get_cargo(call: Call) -> Json:
    return {
        "cargo": views.view_goods(call.player.ship.cargo),
        **_ROOM(call.player.ship),
    }


def _define(kind: catalogue.SkillKind) -> Json:
    required = {"required_skills": dict([kind.requires])} if kind.requires else {}
    return {
        **_SKILL(kind),
        "max_level": catalogue.MAX_LEVEL,
        **required,
        "bonus_per_level": {kind.bonus: 2},
        "training_source": kind.source,
        "xp_per_level": list(catalogue.XP_PER_LEVEL),
    }


_DEFINITIONS = {name: _define(kind) for name, kind in sorted(catalogue.SKILLS.items())}


def _get_skills(call: Call) -> Json:
    own = [
        {
            **_LEARNED(catalogue.SKILLS[name]),
            "level": skill.level,
            "max_level": catalogue.MAX_LEVEL,
            "current_xp": skill.xp,
            "next_level_xp": catalogue.xp_needed(skill.level),
        }
        for name, skill in call.player.skills.items()
    ]
    return {
        "skills": _DEFINITIONS,
        "player_skills": own,
        "player_skill_count": len(own),
    }


def _get_notifications(call: Call) -> Json:
    """Read the session's queue; what was read is gone unless `clear` is false."""
    read, left = call.session.read(
        limit=call.given.get("limit", 50),
        types=call.given.get("types", ()),
        clear=call.given.get("clear", True),
    )
    return {
        "count": len(read),
        "current_tick": call.state.tick,
        "notifications": read,
        "remaining": left,
        "timestamp": call.state.sources.now_ns() // NS,
    }


def _add_to_log(call: Call) -> Json:
    words = call.given.get("entry", "")
    if not words.strip():
        raise GameError(
            "empty_entry",
            "Log entry cannot be empty. "
            "Use the 'entry' parameter to provide your log text.",
        )
    entry = LogEntry(words, call.state.plain_now)
    call.player.log.insert(0, entry)
    del call.player.log[MOST_ENTRIES:]
    message = "Log entry added successfully"
    return {"index": 0, "created_at": entry.created_at, "message": message}


def _list_log(call: Call) -> Json:
    """The whole log, or one entry of it as it is since v0.63.1."""
    log = call.player.log
    totals = {"total_count": len(log), "max_entries": MOST_ENTRIES}
    if not call.state.config.is_modern:
        return {"entries": views.view_log(log), **totals}
    index = call.given.get("index", 0)
    return {
        "entry": _get_entry(log, index) if log or index else None,
        "index": index,
        **totals,
        "has_next": index + 1 < len(log),
        "has_prev": index > 0,
    }


def _get_entry(log: list[LogEntry], index: int) -> Json:
    entries = views.view_log(log)
    if not 0 <= index < len(entries):
        raise GameError(
            "invalid_index",
            f"No log entry at index {index}. The log has {len(entries)} entries; "
            "index 0 is the newest.",
        )
    return entries[index]


STATE = (
    ask("get_status", "query", "Get your player, your ship and its modules.",
        _get_status),
    ask("get_ship", "query", "Get your ship in detail, with its class and modules.",
        _get_ship),
    ask("get_cargo", "query", "Get what is in your hold.", _get_cargo),
)  # fmt: skip
NEWS = (
    ask("get_notifications", "query",
        "Poll for pending notifications (chat, combat, trades, etc.).",
        _get_notifications,
        number("limit", "How many at most", 50, **_UNLISTED, least=1, most=100),
        flag("clear", "Remove what was read", **_UNLISTED),
        Parameter("types", "array", "Only these types", **_UNLISTED),
        notes="Reading clears. The queue holds 100; the oldest are dropped."),
    ask("get_skills", "query", "Get all skills and what you have learned.",
        _get_skills),
)  # fmt: skip
LOG = (
    ask("captains_log_add", "log", "Add an entry to your captain's log.", _add_to_log,
        text("entry", "The text of the entry", "Day 1: found a rich belt.",
             own_error=True, longest=LONGEST_ENTRY),
        notes="Keeps 20 entries; the oldest is dropped.", writes=True),
    ask("captains_log_list", "log", "List your captain's log, newest first.",
        _list_log),
    ask("captains_log_get", "log", "Get a specific entry from your captain's log.",
        lambda call: _get_entry(call.player.log, call.given["index"]), "index"),
)  # fmt: skip


# --- What is around

MOST_FOUND = 20
MOST_NEARBY = 100
_FOUND = make_view("system_id=id name position=position.view connections")
_POI = make_view("id name type position=position.view")


def _get_system(call: Call) -> Json:
    if call.player.in_transit:
        return _transit_view(call, "get_system")
    system = call.state.world.systems[call.player.system_id]
    revealed = call.player.revealed
    if call.state.config.is_modern:
        return _modern_system(call, system)
    return {
        "system": views.view_system(system, revealed),
        "pois": [
            views.view_poi(poi, resources=False) for poi in system.known(revealed)
        ],
        "security_status": views.describe_security(system.police_level),
    }


def _modern_system(call: Call, system: System) -> Json:
    """The form since v0.87: places and connections as objects inside the system."""
    state, known = call.state, system.known(call.player.revealed)
    pois = {poi.id: _poi_view(state, poi) for poi in known}
    words = views.describe_security(system.police_level)
    return {
        "action": "get_system",
        "system": {
            **views.view_system_briefly(system),
            "security_status": words,
            "pois": list(pois.values()),
            "connections": [
                _connection_view(state, system, name) for name in system.connections
            ],
        },
        "poi": pois[call.player.poi_id],
        "security_status": words,
    }


def _poi_view(state: State, poi: Poi) -> Json:
    view: Json = {
        **_POI(poi),
        "has_base": poi.base is not None,
        "online": len(state.players_at(poi.id)) + len(state.npcs_at(poi.id)),
    }
    if poi.base:
        view |= {"base_id": poi.base.id, "base_name": poi.base.name}
    return view


def _connection_view(state: State, system: System, name: str) -> Json:
    other = state.world.systems[name]
    distance = round(system.position.distance(other.position))
    return {"system_id": name, "name": other.name, "distance": distance}


def _get_poi(call: Call) -> Json:
    if call.player.in_transit:
        return _transit_view(call, "get_poi")
    poi = call.state.world.pois[call.player.poi_id]
    base = None
    if poi.base:
        base = views.view_base(poi.base, call.state.bases.get(poi.base.id))
        base["market"] = views.view_offers(call.state.markets.at(poi.base))
    view: Json = {"poi": views.view_poi(poi), "base": base}
    if poi.deposits:
        view["resources"] = [views.view_deposit(deposit) for deposit in poi.deposits]
    return view


def _transit_view(call: Call, action: str) -> Json:
    player, world = call.player, call.state.world
    pending = player.pending
    if pending is None:  # in_transit has said otherwise
        raise AssertionError("a ship under way has a pending flight")
    arguments = pending.arguments
    left = max(0, pending.due_tick - call.state.tick)
    view: Json = {
        "action": action,
        "in_transit": True,
        "transit_type": pending.tool,
        "ticks_remaining": left,
        "from_system": player.system_id,
        "to_system": arguments.get("system_id", player.system_id),
        "message": f"In transit. Arrival at tick {pending.due_tick}.",
    }
    if action == "get_poi":
        goal = world.systems[view["to_system"]].pois[0].id
        view |= {"from_poi": player.poi_id, "to_poi": arguments.get("poi_id", goal)}
    return view


def _get_base(call: Call) -> Json:
    base = call.base
    now = call.state.bases.get(base.id)
    return {
        "base": views.view_base(base, now),
        "condition": views.view_condition(base, now),
    }


def _get_nearby(call: Call) -> Json:
    """List who is here, at most a hundred; a ship under way is alone."""
    poi_id = "" if call.player.in_transit else call.player.poi_id
    state = call.state
    here = [one for one in state.players_at(poi_id) if one.id != call.player.id]
    seen = [one for one in here if not one.looks.cloaked]
    nearby = [
        views.view_player_nearby(one, state.faction_of(one))
        for one in seen
        if not one.looks.anonymous
    ]
    nearby += [views.view_npc(npc) for npc in call.state.npcs_at(poi_id)]
    nearby = nearby[:MOST_NEARBY]
    pirates = [views.view_pirate(pirate) for pirate in call.state.pirates_at(poi_id)]
    return {
        "nearby": nearby,
        # Who is anonymous counts, without a name.
        "count": len(nearby) + sum(one.looks.anonymous for one in seen),
        "pirates": pirates,
        "pirate_count": len(pirates),
        "poi_id": poi_id,
    }


def _view_market(call: Call) -> Json:
    base = call.base
    shelves = call.state.markets.at(base).shelves
    offers = list_offers(call.state, base.id, call.player.id)
    if given := call.given.get("item_id"):
        item = find_item(given)
        shelves = {item.id: shelves[item.id]}
    items = [_shelf_view(name, shelf, offers) for name, shelf in shelves.items()]
    return {"action": "view_market", "base": base.name, "items": items}


def _shelf_view(item_id: str, shelf: Shelf, offers: Offers) -> Json:
    """One item: what the station and captains ask and pay; the best is the station's."""
    paid = shelf.paid if shelf.wanted else 0
    asked = shelf.asked if shelf.stock else 0
    buyers, sellers = (offers.get((item_id, side), []) for side in ("buy", "sell"))
    view: Json = {
        "item_id": item_id,
        "item_name": ITEMS[item_id].name,
        "buy_orders": [*_own_order(paid, shelf.wanted), *buyers],
        "sell_orders": [*_own_order(asked, shelf.stock), *sellers],
        "best_buy": paid,
        "best_sell": asked,
        "buy_price": paid,
        "sell_price": asked,
        "buy_quantity": shelf.wanted,
        "sell_quantity": shelf.stock,
    }
    if shelf.wanted and shelf.stock:
        view["spread"] = asked - paid
    return view


def _own_order(price: int, quantity: int) -> list[Json]:
    order = {"price_each": price, "quantity": quantity, "source": "station"}
    return [order] if quantity else []


def _get_map(call: Call) -> Json | str:
    state = call.state
    crowd = state.crowd()
    only = call.given.get("system_id")
    if not only:
        return state.chart.text(crowd, call.player.visited)
    star = state.world.find_system(only)
    return Chart(World({star.id: star}, {}, {})).text(crowd, call.player.visited)


def _search_systems(call: Call) -> Json:
    query = call.given.get("query", "").strip()
    if not query:
        raise GameError(
            "invalid_query",
            "Search query is required. Provide a partial system name to search for.",
        )
    wanted = query.casefold()
    found = [
        star
        for star in call.state.world.systems.values()
        if wanted in star.name.casefold() or wanted in star.id
    ]
    return {
        "query": query,
        "systems": [_FOUND(star) for star in found[:MOST_FOUND]],
        "total_found": len(found),
        "message": f"Found {len(found)} system(s)",
    }


def _find_route(call: Call) -> Json:
    systems = call.state.world.systems
    target = call.state.world.find_system(call.given["target_system"]).id
    way = find_path(systems, call.player.system_id, target)
    jumps = len(way) - 1
    return {
        "target_system": target,
        "found": True,
        "total_jumps": jumps,
        "route": [
            {"system_id": name, "name": systems[name].name, "jumps": index}
            for index, name in enumerate(way)
        ],
        "fuel_per_jump": JUMP_FUEL,
        "estimated_fuel": jumps * JUMP_FUEL,
        "fuel_available": call.player.ship.fuel,
        "cargo_used": call.player.ship.cargo_used,
        "message": f"Route found: {jumps} jump{'' if jumps == 1 else 's'}",
    }


def find_path(systems: Mapping[str, System], start: str, target: str) -> list[str]:
    """Give the systems of a way with the fewest jumps, both ends included."""
    came_from = {start: start}
    waiting = deque([start])
    while waiting and target not in came_from:
        here = waiting.popleft()
        for near in systems[here].connections:
            if near not in came_from:
                came_from[near] = here
                waiting.append(near)
    way = [target]
    while way[-1] != start:
        way.append(came_from[way[-1]])
    return way[::-1]


HERE = (
    ask("get_system", "query", "Get the current system with its POIs.", _get_system),
    ask("get_poi", "query", "Get the POI where you are, with resources and base.",
        _get_poi),
    ask("get_base", "query", "Get details of the base where you are docked.",
        _get_base, notes=DOCKED),
    ask("get_nearby", "query", "See who else is at your POI.", _get_nearby),
    ask("get_map", "query", "Get all systems of the galaxy and their connections.",
        _get_map, text("system_id", "Only this system", "sol", required=False)),
)  # fmt: skip
SEARCHES = (
    ask("view_market", "trading", "See what the station buys and sells.", _view_market,
        text("item_id", "Only this item", "ore_iron", required=False), notes=DOCKED),
    ask("find_route", "navigation", "Find the shortest way to a system.", _find_route,
        text("target_system", "The system's ID", "sol")),
    ask("search_systems", "navigation", "Search systems by name.", _search_systems,
        text("query", "Part of the name", "sol", own_error=True),
        notes="At most 20 systems."),
)  # fmt: skip
