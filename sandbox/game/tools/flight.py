"""travel, jump, dock, undock and mine: out to the belt and home again."""

from __future__ import annotations

import math

from sandbox.game.config import GameError, Json, make_dice, must_undock
from sandbox.game.sessions import Event
from sandbox.game.tool import text
from sandbox.game.tools.combat import leave_battle
from sandbox.game.tools.rules import Call, Intent, act
from sandbox.game.world.catalogue import ITEMS
from sandbox.game.world.galaxy import Base, Poi

JUMP_TICKS = 2
JUMP_FUEL = 2
_REACH_PER_TICK = 1.5
_NOTHING_HERE = ("no_resources", "Nothing to mine here")
_HOLD_FULL = ("cargo_full", "Cargo hold is full")


def _plan_flight(call: Call, ticks: int, fuel: int) -> Json:
    have, due = call.player.ship.fuel, call.state.tick + ticks
    if have < fuel:
        raise GameError("no_fuel", f"Not enough fuel. Need {fuel}, have {have}.")
    return {"ticks": ticks, "fuel_cost": fuel, "arrival_tick": due}


def _prepare_travel(call: Call) -> Intent:
    player, target = call.player, _find_place(call)
    if player.docked_at:
        raise must_undock()
    start = call.state.world.pois[player.poi_id]
    reach = _REACH_PER_TICK * player.ship.build.speed
    ticks = max(1, math.ceil(start.position.distance(target.position) / reach))
    preview = {"destination": target.name, "destination_id": target.id}
    preview |= _plan_flight(call, ticks, ticks)
    return Intent({"poi_id": target.id, "fuel": ticks}, preview, ticks)


def _find_place(call: Call) -> Poi:
    player, target_id = call.player, call.given["target_poi"]
    target = call.state.world.pois.get(target_id)
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


def _depart(call: Call) -> None:
    call.player.ship.fuel -= int(call.given["fuel"])
    leave_battle(call.state, call.player)
    call.state.leave(call.player)


def _arrive(call: Call, distance: float, place: Poi) -> None:
    state, player = call.state, call.player
    player.stats["distance_traveled"] += round(distance)
    state.arrive(player, place.id)
    wreck = state.wrecks.get(player.towing)
    if wreck is None:
        player.towing = ""
    else:
        wreck.poi_id, wreck.system_id = player.poi_id, player.system_id


def _finish_travel(call: Call) -> list[Event]:
    pois, player = call.state.world.pois, call.player
    start, target = pois[player.poi_id], pois[call.given["poi_id"]]
    _arrive(call, start.position.distance(target.position), target)
    call.teach("small_ships", 1)
    here = call.state.players_at(target.id)
    others = [one.username for one in here if one is not player]
    told = {"action": "arrived", "poi": target.name, "poi_id": target.id}
    return [Event({**told, "online_players": others})]


def _prepare_jump(call: Call) -> Intent:
    target = call.state.world.find_system(call.given["target_system"])
    here = call.state.world.systems[call.player.system_id]
    if target is here:
        raise GameError("already_in_system", f"Already in {here.name}")
    if call.player.docked_at:
        raise must_undock()
    if target.id not in here.connections:
        raise GameError(
            "not_connected",
            f"{target.name} is not connected to {here.name}. "
            "Use 'find_route' to plan the way.",
        )
    flight = _plan_flight(call, JUMP_TICKS, JUMP_FUEL)
    preview = {"destination": target.name, **flight}
    return Intent({"system_id": target.id, "fuel": JUMP_FUEL}, preview, JUMP_TICKS)


def _finish_jump(call: Call) -> list[Event]:
    systems, player = call.state.world.systems, call.player
    start, target = systems[player.system_id], systems[call.given["system_id"]]
    arrival = target.pois[0]
    _arrive(call, start.position.distance(target.position), arrival)
    call.teach("navigation", 5)
    explored = target.id not in player.visited
    if explored:
        player.stats["systems_explored"] += 1
        call.teach("exploration", 5)
    player.visited[target.id] = call.state.plain_now
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


def _prepare_mine(call: Call) -> Intent:
    state, player = call.state, call.player
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
    rng = make_dice(state.config.seed, state.tick, player.username, "mine")
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


def _finish_mine(call: Call) -> list[Event]:
    player, item = call.player, ITEMS[call.given["resource_id"]]
    poi = call.state.world.pois[player.poi_id]
    deposit = next(one for one in poi.deposits if one.resource_id == item.id)
    power = player.ship.total("mining_power")
    room = player.ship.cargo_free // item.size
    if not room:
        raise GameError(*_HOLD_FULL)
    count = min(max(1, power * deposit.richness // 100), room, deposit.remaining)
    if not count:
        raise GameError(*_NOTHING_HERE)
    deposit.remaining -= count
    call.state.mined[poi.id, item.id] = deposit
    player.ship.load(item.id, count)
    player.stats["ore_mined"] += count
    call.teach("mining_basic", count)
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
    act("travel", "navigation", "Travel to another POI in this system.",
        text("target_poi", "The POI's ID, from get_system", "main_belt"),
        notes="You must be undocked.", needs="space",
        steps=(_prepare_travel, _finish_travel, _depart)),
    act("jump", "navigation", "Jump to an adjacent star system.",
        text("target_system", "The system's ID, from get_system", "sol"),
        notes="Takes 2 ticks and 2 fuel. You must be undocked.", needs="space",
        steps=(_prepare_jump, _finish_jump, _depart)),
    act("dock", "navigation", "Dock at the base of this POI.", names=_find_base,
        previews=lambda call: {"base_name": call.thing.name, "base_id": call.thing.id},
        changes=_dock),
    act("undock", "navigation", "Leave the base.",
        unless=((lambda call: not call.player.docked_at, "not_docked", "Not docked"),),
        previews=lambda call: {"message": "Undocking..."},
        changes=lambda call: setattr(call.player, "docked_at", None)),
    act("mine", "mining", "Mine the resources of this POI.",
        notes="Needs a mining laser, room in the hold, and a belt, cloud or field.",
        needs="space", steps=(_prepare_mine, _finish_mine)),
)  # fmt: skip
