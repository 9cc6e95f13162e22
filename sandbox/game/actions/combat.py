"""attack: one shot at a pirate or at another captain.

A ship's hull gun is its only weapon here. A pirate shoots back at every tick until one
of the two is gone or the ship leaves the place.
"""

from __future__ import annotations

from sandbox.game.actions.action import Action, Arguments, Event, Intent
from sandbox.game.actions.scanning import no_such_target
from sandbox.game.battles import begin_battle
from sandbox.game.damage import DAMAGE_TYPE, shoot, shot_event
from sandbox.game.death import die
from sandbox.game.errors import GameError, must_undock
from sandbox.game.learning import teach
from sandbox.game.minor.missions import advance_missions
from sandbox.game.models import Player
from sandbox.game.npcs import Pirate
from sandbox.game.state import State
from sandbox.game.wrecks import leave_wreck

_GUN = "Hull Gun"
_DAMAGE = 12
_BACK_AFTER = 50
_KILL_XP = 20


def _prepare(state: State, player: Player, arguments: Arguments) -> Intent:
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


def _finish(state: State, player: Player, arguments: Arguments) -> list[Event]:
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
    return Event(
        {
            "pirate_id": pirate.id,
            "pirate_name": pirate.name,
            "credits_earned" if modern else "credits_reward": reward,
            "combat_xp" if modern else "xp_gained": _KILL_XP,
            "wreck_id": wreck.id,
            "message": f"{pirate.name} destroyed. Bounty: {reward}cr.",
        },
        "pirate_destroyed",
        "combat",
    )


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


ATTACK = Action("attack", _prepare, _finish, needs="space")
