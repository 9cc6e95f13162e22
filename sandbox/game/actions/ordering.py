"""create_sell_order, create_buy_order, modify_order and cancel_order."""

from __future__ import annotations

from sandbox.game.actions.action import Action, Arguments, Event, Intent
from sandbox.game.actions.docked import base_of, check_credits, serving_base
from sandbox.game.actions.goods import named_item, positive
from sandbox.game.errors import GameError
from sandbox.game.holdings import Order
from sandbox.game.models import Player
from sandbox.game.stamps import rfc3339
from sandbox.game.state import State

MOST_ORDERS = 20


def _fee(price: int, quantity: int) -> int:
    return max(1, price * quantity // 100)


def _prepare(state: State, player: Player, arguments: Arguments, side: str) -> Intent:
    base = serving_base(state, player, "market")
    item, quantity = named_item(arguments)
    price = positive(arguments, "price_each")
    own = [one for one in state.orders.values() if one.player_id == player.id]
    if len(own) >= MOST_ORDERS:
        raise GameError("too_many_orders", f"At most {MOST_ORDERS} orders at a time.")
    fee = _fee(price, quantity)
    if side == "sell":
        have = player.ship.cargo.get(item.id, 0)
        if have < quantity:
            raise GameError("insufficient_items", f"You have {have} {item.name}.")
        check_credits(player, fee)
    elif player.credits < price * quantity + fee:
        raise GameError(
            "insufficient_credits",
            f"Need {price * quantity + fee} credits to escrow. "
            f"You have {player.credits}.",
        )
    given = {"item_id": item.id, "quantity": quantity, "price_each": price}
    return Intent(given, {**given, "base": base.name, "message": "Listing..."})


def _finish(
    state: State, player: Player, arguments: Arguments, side: str
) -> list[Event]:
    given = _prepare(state, player, arguments, side).arguments
    price, quantity = given["price_each"], given["quantity"]
    fee = _fee(price, quantity)
    player.spend(fee)
    if side == "sell":
        player.ship.unload(given["item_id"], quantity)
    else:
        player.spend(price * quantity)
    order = Order(
        id=state.sources.token(16),
        player_id=player.id,
        base_id=base_of(state, player).id,
        side=side,
        remaining=quantity,
        fee=fee,
        created_at=rfc3339(state.sources.now_ns()),
        **given,
    )
    state.orders[order.id] = order
    own = {"action": f"create_{side}_order", "order_id": order.id, "listing_fee": fee}
    return [Event(own | given)]


def _prepare_sell(state: State, player: Player, arguments: Arguments) -> Intent:
    return _prepare(state, player, arguments, "sell")


def _finish_sell(state: State, player: Player, arguments: Arguments) -> list[Event]:
    return _finish(state, player, arguments, "sell")


def _prepare_buy(state: State, player: Player, arguments: Arguments) -> Intent:
    return _prepare(state, player, arguments, "buy")


def _finish_buy(state: State, player: Player, arguments: Arguments) -> list[Event]:
    return _finish(state, player, arguments, "buy")


def _own(state: State, player: Player, arguments: Arguments) -> Order:
    order = state.orders.get(arguments["order_id"])
    if order is None or order.player_id != player.id:
        raise GameError("invalid_order", "No such order. Use 'view_orders'.")
    if order.base_id != base_of(state, player).id:
        raise GameError("wrong_base", "This order stands at another base.")
    return order


def _prepare_modify(state: State, player: Player, arguments: Arguments) -> Intent:
    order = _own(state, player, arguments)
    price = positive(arguments, "new_price")
    if order.side == "buy":
        check_credits(player, (price - order.price_each) * order.remaining)
    given = {"order_id": order.id, "new_price": price}
    return Intent(given, {**given, "message": "Changing..."})


def _finish_modify(state: State, player: Player, arguments: Arguments) -> list[Event]:
    given = _prepare_modify(state, player, arguments).arguments
    order = _own(state, player, arguments)
    more = (given["new_price"] - order.price_each) * order.remaining
    if order.side == "buy":
        player.spend(more)
    order.price_each = given["new_price"]
    return [Event({"action": "modify_order", **given})]


def _prepare_cancel(state: State, player: Player, arguments: Arguments) -> Intent:
    given = {"order_id": _own(state, player, arguments).id}
    return Intent(given, {**given, "message": "Cancelling..."})


def _finish_cancel(state: State, player: Player, arguments: Arguments) -> list[Event]:
    """Goods go back to storage, credits to the purse; the fee is gone."""
    order = _own(state, player, arguments)
    del state.orders[order.id]
    if order.side == "buy":
        player.earn(order.remaining * order.price_each)
    else:
        store = player.stores.setdefault(order.base_id, {})
        store[order.item_id] = store.get(order.item_id, 0) + order.remaining
    return [
        Event(
            {
                "action": "cancel_order",
                "order_id": order.id,
                "item_id": order.item_id,
                "returned": order.remaining,
            }
        )
    ]


ORDERING = (
    Action("create_sell_order", _prepare_sell, _finish_sell, needs="dock"),
    Action("create_buy_order", _prepare_buy, _finish_buy, needs="dock"),
    Action("modify_order", _prepare_modify, _finish_modify, needs="dock"),
    Action("cancel_order", _prepare_cancel, _finish_cancel, needs="dock"),
)
