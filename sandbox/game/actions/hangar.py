"""buy_ship, sell_ship and switch_ship: the ships that a captain keeps at bases."""

from __future__ import annotations

from sandbox.game.actions.action import Action, Arguments, Event, Intent
from sandbox.game.actions.docked import base_of, check_credits, serving_base
from sandbox.game.catalogue import SHIP_CLASSES, STARTER, ShipClass
from sandbox.game.errors import GameError
from sandbox.game.models import Player, Ship
from sandbox.game.shipyard import new_ship
from sandbox.game.state import State

MOST_SHIPS = 5
BUILD_SHARE = 2
"""A used ship is bought back at one part in so many of its price."""


def on_sale(state: State, player: Player, arguments: Arguments) -> ShipClass:
    """The class that is wanted. Raises GameError where it cannot be had here."""
    serving_base(state, player, "shipyard")
    build = SHIP_CLASSES.get(arguments["ship_class"])
    if build is None or build is STARTER:
        raise GameError("invalid_ship_class", "Unknown ship class. Use 'get_ships'.")
    if len(player.hangar) >= MOST_SHIPS:
        raise GameError("hangar_full", f"At most {MOST_SHIPS} ships can be kept.")
    check_credits(player, build.price)
    return build


def _prepare_buy(state: State, player: Player, arguments: Arguments) -> Intent:
    build = on_sale(state, player, arguments)
    given = {"ship_class": build.id}
    return Intent(given, {**given, "price": build.price, "message": "Buying..."})


def _finish_buy(state: State, player: Player, arguments: Arguments) -> list[Event]:
    build = on_sale(state, player, arguments)
    player.spend(build.price)
    ship = new_ship(state, player.id, build)
    ship.base_id = base_of(state, player).id
    player.hangar.append(ship)
    own = {"action": "buy_ship", "ship_id": ship.id, "ship_class": build.id}
    return [Event(own | {"price": build.price})]


def _kept(state: State, player: Player, arguments: Arguments) -> Ship:
    base = base_of(state, player)
    for ship in player.hangar:
        if ship.id == arguments["ship_id"] and ship.base_id == base.id:
            return ship
    raise GameError("invalid_ship", "No such ship is kept here. Use 'list_ships'.")


def _prepare_kept(state: State, player: Player, arguments: Arguments) -> Intent:
    given = {"ship_id": _kept(state, player, arguments).id}
    return Intent(given, {**given, "message": "The dock crew is on its way."})


def _finish_switch(state: State, player: Player, arguments: Arguments) -> list[Event]:
    ship = _kept(state, player, arguments)
    player.hangar.remove(ship)
    player.hangar.append(player.ship)
    player.ship.base_id, ship.base_id = ship.base_id, ""
    player.ship = ship
    own = {"action": "switch_ship", "ship_id": ship.id, "ship_class": ship.class_id}
    return [Event(own)]


def _finish_sell(state: State, player: Player, arguments: Arguments) -> list[Event]:
    ship = _kept(state, player, arguments)
    player.hangar.remove(ship)
    worth = ship.build.price // BUILD_SHARE
    player.earn(worth)
    return [Event({"action": "sell_ship", "ship_id": ship.id, "credits": worth})]


HANGAR = (
    Action("buy_ship", _prepare_buy, _finish_buy, needs="dock"),
    Action("switch_ship", _prepare_kept, _finish_switch, needs="dock"),
    Action("sell_ship", _prepare_kept, _finish_sell, needs="dock"),
)
