"""refuel and repair."""

from __future__ import annotations

from sandbox.game.actions.action import Action, Arguments, Event, Intent
from sandbox.game.errors import GameError, not_docked_here
from sandbox.game.models import Player
from sandbox.game.state import State

FUEL_PRICE = 1
CELL_FUEL = 10
HULL_PRICE = 2


def _prepare_refuel(state: State, player: Player, arguments: Arguments) -> Intent:
    missing = player.ship.build.fuel - player.ship.fuel
    if not missing:
        raise GameError("fuel_full", "Fuel tank is already full")
    if player.docked_at:
        _check_credits(player, FUEL_PRICE)
        source = "station"
    elif player.ship.cargo.get("fuel_cell"):
        source = "fuel_cells"
    else:
        raise GameError(
            "no_fuel_cells",
            "No fuel cells found in cargo. Buy fuel cells from a market or craft them.",
        )
    return Intent({"source": source}, {"source": source, "message": "Refueling..."})


def _finish_refuel(state: State, player: Player, arguments: Arguments) -> list[Event]:
    ship = player.ship
    missing = ship.build.fuel - ship.fuel
    data: dict[str, object] = {"action": "refuel", "source": arguments["source"]}
    if arguments["source"] == "station":
        added = min(missing, player.credits // FUEL_PRICE)
        player.spend(added * FUEL_PRICE)
        data |= {"fuel": added, "cost": added * FUEL_PRICE}
    else:
        # The last cell is used up even where less than all of it fits.
        cells = min(ship.cargo.get("fuel_cell", 0), -(-missing // CELL_FUEL))
        added = min(missing, cells * CELL_FUEL)
        ship.unload("fuel_cell", cells)
        data |= {"fuel": added, "cells_used": cells}
    ship.fuel += added
    return [Event(data | {"fuel_now": ship.fuel, "fuel_max": ship.build.fuel})]


def _prepare_repair(state: State, player: Player, arguments: Arguments) -> Intent:
    if not player.docked_at:
        raise not_docked_here()
    if player.ship.hull >= player.ship.build.hull:
        raise GameError("hull_full", "Hull is already at full strength")
    _check_credits(player, HULL_PRICE)
    return Intent({}, {"message": "Repairing..."})


def _finish_repair(state: State, player: Player, arguments: Arguments) -> list[Event]:
    ship = player.ship
    repaired = min(ship.build.hull - ship.hull, player.credits // HULL_PRICE)
    player.spend(repaired * HULL_PRICE)
    ship.hull += repaired
    return [
        Event(
            {
                "action": "repair",
                "repaired": repaired,
                "cost": repaired * HULL_PRICE,
                "hull": ship.hull,
                "max_hull": ship.build.hull,
            }
        )
    ]


def _check_credits(player: Player, least: int) -> None:
    if player.credits < least:
        raise GameError(
            "insufficient_credits", f"Need {least} credits. You have {player.credits}."
        )


REFUEL = Action("refuel", _prepare_refuel, _finish_refuel, needs="dock")
REPAIR = Action("repair", _prepare_repair, _finish_repair, needs="dock")
