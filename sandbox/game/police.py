"""The police, who shoot at those who shoot at captains."""

from __future__ import annotations

from sandbox.game.damage import DAMAGE_TYPE, shoot
from sandbox.game.death import die
from sandbox.game.dice import hex_id
from sandbox.game.models import Player, Wanted
from sandbox.game.notifications import Event
from sandbox.game.state import State

_DAMAGE = 8


def accuse(state: State, player: Player) -> None:
    """Set the police of the system on a captain, if there is any."""
    system = state.world.systems[player.system_id]
    if not system.police_level or player.wanted is not None:
        return
    wait = 1 + (100 - system.police_level) // 20
    player.wanted = Wanted(system.id, state.tick + wait)
    data = {
        "message": "Cease fire. Police are on their way.",
        "police_level": system.police_level,
        "response_ticks": wait,
        "system": system.id,
    }
    state.tell_event(player, Event(data, "police_warning", "combat"))


def patrol(state: State) -> None:
    """Let the police come and shoot (once per tick)."""
    for player in list(state.players.values()):
        if player.wanted is not None:
            _pursue(state, player, player.wanted)


def _pursue(state: State, player: Player, wanted: Wanted) -> None:
    if player.docked_at or player.in_transit or player.system_id != wanted.system_id:
        player.wanted = None
        return
    if state.tick < wanted.arrival_tick:
        return
    if state.tick == wanted.arrival_tick:
        data = {
            "message": "Police drones have arrived.",
            "num_drones": 1,
            "target": player.username,
        }
        state.tell_event(player, Event(data, "police_spawn", "combat"))
        return
    hit = shoot(player.ship, _DAMAGE)
    drone = f"drone_{hex_id(state.config.seed, wanted.system_id, 'police')[:6]}"
    data = {
        "tick": state.tick,
        "drone_id": drone,
        "target_id": player.id,
        "damage": _DAMAGE,
        "damage_type": DAMAGE_TYPE,
        "destroyed": hit.destroyed,
    }
    state.tell_event(player, Event(data, "police_combat", "combat"))
    if hit.destroyed:
        die(state, player, drone, "Police Drone", "police")
