"""scan and attack: a close look, and a shot at a pirate or another captain.

A ship's hull gun is its only weapon here. A pirate shoots back at every tick until one
of the two is gone or the ship leaves the place.
"""

from __future__ import annotations

from sandbox.game.actions import damage
from sandbox.game.actions.action import Action, Intent, teach
from sandbox.game.config import GameError, Json, must_undock
from sandbox.game.sessions import Event
from sandbox.game.state import State
from sandbox.game.tool import Parameter, Tool, text
from sandbox.game.world.models import Player
from sandbox.game.world.npcs import Pirate

_GUN = "Hull Gun"
_DAMAGE = 12
_BACK_AFTER = 50
_KILL_XP = 20
_TARGET = text("target_id", "The ID of a ship at your location, from get_nearby")


def _no_such_target(target_id: str) -> GameError:
    return GameError(
        "invalid_target",
        f"No target '{target_id}' at this location. Use 'get_nearby' to see who is.",
    )


def _prepare_scan(state: State, player: Player, given: Json) -> Intent:
    target = {"target_id": given["target_id"]}
    if _inspect(state, player, given["target_id"]) is None:
        raise _no_such_target(given["target_id"])
    return Intent(target, {**target, "message": "Scanning..."})


def _finish_scan(state: State, player: Player, given: Json) -> list[Event]:
    target_id = given["target_id"]
    # A target that left in time is a scan without success, not an error.
    seen = _inspect(state, player, target_id)
    teach(state, player, "scanning", 2)
    found = {"target_id": target_id, "success": seen is not None}
    target = state.players.get(target_id)
    if seen is not None and target is not None:
        noticed = {
            "scanner_id": player.id,
            "scanner_username": player.username,
            "scanner_ship_class": player.ship.class_id,
            "revealed_info": ["username", "ship_class", "hull", "shield", "cloaked"],
            "message": f"{player.username} has scanned your ship.",
        }
        state.tell(Event(noticed, "scan_detected"), target)
    told = {**found, "revealed_info": list(seen or ()), **(seen or {})}
    return [Event(told, "scan_result", "combat")]


def _inspect(state: State, player: Player, target_id: str) -> Json | None:
    seen: dict[str, tuple[str, str, int, int]] = {}
    for pirate in state.pirates_at(player.poi_id):
        seen[pirate.id] = (pirate.name, "pirate", pirate.hull, pirate.shield)
    for npc in state.npcs_at(player.poi_id):
        seen[npc.id] = (npc.username, npc.ship_class, 100, 50)
    for other in state.players_at(player.poi_id):
        ship = other.ship
        seen[other.id] = (other.username, ship.class_id, ship.hull, ship.shield)
    if target_id not in seen or target_id == player.id:
        return None
    names = ("username", "ship_class", "hull", "shield")
    return dict(zip(names, seen[target_id], strict=True)) | {"cloaked": False}


def _prepare_attack(state: State, player: Player, given: Json) -> Intent:
    if player.docked_at:
        raise must_undock()
    target_id = given["target_id"]
    weapon = given.get("weapon_idx", 0)
    if weapon != 0:
        raise GameError("invalid_weapon", f"No weapon at index {weapon}. Use 0.")
    target = _find_target(state, player, target_id)
    name = target.name if isinstance(target, Pirate) else target.username
    preview = {
        "target_id": target_id,
        "target_name": name,
        "weapon_idx": 0,
        "weapon_name": _GUN,
        "damage_type": damage.DAMAGE_TYPE,
        "message": f"Attacking {name}",
    }
    return Intent({"target_id": target_id}, preview)


def _find_target(state: State, player: Player, target_id: str) -> Pirate | Player:
    """A pirate or an undocked captain at the same place."""
    pirate = state.pirates.get(target_id)
    if pirate and pirate.alive and pirate.poi_id == player.poi_id:
        return pirate
    for other in state.players_at(player.poi_id):
        if other.id == target_id != player.id and not other.docked_at:
            return other
    raise _no_such_target(target_id)


def _finish_attack(state: State, player: Player, given: Json) -> list[Event]:
    target = _find_target(state, player, given["target_id"])
    if isinstance(target, Pirate):
        return _shoot_pirate(state, player, target)
    damage.begin_battle(state, player, target)
    hit = damage.shoot(target.ship, _DAMAGE)
    me, other = (player.id, player.username), (target.id, target.username)
    shot = damage.shot_event(state, me, other, hit)
    state.tell(shot, target)
    if hit.destroyed:
        player.stats["ships_destroyed"] += 1
        damage.die(state, target, player.id, player.username, "player")
    return [shot]


def _shoot_pirate(state: State, player: Player, pirate: Pirate) -> list[Event]:
    hit = damage.shoot(pirate, _DAMAGE)
    me = (player.id, player.username)
    shot = damage.shot_event(state, me, (pirate.id, pirate.name), hit)
    if not hit.destroyed:
        player.target_id, pirate.victim = pirate.id, player.id
        pirate.strike_tick = state.tick
        return [shot]
    player.target_id = pirate.victim = None
    return [shot, _destroy_pirate(state, player, pirate)]


def _destroy_pirate(state: State, player: Player, pirate: Pirate) -> Event:
    pirate.back_tick = state.tick + _BACK_AFTER
    reward = pirate.max_hull
    player.earn(reward)
    player.stats["pirates_destroyed"] += 1
    teach(state, player, "weapons_basic", _KILL_XP)
    player.advance_missions("kill_pirate", "", 1)
    steel, who = 1 + pirate.max_hull // 50, (pirate.id, pirate.name)
    cargo, where = {"refined_steel": steel}, pirate.poi_id
    wreck = damage.leave_wreck(
        state, poi_id=where, victim=who, ship_class="pirate", cargo=cargo
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


ACTIONS = (
    Action(
        Tool("scan", "combat", "Scan a ship at your location.", (_TARGET,),
             {"target_id": "player_id"}, "The result comes as a notification.",
             mutation=True), _prepare_scan, _finish_scan),
    Action(
        Tool("attack", "combat", "Attack a pirate or a captain at your location.",
             (_TARGET,
              Parameter("weapon_idx", "integer", "Which weapon", required=False)),
             {"target_id": "pirate_id", "weapon_idx": 0},
             "A pirate shoots back until one of you is gone or you leave.",
             mutation=True, destructive=True), _prepare_attack, _finish_attack,
        needs="space"),
)  # fmt: skip
