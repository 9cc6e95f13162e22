"""jettison and loot_wreck: things put out into space and taken in again."""

from __future__ import annotations

from sandbox.game.actions.action import Action, Arguments, Event, Intent
from sandbox.game.actions.goods import named_item, room_for
from sandbox.game.errors import GameError, must_undock
from sandbox.game.models import Player
from sandbox.game.state import State
from sandbox.game.wrecks import leave_wreck


def _prepare_jettison(state: State, player: Player, arguments: Arguments) -> Intent:
    if player.docked_at:
        raise must_undock()
    item, quantity = named_item(arguments)
    have = player.ship.cargo.get(item.id, 0)
    if have < quantity:
        raise GameError("insufficient_items", f"You have {have} {item.name}.")
    return Intent(
        {"item_id": item.id, "quantity": quantity},
        {"item_id": item.id, "quantity": quantity, "message": "Jettisoning..."},
    )


def _finish_jettison(state: State, player: Player, arguments: Arguments) -> list[Event]:
    item, quantity = named_item(arguments)
    player.ship.unload(item.id, quantity)
    leave_wreck(
        state,
        poi_id=player.poi_id,
        victim=(player.id, player.username),
        ship_class="",
        cargo={item.id: quantity},
    )
    return [
        Event(
            {
                "action": "jettison",
                "item_id": item.id,
                "item_name": item.name,
                "quantity": quantity,
                "cargo_used": player.ship.cargo_used,
                "cargo_space": player.ship.build.cargo,
            }
        )
    ]


def _prepare_loot(state: State, player: Player, arguments: Arguments) -> Intent:
    if player.docked_at:
        raise must_undock()
    item, quantity = named_item(arguments)
    wreck = state.wrecks.get(arguments["wreck_id"])
    if wreck is None or wreck.poi_id != player.poi_id:
        raise GameError("invalid_wreck", "No such wreck here. Use 'get_wrecks'.")
    if not wreck.cargo.get(item.id):
        raise GameError("invalid_item", f"There is no {item.name} in this wreck.")
    room_for(player, item, min(quantity, wreck.cargo[item.id]))
    return Intent(
        {"wreck_id": wreck.id, "item_id": item.id, "quantity": quantity},
        {"wreck_id": wreck.id, "item_id": item.id, "message": "Looting..."},
    )


def _finish_loot(state: State, player: Player, arguments: Arguments) -> list[Event]:
    _prepare_loot(state, player, arguments)
    item, quantity = named_item(arguments)
    wreck = state.wrecks[arguments["wreck_id"]]
    count = min(quantity, wreck.cargo[item.id])
    wreck.cargo[item.id] -= count
    if not wreck.cargo[item.id]:
        del wreck.cargo[item.id]
    if not wreck.cargo:
        del state.wrecks[wreck.id]
    player.ship.load(item.id, count)
    return [
        Event(
            {
                "action": "loot_wreck",
                "wreck_id": wreck.id,
                "item_id": item.id,
                "item_name": item.name,
                "quantity": count,
                "cargo_used": player.ship.cargo_used,
            }
        )
    ]


JETTISON = Action("jettison", _prepare_jettison, _finish_jettison, needs="space")
LOOT_WRECK = Action("loot_wreck", _prepare_loot, _finish_loot, needs="space")
