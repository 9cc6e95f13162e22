"""How captains and pirates look to others at the same place."""

from __future__ import annotations

from typing import Any

from sandbox.game.holdings import Faction
from sandbox.game.models import Player
from sandbox.game.npcs import Npc, Pirate

Json = dict[str, Any]


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
