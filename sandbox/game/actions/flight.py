"""travel and jump: from place to place, from system to system."""

from __future__ import annotations

import math

from sandbox.game.actions.action import Action, Arguments, Event, Intent
from sandbox.game.battles import leave_battle
from sandbox.game.errors import GameError, must_undock, unknown_system
from sandbox.game.learning import teach
from sandbox.game.models import Player
from sandbox.game.places import Poi
from sandbox.game.stamps import plain
from sandbox.game.state import State
from sandbox.game.wrecks import pull

JUMP_TICKS = 2
JUMP_FUEL = 2
_REACH_PER_TICK = 1.5


def _check_fuel(player: Player, needed: int) -> None:
    if player.ship.fuel < needed:
        raise GameError(
            "no_fuel", f"Not enough fuel. Need {needed}, have {player.ship.fuel}."
        )


def _prepare_travel(state: State, player: Player, arguments: Arguments) -> Intent:
    target = _destination(state, player, arguments["target_poi"])
    if player.docked_at:
        raise must_undock()
    start = state.world.pois[player.poi_id]
    reach = _REACH_PER_TICK * player.ship.build.speed
    ticks = max(1, math.ceil(start.position.distance(target.position) / reach))
    _check_fuel(player, ticks)
    return Intent(
        {"poi_id": target.id, "fuel": ticks},
        {
            "destination": target.name,
            "destination_id": target.id,
            "ticks": ticks,
            "fuel_cost": ticks,
            "arrival_tick": state.tick + ticks,
        },
        ticks,
    )


def _destination(state: State, player: Player, target_id: str) -> Poi:
    target = state.world.pois.get(target_id)
    if target is None or (target.hidden and target.id not in player.revealed):
        raise GameError("invalid_poi", f"Unknown destination: {target_id}")
    if target.system_id != player.system_id:
        raise GameError(
            "wrong_system",
            f"{target.name} is in another system ({target.system_id}). "
            "Use 'jump' to get there first.",
        )
    if target.id == player.poi_id:
        raise GameError("already_there", f"Already at {target.name}")
    return target


def _depart(state: State, player: Player, arguments: Arguments) -> None:
    player.ship.fuel -= int(arguments["fuel"])
    leave_battle(state, player)
    state.leave(player)


def _finish_travel(state: State, player: Player, arguments: Arguments) -> list[Event]:
    target = state.world.pois[arguments["poi_id"]]
    start = state.world.pois[player.poi_id]
    player.stats["distance_traveled"] += round(start.position.distance(target.position))
    state.arrive(player, target.id)
    pull(state, player)
    teach(state, player, "small_ships", 1)
    return [
        Event(
            {
                "action": "arrived",
                "poi": target.name,
                "poi_id": target.id,
                "online_players": [
                    other.username
                    for other in state.players_at(target.id)
                    if other.id != player.id
                ],
            }
        )
    ]


def _prepare_jump(state: State, player: Player, arguments: Arguments) -> Intent:
    target_id = arguments["target_system"]
    target = state.world.systems.get(target_id)
    if target is None:
        raise unknown_system(target_id)
    here = state.world.systems[player.system_id]
    if target is here:
        raise GameError("already_in_system", f"Already in {here.name}")
    if player.docked_at:
        raise must_undock()
    if target_id not in here.connections:
        raise GameError(
            "not_connected",
            f"{target.name} is not connected to {here.name}. "
            "Use 'find_route' to plan the way.",
        )
    _check_fuel(player, JUMP_FUEL)
    return Intent(
        {"system_id": target_id, "fuel": JUMP_FUEL},
        {
            "destination": target.name,
            "ticks": JUMP_TICKS,
            "fuel_cost": JUMP_FUEL,
            "arrival_tick": state.tick + JUMP_TICKS,
        },
        JUMP_TICKS,
    )


def _finish_jump(state: State, player: Player, arguments: Arguments) -> list[Event]:
    start = state.world.systems[player.system_id]
    target = state.world.systems[arguments["system_id"]]
    arrival = target.pois[0]
    player.stats["distance_traveled"] += round(start.position.distance(target.position))
    state.arrive(player, arrival.id)
    pull(state, player)
    teach(state, player, "navigation", 5)
    explored = target.id not in player.visited
    if explored:
        player.stats["systems_explored"] += 1
        teach(state, player, "exploration", 5)
    player.visited[target.id] = plain(state.sources.now_ns())
    return [
        Event(
            {
                "action": "jumped",
                "from_system": start.id,
                "system": target.name,
                "system_id": target.id,
                "poi": arrival.name,
                "poi_id": arrival.id,
                "exploration_xp": 5 if explored else 0,
                "navigation_xp": 5,
            }
        )
    ]


TRAVEL = Action("travel", _prepare_travel, _finish_travel, _depart, "space")
JUMP = Action("jump", _prepare_jump, _finish_jump, _depart, "space")
