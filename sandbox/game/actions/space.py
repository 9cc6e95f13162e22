"""travel, jump, dock, undock and mine: out to the belt and home again."""

from __future__ import annotations

import math

from sandbox.game.actions.action import Action, Call, Intent, act, teach
from sandbox.game.actions.damage import leave_battle
from sandbox.game.config import GameError, Json, dice, must_undock, plain
from sandbox.game.sessions import Event
from sandbox.game.state import State
from sandbox.game.tool import Tool, text
from sandbox.game.world.catalogue import ITEMS
from sandbox.game.world.models import Player
from sandbox.game.world.places import Base, Poi

JUMP_TICKS = 2
JUMP_FUEL = 2
_REACH_PER_TICK = 1.5
_NOTHING_HERE = ("no_resources", "Nothing to mine here")
_HOLD_FULL = ("cargo_full", "Cargo hold is full")


def _check_fuel(player: Player, needed: int) -> None:
    if player.ship.fuel < needed:
        raise GameError(
            "no_fuel", f"Not enough fuel. Need {needed}, have {player.ship.fuel}."
        )


def _preview_flight(state: State, ticks: int, fuel: int) -> Json:
    return {"ticks": ticks, "fuel_cost": fuel, "arrival_tick": state.tick + ticks}


def _prepare_travel(state: State, player: Player, given: Json) -> Intent:
    target = _find_place(state, player, given["target_poi"])
    if player.docked_at:
        raise must_undock()
    start = state.world.pois[player.poi_id]
    reach = _REACH_PER_TICK * player.ship.build.speed
    ticks = max(1, math.ceil(start.position.distance(target.position) / reach))
    _check_fuel(player, ticks)
    preview = {"destination": target.name, "destination_id": target.id}
    preview |= _preview_flight(state, ticks, ticks)
    return Intent({"poi_id": target.id, "fuel": ticks}, preview, ticks)


def _find_place(state: State, player: Player, target_id: str) -> Poi:
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


def _depart(state: State, player: Player, given: Json) -> None:
    player.ship.fuel -= int(given["fuel"])
    leave_battle(state, player)
    state.leave(player)


def _arrive(state: State, player: Player, distance: float, place: Poi) -> None:
    player.stats["distance_traveled"] += round(distance)
    state.arrive(player, place.id)
    wreck = state.wrecks.get(player.towing)
    if wreck is None:
        player.towing = ""
    else:
        wreck.poi_id, wreck.system_id = player.poi_id, player.system_id


def _finish_travel(state: State, player: Player, given: Json) -> list[Event]:
    target = state.world.pois[given["poi_id"]]
    start = state.world.pois[player.poi_id]
    _arrive(state, player, start.position.distance(target.position), target)
    teach(state, player, "small_ships", 1)
    others = [one.username for one in state.players_at(target.id) if one is not player]
    told = {"action": "arrived", "poi": target.name, "poi_id": target.id}
    return [Event({**told, "online_players": others})]


def _prepare_jump(state: State, player: Player, given: Json) -> Intent:
    target = state.world.find_system(given["target_system"])
    here = state.world.systems[player.system_id]
    if target is here:
        raise GameError("already_in_system", f"Already in {here.name}")
    if player.docked_at:
        raise must_undock()
    if target.id not in here.connections:
        raise GameError(
            "not_connected",
            f"{target.name} is not connected to {here.name}. "
            "Use 'find_route' to plan the way.",
        )
    _check_fuel(player, JUMP_FUEL)
    flight = _preview_flight(state, JUMP_TICKS, JUMP_FUEL)
    preview = {"destination": target.name, **flight}
    return Intent({"system_id": target.id, "fuel": JUMP_FUEL}, preview, JUMP_TICKS)


def _finish_jump(state: State, player: Player, given: Json) -> list[Event]:
    start = state.world.systems[player.system_id]
    target = state.world.systems[given["system_id"]]
    arrival = target.pois[0]
    _arrive(state, player, start.position.distance(target.position), arrival)
    teach(state, player, "navigation", 5)
    explored = target.id not in player.visited
    if explored:
        player.stats["systems_explored"] += 1
        teach(state, player, "exploration", 5)
    player.visited[target.id] = plain(state.sources.now_ns())
    told = {
        "action": "jumped",
        "from_system": start.id,
        "system": target.name,
        "system_id": target.id,
        "poi": arrival.name,
        "poi_id": arrival.id,
        "exploration_xp": 5 if explored else 0,
        "navigation_xp": 5,
    }
    return [Event(told)]


def _find_base(call: Call) -> Base:
    if call.player.docked_at:
        raise GameError("already_docked", "Already docked")
    base = call.state.world.pois[call.player.poi_id].base
    if base is None:
        raise GameError("no_base", "No base at this location")
    return base


def _dock(call: Call) -> Json:
    call.player.docked_at, call.player.target_id = call.thing.id, None
    return {"base": call.thing.name, "base_id": call.thing.id}


def _prepare_mine(state: State, player: Player, given: Json) -> Intent:
    if player.docked_at:
        raise must_undock()
    power = player.ship.total("mining_power")
    if not power:
        raise GameError("no_mining_laser", "No mining laser fitted")
    places = state.world.pois[player.poi_id].deposits
    deposits = [deposit for deposit in places if deposit.remaining]
    if not deposits:
        raise GameError(*_NOTHING_HERE)
    # Rich deposits are met more often.
    rng = dice(state.config.seed, state.tick, player.username, "mine")
    deposit = rng.choices(deposits, [deposit.richness for deposit in deposits])[0]
    item = ITEMS[deposit.resource_id]
    if player.ship.cargo_free < item.size:
        raise GameError(*_HOLD_FULL)
    preview = {
        "resource_id": item.id,
        "resource_name": item.name,
        "mining_power": power,
        "message": f"Mining {item.name} with power {power}",
    }
    return Intent({"resource_id": item.id}, preview)


def _finish_mine(state: State, player: Player, given: Json) -> list[Event]:
    item = ITEMS[given["resource_id"]]
    poi = state.world.pois[player.poi_id]
    deposit = next(one for one in poi.deposits if one.resource_id == item.id)
    power = player.ship.total("mining_power")
    room = player.ship.cargo_free // item.size
    if not room:
        raise GameError(*_HOLD_FULL)
    count = min(max(1, power * deposit.richness // 100), room, deposit.remaining)
    if not count:
        raise GameError(*_NOTHING_HERE)
    deposit.remaining -= count
    state.mined[poi.id, item.id] = deposit
    player.ship.load(item.id, count)
    player.stats["ore_mined"] += count
    teach(state, player, "mining_basic", count)
    player.advance_missions("mine_resource", item.id, count)
    told = {
        "resource_id": item.id,
        "resource_name": item.name,
        "quantity": count,
        "remaining": deposit.remaining,
        "remaining_display": f"{deposit.remaining} units",
        "max_remaining": deposit.max_remaining,
        "xp_gained": count,
    }
    return [Event(told, "mining_yield")]


ACTIONS = (
    Action(
        Tool("travel", "navigation", "Travel to another POI in this system.",
             (text("target_poi", "The POI's ID, from get_system"),),
             {"target_poi": "main_belt"}, "You must be undocked.", mutation=True),
        _prepare_travel, _finish_travel, _depart, "space"),
    Action(
        Tool("jump", "navigation", "Jump to an adjacent star system.",
             (text("target_system", "The system's ID, from get_system"),),
             {"target_system": "sol"},
             "Takes 2 ticks and 2 fuel. You must be undocked.", mutation=True),
        _prepare_jump, _finish_jump, _depart, "space"),
    act("dock", "navigation", "Dock at the base of this POI.", names=_find_base,
        previews=lambda call: {"base_name": call.thing.name, "base_id": call.thing.id},
        changes=_dock),
    act("undock", "navigation", "Leave the base.",
        unless=((lambda call: not call.player.docked_at, "not_docked", "Not docked"),),
        previews=lambda call: {"message": "Undocking..."},
        changes=lambda call: setattr(call.player, "docked_at", None)),
    Action(
        Tool("mine", "mining", "Mine the resources of this POI.",
             notes="Needs a mining laser, room in the hold, and a belt, cloud or field.",
             mutation=True), _prepare_mine, _finish_mine, needs="space"),
)  # fmt: skip
