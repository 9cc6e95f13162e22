"""use_item, reload, cloak and name_ship: what a captain does to the ship itself."""

from __future__ import annotations

from sandbox.game.actions.action import Action, Arguments, Event, Intent
from sandbox.game.actions.goods import named_item
from sandbox.game.catalogue import AMMUNITION, MODULES
from sandbox.game.errors import GameError
from sandbox.game.models import Module, Player
from sandbox.game.state import State

KIT_HULL = 25
CELL_FUEL = 10
LONGEST_NAME = 40


def _prepare_use(state: State, player: Player, arguments: Arguments) -> Intent:
    item, quantity = named_item({"quantity": 1, **arguments})
    have = player.ship.cargo.get(item.id, 0)
    if item.id not in ("repair_kit", "fuel_cell"):
        raise GameError("invalid_item", f"{item.name} cannot be used.")
    if have < quantity:
        raise GameError("insufficient_items", f"You have {have} {item.name}.")
    given = {"item_id": item.id, "quantity": quantity}
    return Intent(given, {**given, "message": f"Using {item.name}..."})


def _finish_use(state: State, player: Player, arguments: Arguments) -> list[Event]:
    _prepare_use(state, player, arguments)
    ship, quantity = player.ship, arguments["quantity"]
    ship.unload(arguments["item_id"], quantity)
    if arguments["item_id"] == "repair_kit":
        ship.hull = min(ship.build.hull, ship.hull + KIT_HULL * quantity)
    else:
        ship.fuel = min(ship.build.fuel, ship.fuel + CELL_FUEL * quantity)
    return [Event({"action": "use_item", **arguments})]


def _weapon(player: Player, arguments: Arguments) -> tuple[Module, str, int]:
    """The weapon, what it is loaded with, and how much it lacks."""
    for module in player.ship.modules:
        if module.id == arguments["weapon_instance_id"]:
            rounds = AMMUNITION.get(module.type_id)
            if rounds is None:
                raise GameError("not_weapon", "This module takes no ammunition.")
            return module, rounds, module.value("magazine_size") - module.ammo
    raise GameError("invalid_weapon", "No such weapon is fitted. Use 'get_ship'.")


def _prepare_reload(state: State, player: Player, arguments: Arguments) -> Intent:
    module, rounds, missing = _weapon(player, arguments)
    if not missing:
        raise GameError("magazine_full", "The magazine is full.")
    if not player.ship.cargo.get(rounds):
        raise GameError("no_ammo", f"There is no {rounds} in your hold.")
    given = {"weapon_instance_id": module.id}
    return Intent(given, {**given, "message": "Reloading..."})


def _finish_reload(state: State, player: Player, arguments: Arguments) -> list[Event]:
    _prepare_reload(state, player, arguments)
    module, rounds, missing = _weapon(player, arguments)
    count = min(missing, player.ship.cargo[rounds])
    player.ship.unload(rounds, count)
    module.ammo += count
    name = MODULES[module.type_id]["name"]
    own = {"action": "reload", "weapon_name": name, "current_ammo": module.ammo}
    return [Event(own)]


def _prepare_cloak(state: State, player: Player, arguments: Arguments) -> Intent:
    enable = arguments.get("enable", True)
    return Intent({"enable": enable}, {"enable": enable, "message": "Cloaking..."})


def _finish_cloak(state: State, player: Player, arguments: Arguments) -> list[Event]:
    player.looks.cloaked = arguments["enable"]
    _look_again(state, player)
    return [Event({"action": "cloak", "cloaked": player.looks.cloaked})]


def _prepare_name(state: State, player: Player, arguments: Arguments) -> Intent:
    name = arguments["name"].strip()
    if not 1 <= len(name) <= LONGEST_NAME:
        raise GameError("invalid_name", f"A name has 1 to {LONGEST_NAME} characters.")
    return Intent({"name": name}, {"name": name, "message": "Painting..."})


def _finish_name(state: State, player: Player, arguments: Arguments) -> list[Event]:
    player.ship.name = arguments["name"]
    _look_again(state, player)
    return [Event({"action": "name_ship", "name": player.ship.name})]


def _look_again(state: State, player: Player) -> None:
    """Tell those who are near that a ship is not as they have seen it (era C)."""
    if state.config.era == "C" and not player.in_transit:
        data = {"tick": state.tick, "poi_id": player.poi_id}
        event = Event(data, "observation_update")
        state.tell_here(player.poi_id, event, but=player.id)


FITTING = (
    Action("use_item", _prepare_use, _finish_use),
    Action("reload", _prepare_reload, _finish_reload),
    Action("cloak", _prepare_cloak, _finish_cloak),
    Action("name_ship", _prepare_name, _finish_name),
)
