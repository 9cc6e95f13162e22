"""attack: a duel with a pirate.

A ship's hull gun is its only weapon here. The pirate shoots back at every tick
until one of the two is gone or the ship leaves the place.
"""

from __future__ import annotations

from typing import Any

from agents.game.sandbox.actions.action import Action, Arguments, Event, Intent
from agents.game.sandbox.actions.scanning import no_such_target
from agents.game.sandbox.catalogue import STARTER
from agents.game.sandbox.errors import GameError, must_undock
from agents.game.sandbox.models import Player
from agents.game.sandbox.npcs import Pirate
from agents.game.sandbox.skills import learn
from agents.game.sandbox.state import State

_GUN = "Hull Gun"
_DAMAGE_TYPE = "kinetic"
_DAMAGE = 12
_PIRATE_DAMAGE = {"small": 6, "medium": 10}
_BACK_AFTER = 50
_CLONE_COST = 50


def _prepare(state: State, player: Player, arguments: Arguments) -> Intent:
    if player.docked_at:
        raise must_undock()
    target_id = arguments["target_id"]
    weapon = arguments.get("weapon_idx", 0)
    if weapon != 0:
        raise GameError("invalid_weapon", f"No weapon at index {weapon}. Use 0.")
    pirate = _pirate_here(state, player, target_id)
    if pirate is None:
        raise no_such_target(target_id)
    return Intent(
        {"target_id": target_id},
        {
            "target_id": target_id,
            "target_name": pirate.name,
            "weapon_idx": 0,
            "weapon_name": _GUN,
            "damage_type": _DAMAGE_TYPE,
            "message": f"Attacking {pirate.name}",
        },
    )


def _pirate_here(state: State, player: Player, target_id: str) -> Pirate | None:
    pirate = state.pirates.get(target_id)
    if pirate is None or not pirate.alive or pirate.poi_id != player.poi_id:
        return None
    return pirate


def _finish(state: State, player: Player, arguments: Arguments) -> list[Event]:
    pirate = _pirate_here(state, player, arguments["target_id"])
    if pirate is None:
        raise no_such_target(arguments["target_id"])
    shield_hit = min(_DAMAGE, pirate.shield)
    hull_hit = min(_DAMAGE - shield_hit, pirate.hull)
    pirate.shield -= shield_hit
    pirate.hull -= hull_hit
    player.target_id = pirate.id if pirate.alive else None
    shot = Event(
        {
            "tick": state.tick,
            "attacker": player.username,
            "target": pirate.name,
            "damage": shield_hit + hull_hit,
            "damage_type": _DAMAGE_TYPE,
            "shield_hit": shield_hit,
            "hull_hit": hull_hit,
            "destroyed": not pirate.alive,
        },
        "combat_update",
        "combat",
    )
    return [shot] if pirate.alive else [shot, _destroyed(state, player, pirate)]


def _destroyed(state: State, player: Player, pirate: Pirate) -> Event:
    pirate.back_tick = state.tick + _BACK_AFTER
    reward = pirate.max_hull
    player.earn(reward)
    player.stats["pirates_destroyed"] += 1
    learn(player, "weapons_basic", 20)
    return Event(
        {
            "pirate_id": pirate.id,
            "pirate_name": pirate.name,
            "credits_reward": reward,
            "xp_gained": 20,
            "message": f"{pirate.name} destroyed. Bounty: {reward}cr.",
        },
        "pirate_destroyed",
        "combat",
    )


def fight(state: State) -> None:
    """Let engaged pirates shoot back, and absent ones return (once per tick)."""
    for player in state.players.values():
        if player.target_id is not None:
            _shoot_back(state, player)
    for pirate in state.pirates.values():
        if not pirate.alive and state.tick >= pirate.back_tick:
            pirate.hull, pirate.shield = pirate.max_hull, pirate.max_shield


def _shoot_back(state: State, player: Player) -> None:
    pirate = _pirate_here(state, player, player.target_id or "")
    if pirate is None or player.in_transit or player.docked_at:
        player.target_id = None
        return
    ship = player.ship
    damage = _PIRATE_DAMAGE[pirate.tier]
    shield_hit = min(damage, ship.shield)
    ship.shield -= shield_hit
    ship.hull = max(0, ship.hull - (damage - shield_hit))
    data = {
        "tick": state.tick,
        "pirate_id": pirate.id,
        "pirate_name": pirate.name,
        "damage": damage,
        "damage_type": _DAMAGE_TYPE,
        "player_hull": ship.hull,
        "player_shield": ship.shield,
        "destroyed": ship.hull == 0,
    }
    state.tell(player, state.notification("pirate_combat", data, "combat"))
    if not ship.hull:
        state.tell(
            player, state.notification("player_died", _die(state, player, pirate))
        )


def _die(state: State, player: Player, killer: Pirate) -> dict[str, Any]:
    """Bring the captain home in a full starter ship without cargo."""
    cost = min(player.credits, _CLONE_COST)
    lost = player.ship.class_id
    state.leave(player)
    player.spend(cost)
    player.stats["ships_lost"] += 1
    player.pending = None
    player.target_id = None
    ship = player.ship
    ship.class_id, ship.cargo = STARTER.id, {}
    ship.hull, ship.shield, ship.fuel = STARTER.hull, STARTER.shield, STARTER.fuel
    base = state.world.bases[player.home_base]
    state.arrive(player, base.poi_id)
    player.docked_at = base.id
    return {
        "killer_id": killer.id,
        "killer_name": killer.name,
        "respawn_base": base.id,
        "clone_cost": cost,
        "insurance_payout": 0,
        "ship_lost": lost,
        "new_ship_class": STARTER.id,
        "wreck_id": "",
    }


ATTACK = Action("attack", _prepare, _finish, needs="space")
