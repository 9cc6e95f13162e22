"""Drones that dig where they were left, until they are full or lost."""

from __future__ import annotations

from sandbox.game.dice import dice
from sandbox.game.models import Player
from sandbox.game.notifications import Event
from sandbox.game.state import State

MOST_MINED = 10
REPORT_TICKS = 5
_LOSS_CHANCE = 0.01


def fly_drones(state: State) -> None:
    """Let every drone dig, and some of them be lost (once per tick)."""
    for player in state.players.values():
        if player.drones:
            _fly(state, player)


def _fly(state: State, player: Player) -> None:
    rng = dice(state.config.seed, state.tick, player.username, "drones")
    for drone in list(player.drones):
        drone.mined = min(MOST_MINED, drone.mined + 1)
        if rng.random() < _LOSS_CHANCE:
            player.drones.remove(drone)
            data = {"tick": state.tick, "drone_id": drone.id, "cause": "asteroid"}
            state.tell_event(player, Event(data, "drone_destroyed", "combat"))
    if player.drones and state.tick % REPORT_TICKS == 0:
        listed = [{"drone_id": one.id, "mined": one.mined} for one in player.drones]
        data = {"tick": state.tick, "drones": listed}
        state.tell_event(player, Event(data, "drone_update"))
