"""The JSON forms in which the game shows its things."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

from sandbox.game.config import NEVER, hex_id
from sandbox.game.world.catalogue import ITEMS, MODULES, ShipClass
from sandbox.game.world.markets import Market
from sandbox.game.world.models import BaseState, Faction, LogEntry, Module, Player, Ship
from sandbox.game.world.npcs import Npc, Pirate
from sandbox.game.world.places import Base, Deposit, Poi, System

Json = dict[str, Any]


def player_view(player: Player, faction: Faction | None = None) -> Json:
    """The player as in get_status; `docked_at_base` is absent in space."""
    docked = {"docked_at_base": player.docked_at} if player.docked_at else {}
    member, looks = {}, player.looks
    if faction:
        rank = faction.members[player.id]
        member = {"faction_id": faction.id, "faction_rank": rank}
    towing = {"towing_wreck_id": player.towing} if player.towing else {}
    return {
        "id": player.id,
        "username": player.username,
        "empire": player.empire,
        "credits": player.credits,
        "created_at": player.created_at,
        "last_login_at": player.last_login_at,
        "last_active_at": player.last_active_at,
        "status_message": looks.status_message,
        "clan_tag": faction.tag if faction else "",
        "primary_color": looks.primary_color,
        "secondary_color": looks.secondary_color,
        "anonymous": looks.anonymous,
        "is_cloaked": looks.cloaked,
        "current_ship_id": player.ship.id,
        "current_system": player.system_id,
        "current_poi": player.poi_id,
        "home_base": player.home_base,
        **docked,
        **member,
        **towing,
        "last_chat_check": NEVER,
        "skills": {
            name: skill.level
            for name, skill in sorted(player.skills.items())
            if skill.level
        },
        "stats": dict(player.stats),
        "revealed_pois": dict.fromkeys(player.revealed, True) or None,
        "completed_missions": dict(player.completed) or None,
    }


def full_player_view(player: Player, faction: Faction | None = None) -> Json:
    """The longer form that register and login give."""
    return {
        **player_view(player, faction),
        "skill_xp": {name: skill.xp for name, skill in sorted(player.skills.items())},
        "experience": sum(skill.xp for skill in player.skills.values()),
        "discovered_systems": {
            name: {"system_id": name, "discovered_at": moment}
            for name, moment in player.visited.items()
        },
    }


def ship_view(ship: Ship) -> Json:
    build = ship.build
    return {
        "id": ship.id,
        "owner_id": ship.owner_id,
        "class_id": ship.class_id,
        "name": ship.name or build.name,
        "created_at": ship.created_at,
        "hull": ship.hull,
        "max_hull": build.hull,
        "shield": ship.shield,
        "max_shield": build.shield,
        "shield_recharge": build.shield_recharge,
        "armor": build.armor,
        "speed": build.speed,
        "fuel": ship.fuel,
        "max_fuel": build.fuel,
        "cargo_used": ship.cargo_used,
        "cargo_capacity": build.cargo,
        "cpu_used": ship.total("cpu_usage"),
        "cpu_capacity": build.cpu,
        "power_used": ship.total("power_usage"),
        "power_capacity": build.power,
        "weapon_slots": build.weapon_slots,
        "defense_slots": build.defense_slots,
        "utility_slots": build.utility_slots,
        "modules": [module.id for module in ship.modules],
        "cargo": [
            {"item_id": item_id, "quantity": count}
            for item_id, count in ship.cargo.items()
        ],
    }


def module_view(module: Module) -> Json:
    magazine = MODULES[module.type_id].get("magazine_size")
    loaded = {"current_ammo": module.ammo} if magazine else {}
    return {"id": module.id, **MODULES[module.type_id], **loaded}


def class_view(build: ShipClass) -> Json:
    return {
        "id": build.id,
        "name": build.name,
        "description": build.description,
        "lore": build.lore,
        "class": build.kind,
        "price": build.price,
        "tier": 1,
        "scale": 1,
        "base_hull": build.hull,
        "base_shield": build.shield,
        "base_shield_recharge": build.shield_recharge,
        "base_armor": build.armor,
        "base_speed": build.speed,
        "base_fuel": build.fuel,
        "cargo_capacity": build.cargo,
        "cpu_capacity": build.cpu,
        "power_capacity": build.power,
        "weapon_slots": build.weapon_slots,
        "defense_slots": build.defense_slots,
        "utility_slots": build.utility_slots,
        "default_modules": list(build.modules),
        "required_skills": {},
        "shipyard_tier": 0,
        "build_time": 0,
    }


def system_view(system: System, revealed: Container[str] = ()) -> Json:
    """A system in the seed era's form: ids only, the places are listed beside it."""
    empire = {"empire": system.empire} if system.empire else {}
    return {
        "id": system.id,
        "name": system.name,
        "description": system.description,
        **empire,
        "police_level": system.police_level,
        "connections": list(system.connections),
        "pois": [poi.id for poi in system.known(revealed)],
        "position": system.position.view(),
    }


def poi_view(poi: Poi, *, resources: bool = True) -> Json:
    view: Json = {
        "id": poi.id,
        "system_id": poi.system_id,
        "type": poi.type,
        "name": poi.name,
        "description": poi.description,
        "position": poi.position.view(),
    }
    if poi.deposits and resources:
        view["resources"] = [_brief_deposit(deposit) for deposit in poi.deposits]
    if poi.base:
        view["base_id"] = poi.base.id
    return view


def _brief_deposit(deposit: Deposit) -> Json:
    return {
        "resource_id": deposit.resource_id,
        "richness": deposit.richness,
        "remaining": deposit.remaining,
        "max_remaining": deposit.max_remaining,
    }


def deposit_view(deposit: Deposit) -> Json:
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


def base_view(base: Base, now: BaseState | None = None) -> Json:
    return {
        "id": base.id,
        "poi_id": base.poi_id,
        "name": base.name,
        "description": base.description,
        "empire": base.empire,
        "services": dict.fromkeys(base.services, True),
        "facilities": [*base.facilities, *(now.built if now else ())],
        "defense_level": base.defense_level,
        "has_drones": base.defense_level >= 100,
        "public_access": True,
    }


def condition_view(base: Base, now: BaseState | None = None) -> Json:
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


def goods_view(goods: Mapping[str, int]) -> list[Json]:
    """Mapping[str, int] with their names, as storage and hold show them."""
    return [
        {
            "item_id": item_id,
            "name": ITEMS[item_id].name,
            "quantity": count,
            "size": ITEMS[item_id].size,
        }
        for item_id, count in goods.items()
    ]


def offers_view(market: Market) -> list[Json]:
    """What a station sells, as get_poi lists it."""
    return [
        {
            "id": hex_id("offer", market.base_id, item_id),
            "base_id": "",
            "item_id": item_id,
            "quantity": shelf.stock,
            "price_each": shelf.asked,
            "is_npc": True,
        }
        for item_id, shelf in market.shelves.items()
        if shelf.stock
    ]


def log_view(entries: list[LogEntry]) -> list[Json]:
    """A captain's log, newest first, with each entry's index."""
    return [
        {"index": index, "entry": entry.entry, "created_at": entry.created_at}
        for index, entry in enumerate(entries)
    ]


def security(police_level: int) -> str:
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


def player_nearby(player: Player, faction: Faction | None = None) -> Json:
    looks = player.looks
    own = {"ship_name": player.ship.name} if player.ship.name else {}
    if faction:
        own |= {"faction_id": faction.id, "faction_tag": faction.tag}
    return {
        "player_id": player.id,
        "username": player.username,
        "ship_class": player.ship.class_id,
        "status_message": looks.status_message,
        "clan_tag": faction.tag if faction else "",
        "primary_color": looks.primary_color,
        "secondary_color": looks.secondary_color,
        "anonymous": looks.anonymous,
        "in_combat": player.target_id is not None,
        **own,
    }


def npc_nearby(npc: Npc) -> Json:
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


def pirate_nearby(pirate: Pirate) -> Json:
    return {
        "pirate_id": pirate.id,
        "name": pirate.name,
        "tier": pirate.tier,
        "is_boss": pirate.tier == "boss",
        "hull": pirate.hull,
        "max_hull": pirate.max_hull,
        "shield": pirate.shield,
        "max_shield": pirate.max_shield,
        "status": "attacking" if pirate.victim else "idle",
    }
