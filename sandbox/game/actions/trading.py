"""buy and sell at a station's market."""

from __future__ import annotations

from sandbox.game.actions.action import Action, Arguments, Event, Intent
from sandbox.game.catalogue import Item, find_item
from sandbox.game.errors import GameError, not_docked_here, unknown_item
from sandbox.game.learning import teach
from sandbox.game.markets import Shelf
from sandbox.game.models import Player
from sandbox.game.state import State

_NOT_SOLD = (
    "No one is selling {name} at this station. To place a standing buy order, use: "
    '{{"type": "create_buy_order", "payload": {{"item_id": "{id}", '
    '"quantity": {quantity}, "price_each": <your_price>}}}}. '
    "Credits are escrowed immediately; when a seller fills your order, "
    "items are delivered to your station storage."
)


def _request(player: Player, arguments: Arguments) -> tuple[Item, int]:
    """Read the item and the quantity of an order."""
    if not player.docked_at:
        raise not_docked_here()
    given = arguments.get("item_id", "")
    item = find_item(given)
    if item is None:
        raise unknown_item(given)
    quantity = arguments.get("quantity", 0)
    if quantity < 1:
        raise GameError(
            "invalid_quantity", "Quantity must be at least 1. Use 'quantity'."
        )
    return item, quantity


def _shelf(state: State, player: Player, item_id: str) -> Shelf:
    if not player.docked_at:
        raise not_docked_here()
    base = state.world.bases[player.docked_at]
    return state.markets.at(base).shelves[item_id]


def _prepare_buy(state: State, player: Player, arguments: Arguments) -> Intent:
    item, quantity = _request(player, arguments)
    shelf = _shelf(state, player, item.id)
    _check_buy(player, item, shelf, quantity)
    return Intent(
        {"item_id": item.id, "quantity": quantity},
        {
            "item_id": item.id,
            "item": item.name,
            "quantity": quantity,
            "price_each": shelf.asked,
            "message": f"Buying {quantity} {item.name}",
        },
    )


def _check_buy(player: Player, item: Item, shelf: Shelf, quantity: int) -> int:
    """Check stock, money and room; gives how many can be had."""
    if not shelf.stock:
        raise GameError(
            "item_not_available",
            _NOT_SOLD.format(name=item.name, id=item.id, quantity=quantity),
        )
    count = min(quantity, shelf.stock)
    cost = count * shelf.asked
    if cost > player.credits:
        raise GameError(
            "insufficient_credits", f"Need {cost} credits. You have {player.credits}."
        )
    room = count * item.size
    if room > player.ship.cargo_free:
        raise GameError(
            "no_cargo_space",
            f"Not enough cargo space. Need {room}, have {player.ship.cargo_free}.",
        )
    return count


def _finish_buy(state: State, player: Player, arguments: Arguments) -> list[Event]:
    item, quantity = _request(player, arguments)
    shelf = _shelf(state, player, item.id)
    count = _check_buy(player, item, shelf, quantity)
    cost = count * shelf.asked
    shelf.stock -= count
    player.spend(cost)
    player.ship.load(item.id, count)
    data = {
        "action": "buy",
        "item": item.name,
        "item_id": item.id,
        "quantity": count,
        "total_cost": cost,
        **({"unfilled": quantity - count} if count < quantity else {}),
        "delivered_to_cargo": count,
        "fills": [_fill(count, shelf.asked)],
        **_traded(state, player, cost),
        "message": f"Bought {count} {item.name} for {cost}cr.",
    }
    return [Event(data)]


def _prepare_sell(state: State, player: Player, arguments: Arguments) -> Intent:
    item, quantity = _request(player, arguments)
    have = player.ship.cargo.get(item.id, 0)
    if have < quantity:
        raise GameError(
            "insufficient_items",
            f"Not enough {item.name} in cargo. "
            f"You have {have} but tried to sell {quantity}.",
        )
    return Intent(
        {"item_id": item.id, "quantity": quantity},
        {
            "item_id": item.id,
            "item": item.name,
            "quantity": quantity,
            "price_each": _shelf(state, player, item.id).paid,
            "message": f"Selling {quantity} {item.name}",
        },
    )


def _finish_sell(state: State, player: Player, arguments: Arguments) -> list[Event]:
    item, quantity = _request(player, arguments)
    shelf = _shelf(state, player, item.id)
    count = min(quantity, shelf.wanted)
    earned = count * shelf.paid
    left = quantity - count
    if count:
        shelf.wanted -= count
        shelf.stock += count
        player.ship.unload(item.id, count)
        player.earn(earned)
    note = f" {left} unsold (no buyers)." if left else ""
    data = {
        "action": "sell",
        "item": item.name,
        "item_id": item.id,
        "quantity_sold": count,
        "total_earned": earned,
        **({"unsold": left} if left else {}),
        "fills": [_fill(count, shelf.paid)] if count else [],
        **_traded(state, player, earned),
        "message": f"Sold {count} {item.name} for {earned}cr.{note}",
    }
    return [Event(data)]


def _fill(count: int, price: int) -> dict[str, object]:
    return {
        "quantity": count,
        "price_each": price,
        "subtotal": count * price,
        "source": "station",
    }


def _traded(state: State, player: Player, worth: int) -> dict[str, object]:
    """Count a trade and learn from it."""
    if player.docked_at:
        state.markets.touch(player.docked_at)
    if not worth:
        return {"level_up": False}
    xp = 1 + worth // 50
    player.stats["trades_completed"] += 1
    return {"level_up": teach(state, player, "trading", xp), "xp_gained": xp}


BUY = Action("buy", _prepare_buy, _finish_buy, needs="dock")
SELL = Action("sell", _prepare_sell, _finish_sell, needs="dock")
