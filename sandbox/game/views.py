"""The JSON forms in which the game shows its things."""

from __future__ import annotations

from collections.abc import Container, Mapping

from sandbox.game.config import NEVER, Json, make_hex_id, make_view
from sandbox.game.world.catalogue import ITEMS, MODULES, ShipClass
from sandbox.game.world.galaxy import Base, Deposit, Poi, System
from sandbox.game.world.markets import Market
from sandbox.game.world.models import BaseState, Faction, LogEntry, Module, Player, Ship
from sandbox.game.world.npcs import Npc, Pirate

_PLAYER = make_view(
    "id username empire credits created_at last_login_at last_active_at"
    " status_message=looks.status_message"
)
_COLORS = make_view(
    "primary_color=looks.primary_color secondary_color=looks.secondary_color"
    " anonymous=looks.anonymous"
)
_WHERE = make_view(
    "is_cloaked=looks.cloaked current_ship_id=ship.id current_system=system_id"
    " current_poi=poi_id home_base docked_at_base?=docked_at"
)


def view_player(player: Player, faction: Faction | None = None) -> Json:
    """The player as in get_status; `docked_at_base` is absent in space."""
    view = _PLAYER(player)
    view |= {"clan_tag": faction.tag if faction else ""}
    view |= _COLORS(player) | _WHERE(player)
    if faction:
        rank = faction.members[player.id]
        view |= {"faction_id": faction.id, "faction_rank": rank}
    if player.towing:
        view["towing_wreck_id"] = player.towing
    learned = {name: one.level for name, one in sorted(player.skills.items())}
    return view | {
        "last_chat_check": NEVER,
        "skills": {name: level for name, level in learned.items() if level},
        "stats": dict(player.stats),
        "revealed_pois": dict.fromkeys(player.revealed, True) or None,
        "completed_missions": dict(player.completed) or None,
    }


def view_full_player(player: Player, faction: Faction | None = None) -> Json:
    """The longer form that register and login give."""
    return {
        **view_player(player, faction),
        "skill_xp": {name: skill.xp for name, skill in sorted(player.skills.items())},
        "experience": sum(skill.xp for skill in player.skills.values()),
        "discovered_systems": {
            name: {"system_id": name, "discovered_at": moment}
            for name, moment in player.visited.items()
        },
    }


_SHIP = make_view(
    "id owner_id class_id name=title created_at hull max_hull=build.hull shield"
    " max_shield=build.shield shield_recharge=build.shield_recharge armor=build.armor"
    " speed=build.speed fuel max_fuel=build.fuel cargo_used cargo_capacity=build.cargo"
)
view_ship_briefly = make_view("ship_id=id class_id class_name=build.name")
_SLOTS = make_view("weapon_slots defense_slots utility_slots")


def view_ship(ship: Ship) -> Json:
    return {
        **_SHIP(ship),
        "cpu_used": ship.total("cpu_usage"),
        "cpu_capacity": ship.build.cpu,
        "power_used": ship.total("power_usage"),
        "power_capacity": ship.build.power,
        **_SLOTS(ship.build),
        "modules": [module.id for module in ship.modules],
        "cargo": view_goods_briefly(ship.cargo),
    }


def view_module(module: Module) -> Json:
    magazine = MODULES[module.type_id].get("magazine_size")
    loaded = {"current_ammo": module.ammo} if magazine else {}
    return {"id": module.id, **MODULES[module.type_id], **loaded}


_CLASS = make_view("id name description lore class=kind price")
_BUILD = make_view(
    "base_hull=hull base_shield=shield base_shield_recharge=shield_recharge"
    " base_armor=armor base_speed=speed base_fuel=fuel cargo_capacity=cargo"
    " cpu_capacity=cpu power_capacity=power"
)


def view_class(build: ShipClass) -> Json:
    return {
        **_CLASS(build),
        "tier": 1,
        "scale": 1,
        **_BUILD(build),
        **_SLOTS(build),
        "default_modules": list(build.modules),
        "required_skills": {},
        "shipyard_tier": 0,
        "build_time": 0,
    }


view_system_briefly = make_view("id name description empire? police_level")


def view_system(system: System, revealed: Container[str] = ()) -> Json:
    """A system in the seed era's form: ids only, the places are listed beside it."""
    return {
        **view_system_briefly(system),
        "connections": list(system.connections),
        "pois": [poi.id for poi in system.known(revealed)],
        "position": system.position.view,
    }


_POI = make_view("id system_id type name description position=position.view")
_DEPOSIT = make_view("resource_id richness remaining max_remaining")
_BASE = make_view("id poi_id name description empire")


def view_poi(poi: Poi, *, resources: bool = True) -> Json:
    view = _POI(poi)
    if poi.deposits and resources:
        view["resources"] = [_DEPOSIT(deposit) for deposit in poi.deposits]
    if poi.base:
        view["base_id"] = poi.base.id
    return view


def view_deposit(deposit: Deposit) -> Json:
    """A deposit in full; the era's `depletion_percent` is what is left."""
    return {
        "resource_id": deposit.resource_id,
        "name": ITEMS[deposit.resource_id].name,
        "richness": deposit.richness,
        "remaining": deposit.remaining,
        "remaining_display": f"{deposit.remaining} units",
        "max_remaining": deposit.max_remaining,
        "depletion_percent": 100 * deposit.remaining / deposit.max_remaining,
    }


def view_base(base: Base, now: BaseState | None = None) -> Json:
    return {
        **_BASE(base),
        "services": dict.fromkeys(base.services, True),
        "facilities": [*base.facilities, *(now.built if now else ())],
        "defense_level": base.defense_level,
        "has_drones": base.defense_level >= 100,
        "public_access": True,
    }


def view_condition(base: Base, now: BaseState | None = None) -> Json:
    """How well a station works; four fifths of it do where nobody has attacked it."""
    damage = now.damage if now else 0
    working = len(base.facilities) * (100 - damage) * 4 // 500
    words = ("operational", "Most of the station's infrastructure is working.")
    if damage:
        words = ("struggling", "Repair crews are at work on several decks.")
    return {
        "condition": words[0],
        "condition_text": words[1],
        "satisfaction_pct": 100 * working // len(base.facilities),
        "satisfied_count": working,
        "total_service_infra": len(base.facilities),
    }


_GOODS = make_view("item_id=id name")


def view_goods(goods: Mapping[str, int]) -> list[Json]:
    """Goods with their names, as storage and hold show them."""
    return [
        {**_GOODS(ITEMS[name]), "quantity": count, "size": ITEMS[name].size}
        for name, count in goods.items()
    ]


def view_goods_briefly(goods: Mapping[str, int]) -> list[Json]:
    return [{"item_id": name, "quantity": count} for name, count in goods.items()]


def view_offers(market: Market) -> list[Json]:
    """What a station sells, as get_poi lists it."""
    return [
        {
            "id": make_hex_id("offer", market.base_id, item_id),
            "base_id": "",
            "item_id": item_id,
            "quantity": shelf.stock,
            "price_each": shelf.asked,
            "is_npc": True,
        }
        for item_id, shelf in market.shelves.items()
        if shelf.stock
    ]


def view_log(entries: list[LogEntry]) -> list[Json]:
    """A captain's log, newest first, with each entry's index."""
    return [
        {"index": index, "entry": entry.entry, "created_at": entry.created_at}
        for index, entry in enumerate(entries)
    ]


def describe_security(police_level: int) -> str:
    """The words for a police level."""
    for least, words in (
        (100, "Maximum Security (empire capital)"),
        (80, "High Security (active police patrols)"),
        (60, "Medium Security (regular police patrols)"),
        (40, "Low Security (slow police response)"),
        (20, "Frontier (minimal police presence)"),
    ):
        if police_level >= least:
            return words
    return "Lawless (no police protection)"


_NEAR = make_view(
    "player_id=id username ship_class=ship.class_id status_message=looks.status_message"
)
_PIRATE = make_view("pirate_id=id name tier is_boss hull max_hull shield max_shield")


def view_player_nearby(player: Player, faction: Faction | None = None) -> Json:
    view = _NEAR(player)
    view |= {"clan_tag": faction.tag if faction else "", **_COLORS(player)}
    view["in_combat"] = player.target_id is not None
    if player.ship.name:
        view["ship_name"] = player.ship.name
    if faction:
        view |= {"faction_id": faction.id, "faction_tag": faction.tag}
    return view


def view_npc(npc: Npc) -> Json:
    return {
        "player_id": npc.id,
        "username": npc.username,
        "ship_class": npc.ship_class,
        "status_message": "",
        "clan_tag": npc.clan_tag,
        "primary_color": npc.color,
        "secondary_color": "#000000",
        "anonymous": False,
        "in_combat": False,
    }


def view_pirate(pirate: Pirate) -> Json:
    return {**_PIRATE(pirate), "status": "attacking" if pirate.victim else "idle"}
