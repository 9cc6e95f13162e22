"""scan and attack: a close look, and a shot at a pirate or another captain.

A ship's hull gun is its only weapon here. A pirate shoots back at every tick until one
of the two is gone or the ship leaves the place.
"""

from __future__ import annotations

from sandbox.game.actions import damage
from sandbox.game.actions.action import Action, Call, Intent
from sandbox.game.config import GameError, Json, must_undock
from sandbox.game.sessions import Event
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


def _prepare_scan(call: Call) -> Intent:
    if _inspect(call) is None:
        raise _no_such_target(call.given["target_id"])
    return Intent(call.given, {**call.given, "message": "Scanning..."})


def _finish_scan(call: Call) -> list[Event]:
    player, target_id = call.player, call.given["target_id"]
    # A target that left in time is a scan without success, not an error.
    seen = _inspect(call)
    call.teach("scanning", 2)
    found = {"target_id": target_id, "success": seen is not None}
    target = call.state.players.get(target_id)
    if seen is not None and target is not None:
        noticed = {
            "scanner_id": player.id,
            "scanner_username": player.username,
            "scanner_ship_class": player.ship.class_id,
            "revealed_info": ["username", "ship_class", "hull", "shield", "cloaked"],
            "message": f"{player.username} has scanned your ship.",
        }
        call.tell(target, "scan_detected", "system", noticed)
    told = {**found, "revealed_info": list(seen or ()), **(seen or {})}
    return [Event(told, "scan_result", "combat")]


def _inspect(call: Call) -> Json | None:
    state, here, target_id = call.state, call.player.poi_id, call.given["target_id"]
    seen: dict[str, tuple[str, str, int, int]] = {}
    for pirate in state.pirates_at(here):
        seen[pirate.id] = (pirate.name, "pirate", pirate.hull, pirate.shield)
    for npc in state.npcs_at(here):
        seen[npc.id] = (npc.username, npc.ship_class, 100, 50)
    for other in state.players_at(here):
        ship = other.ship
        seen[other.id] = (other.username, ship.class_id, ship.hull, ship.shield)
    if target_id not in seen or target_id == call.player.id:
        return None
    names = ("username", "ship_class", "hull", "shield")
    return dict(zip(names, seen[target_id], strict=True)) | {"cloaked": False}


def _prepare_attack(call: Call) -> Intent:
    if call.player.docked_at:
        raise must_undock()
    weapon = call.given.get("weapon_idx", 0)
    if weapon != 0:
        raise GameError("invalid_weapon", f"No weapon at index {weapon}. Use 0.")
    target = _find_target(call)
    name = target.name if isinstance(target, Pirate) else target.username
    preview = {
        "target_id": target.id,
        "target_name": name,
        "weapon_idx": 0,
        "weapon_name": _GUN,
        "damage_type": damage.DAMAGE_TYPE,
        "message": f"Attacking {name}",
    }
    return Intent({"target_id": target.id}, preview)


def _find_target(call: Call) -> Pirate | Player:
    target_id, here = call.given["target_id"], call.player.poi_id
    targets: list[Pirate | Player] = [*call.state.pirates_at(here)]
    for target in targets + call.state.players_at(here):
        docked = isinstance(target, Player) and target.docked_at
        if target.id == target_id != call.player.id and not docked:
            return target
    raise _no_such_target(target_id)


def _finish_attack(call: Call) -> list[Event]:
    state, player, target = call.state, call.player, _find_target(call)
    if isinstance(target, Pirate):
        return _shoot_pirate(call, target)
    damage.begin_battle(state, player, target)
    hit = damage.shoot(target.ship, _DAMAGE)
    me, other = (player.id, player.username), (target.id, target.username)
    shot = damage.shot_event(state, me, other, hit)
    state.tell(shot, target)
    if hit.destroyed:
        player.stats["ships_destroyed"] += 1
        damage.die(state, target, player.id, player.username, "player")
    return [shot]


def _shoot_pirate(call: Call, pirate: Pirate) -> list[Event]:
    state, player = call.state, call.player
    hit = damage.shoot(pirate, _DAMAGE)
    me = (player.id, player.username)
    shot = damage.shot_event(state, me, (pirate.id, pirate.name), hit)
    if not hit.destroyed:
        player.target_id, pirate.victim = pirate.id, player.id
        pirate.strike_tick = state.tick
        return [shot]
    player.target_id = pirate.victim = None
    return [shot, _destroy_pirate(call, pirate)]


def _destroy_pirate(call: Call, pirate: Pirate) -> Event:
    state, player = call.state, call.player
    pirate.back_tick = state.tick + _BACK_AFTER
    reward = pirate.max_hull
    player.earn(reward)
    player.stats["pirates_destroyed"] += 1
    call.teach("weapons_basic", _KILL_XP)
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
