"""scan and attack: a close look, and a shot at a pirate or another captain.

A ship's hull gun is its only weapon here. A pirate shoots back at every tick until one
of the two is gone or the ship leaves the place.
"""

from __future__ import annotations

from typing import Any

from sandbox.game.actions.action import Action, Arguments, Intent, teach
from sandbox.game.actions.damage import (
    DAMAGE_TYPE,
    begin_battle,
    die,
    leave_wreck,
    shoot,
    shot_event,
)
from sandbox.game.config import GameError, must_undock
from sandbox.game.sessions import Event
from sandbox.game.state import State
from sandbox.game.world.missions import advance_missions
from sandbox.game.world.models import Player
from sandbox.game.world.npcs import Pirate


def no_such_target(target_id: str) -> GameError:
    return GameError(
        "invalid_target",
        f"No target '{target_id}' at this location. Use 'get_nearby' to see who is.",
    )


def _prepare_scan(state: State, player: Player, arguments: Arguments) -> Intent:
    target_id = arguments["target_id"]
    if _look(state, player, target_id) is None:
        raise no_such_target(target_id)
    return Intent(
        {"target_id": target_id},
        {"target_id": target_id, "message": "Scanning..."},
    )


def _finish_scan(state: State, player: Player, arguments: Arguments) -> list[Event]:
    target_id = arguments["target_id"]
    seen = _look(state, player, target_id)
    teach(state, player, "scanning", 2)
    found: dict[str, Any] = {"target_id": target_id, "success": seen is not None}
    # A target that left in time is a scan without success, not an error.
    found["revealed_info"] = list(seen or ())
    target = state.players.get(target_id)
    if seen is not None and target is not None:
        state.tell(target, state.notification("scan_detected", _noticed(player)))
    return [Event(found | (seen or {}), "scan_result", "combat")]


def _noticed(scanner: Player) -> dict[str, Any]:
    return {
        "scanner_id": scanner.id,
        "scanner_username": scanner.username,
        "scanner_ship_class": scanner.ship.class_id,
        "revealed_info": ["username", "ship_class", "hull", "shield", "cloaked"],
        "message": f"{scanner.username} has scanned your ship.",
    }


def _look(state: State, player: Player, target_id: str) -> dict[str, Any] | None:
    """Describe a player, captain or pirate at the same place."""
    for other in state.players_at(player.poi_id):
        if other.id == target_id != player.id:
            ship = other.ship
            return _ship(other.username, ship.class_id, ship.hull, ship.shield)
    for npc in state.npcs_at(player.poi_id):
        if npc.id == target_id:
            return _ship(npc.username, npc.ship_class, 100, 50)
    for pirate in state.pirates_at(player.poi_id):
        if pirate.id == target_id:
            return _ship(pirate.name, "pirate", pirate.hull, pirate.shield)
    return None


def _ship(username: str, ship_class: str, hull: int, shield: int) -> dict[str, Any]:
    return {
        "username": username,
        "ship_class": ship_class,
        "hull": hull,
        "shield": shield,
        "cloaked": False,
    }


SCAN = Action("scan", _prepare_scan, _finish_scan)


_GUN = "Hull Gun"
_DAMAGE = 12
_BACK_AFTER = 50
_KILL_XP = 20


def _prepare_attack(state: State, player: Player, arguments: Arguments) -> Intent:
    if player.docked_at:
        raise must_undock()
    target_id = arguments["target_id"]
    weapon = arguments.get("weapon_idx", 0)
    if weapon != 0:
        raise GameError("invalid_weapon", f"No weapon at index {weapon}. Use 0.")
    target = _target(state, player, target_id)
    name = target.name if isinstance(target, Pirate) else target.username
    return Intent(
        {"target_id": target_id},
        {
            "target_id": target_id,
            "target_name": name,
            "weapon_idx": 0,
            "weapon_name": _GUN,
            "damage_type": DAMAGE_TYPE,
            "message": f"Attacking {name}",
        },
    )


def _target(state: State, player: Player, target_id: str) -> Pirate | Player:
    """A pirate or an undocked captain at the same place."""
    pirate = state.pirates.get(target_id)
    if pirate and pirate.alive and pirate.poi_id == player.poi_id:
        return pirate
    for other in state.players_at(player.poi_id):
        if other.id == target_id != player.id and not other.docked_at:
            return other
    raise no_such_target(target_id)


def _finish_attack(state: State, player: Player, arguments: Arguments) -> list[Event]:
    target = _target(state, player, arguments["target_id"])
    if isinstance(target, Pirate):
        return _shoot_pirate(state, player, target)
    return _shoot_captain(state, player, target)


def _shoot_pirate(state: State, player: Player, pirate: Pirate) -> list[Event]:
    hit = shoot(pirate, _DAMAGE)
    me = (player.id, player.username)
    shot = shot_event(state, me, (pirate.id, pirate.name), hit)
    if not hit.destroyed:
        player.target_id, pirate.victim = pirate.id, player.id
        pirate.strike_tick = state.tick
        return [shot]
    player.target_id = pirate.victim = None
    return [shot, _destroyed(state, player, pirate)]


def _destroyed(state: State, player: Player, pirate: Pirate) -> Event:
    pirate.back_tick = state.tick + _BACK_AFTER
    reward = pirate.max_hull
    player.earn(reward)
    player.stats["pirates_destroyed"] += 1
    teach(state, player, "weapons_basic", _KILL_XP)
    advance_missions(player, "kill_pirate", "", 1)
    wreck = leave_wreck(
        state,
        poi_id=pirate.poi_id,
        victim=(pirate.id, pirate.name),
        ship_class="pirate",
        cargo={"refined_steel": 1 + pirate.max_hull // 50},
    )
    modern = state.config.era == "C"
    told = {
        "pirate_id": pirate.id,
        "pirate_name": pirate.name,
        "credits_earned" if modern else "credits_reward": reward,
        "combat_xp" if modern else "xp_gained": _KILL_XP,
        "wreck_id": wreck.id,
        "message": f"{pirate.name} destroyed. Bounty: {reward}cr.",
    }
    return Event(told, "pirate_destroyed", "combat")


def _shoot_captain(state: State, player: Player, victim: Player) -> list[Event]:
    begin_battle(state, player, victim)
    hit = shoot(victim.ship, _DAMAGE)
    me, other = (player.id, player.username), (victim.id, victim.username)
    shot = shot_event(state, me, other, hit)
    state.tell_event(victim, shot)
    if hit.destroyed:
        player.stats["ships_destroyed"] += 1
        die(state, victim, player.id, player.username, "player")
    return [shot]


ATTACK = Action("attack", _prepare_attack, _finish_attack, needs="space")
