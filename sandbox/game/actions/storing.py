"""deposit and withdraw: the station's storage of a captain's own goods and credits."""

from __future__ import annotations

from sandbox.game.actions.action import Action, Arguments, Event, Intent
from sandbox.game.actions.goods import named_item, positive, room_for
from sandbox.game.errors import GameError, not_docked_here
from sandbox.game.models import Player
from sandbox.game.state import State


def _base(player: Player) -> str:
    if not player.docked_at:
        raise not_docked_here()
    return player.docked_at


def _prepare_in(state: State, player: Player, arguments: Arguments) -> Intent:
    _base(player)
    item, quantity = named_item(arguments)
    have = player.ship.cargo.get(item.id, 0)
    if have < quantity:
        raise GameError("insufficient_items", f"You have {have} {item.name}.")
    given = {"item_id": item.id, "quantity": quantity}
    return Intent(given, {**given, "message": "Storing..."})


def _finish_in(state: State, player: Player, arguments: Arguments) -> list[Event]:
    _prepare_in(state, player, arguments)
    item, quantity = named_item(arguments)
    store = player.stores.setdefault(_base(player), {})
    player.ship.unload(item.id, quantity)
    store[item.id] = store.get(item.id, 0) + quantity
    return [_moved("deposit_items", player, item.id, quantity)]


def _prepare_out(state: State, player: Player, arguments: Arguments) -> Intent:
    store = player.stores.get(_base(player), {})
    item, quantity = named_item(arguments)
    if store.get(item.id, 0) < quantity:
        raise GameError(
            "insufficient_items",
            f"There are {store.get(item.id, 0)} {item.name} in storage.",
        )
    room_for(player, item, quantity)
    given = {"item_id": item.id, "quantity": quantity}
    return Intent(given, {**given, "message": "Fetching..."})


def _finish_out(state: State, player: Player, arguments: Arguments) -> list[Event]:
    _prepare_out(state, player, arguments)
    item, quantity = named_item(arguments)
    store = player.stores[_base(player)]
    store[item.id] -= quantity
    if not store[item.id]:
        del store[item.id]
    player.ship.load(item.id, quantity)
    return [_moved("withdraw_items", player, item.id, quantity)]


def _moved(action: str, player: Player, item_id: str, quantity: int) -> Event:
    return Event(
        {
            "action": action,
            "item_id": item_id,
            "quantity": quantity,
            "cargo_used": player.ship.cargo_used,
        }
    )


def _prepare_save(state: State, player: Player, arguments: Arguments) -> Intent:
    _base(player)
    amount = positive(arguments, "amount")
    if amount > player.credits:
        raise GameError(
            "insufficient_credits", f"Need {amount} credits. You have {player.credits}."
        )
    return Intent({"amount": amount}, {"amount": amount, "message": "Storing..."})


def _finish_save(state: State, player: Player, arguments: Arguments) -> list[Event]:
    _prepare_save(state, player, arguments)
    return [_booked("deposit_credits", player, -int(arguments["amount"]))]


def _prepare_fetch(state: State, player: Player, arguments: Arguments) -> Intent:
    saved = player.saved_credits.get(_base(player), 0)
    amount = positive(arguments, "amount")
    if amount > saved:
        raise GameError("insufficient_credits", f"There are {saved} credits stored.")
    return Intent({"amount": amount}, {"amount": amount, "message": "Fetching..."})


def _finish_fetch(state: State, player: Player, arguments: Arguments) -> list[Event]:
    _prepare_fetch(state, player, arguments)
    return [_booked("withdraw_credits", player, int(arguments["amount"]))]


def _booked(action: str, player: Player, change: int) -> Event:
    base = _base(player)
    player.credits += change
    player.saved_credits[base] = player.saved_credits.get(base, 0) - change
    return Event(
        {
            "action": action,
            "amount": abs(change),
            "credits": player.credits,
            "stored_credits": player.saved_credits[base],
        }
    )


STORING = (
    Action("deposit_items", _prepare_in, _finish_in, needs="dock"),
    Action("withdraw_items", _prepare_out, _finish_out, needs="dock"),
    Action("deposit_credits", _prepare_save, _finish_save, needs="dock"),
    Action("withdraw_credits", _prepare_fetch, _finish_fetch, needs="dock"),
)
