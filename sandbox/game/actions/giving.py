"""send_gift: goods for another captain's storage at the same base."""

from __future__ import annotations

from sandbox.game.actions.action import Action, Arguments, Event, Intent
from sandbox.game.actions.docked import base_of
from sandbox.game.actions.goods import named_item
from sandbox.game.errors import GameError
from sandbox.game.models import Player
from sandbox.game.state import State


def _prepare(state: State, player: Player, arguments: Arguments) -> Intent:
    base_of(state, player)
    name = arguments["recipient"].strip().casefold()
    other = state.players.get(state.usernames.get(name, ""))
    if other is None or other is player:
        raise GameError("invalid_target", "No such captain.")
    item, quantity = named_item(arguments)
    have = player.ship.cargo.get(item.id, 0)
    if have < quantity:
        raise GameError("insufficient_items", f"You have {have} {item.name}.")
    given = {"recipient": other.username, "item_id": item.id, "quantity": quantity}
    return Intent(given, {**given, "message": "Wrapping..."})


def _finish(state: State, player: Player, arguments: Arguments) -> list[Event]:
    given = _prepare(state, player, arguments).arguments
    other = state.players[state.usernames[given["recipient"].casefold()]]
    player.ship.unload(given["item_id"], given["quantity"])
    store = other.stores.setdefault(base_of(state, player).id, {})
    store[given["item_id"]] = store.get(given["item_id"], 0) + given["quantity"]
    return [Event({"action": "send_gift", **given})]


SEND_GIFT = Action("send_gift", _prepare, _finish, needs="dock")
