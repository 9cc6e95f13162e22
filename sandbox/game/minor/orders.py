"""Standing offers of captains at a base; what one needs is given when it is made."""

from __future__ import annotations

from sandbox.game.actions.action import Call, named_item, positive
from sandbox.game.config import GameError, rfc3339
from sandbox.game.minor.row import (
    AWAY,
    DOCK,
    DOCKED,
    GOODS,
    HOLD,
    STORE,
    Deed,
    Json,
    Move,
    Takes,
    act,
    ask,
    named,
)
from sandbox.game.state import State
from sandbox.game.tool import MOST_QUANTITY, Parameter, text
from sandbox.game.views import offers_view
from sandbox.game.world.catalogue import ITEMS
from sandbox.game.world.models import Order

MOST_ORDERS = 20
TAKEN_AFTER_TICKS = 5


def orders_at(state: State, base_id: str) -> list[Order]:
    """The open orders of a base, the oldest first."""
    return [one for one in state.orders.values() if one.base_id == base_id]


def offers_of(state: State, base_id: str, me: str) -> dict[tuple[str, str], list[Json]]:
    """What captains offer, by item and side, as the market lists it."""
    found: dict[tuple[str, str], list[Json]] = {}
    for order in orders_at(state, base_id):
        own = {"my_quantity": order.remaining} if order.player_id == me else {}
        found.setdefault((order.item_id, order.side), []).append(
            {
                "price_each": order.price_each,
                "quantity": order.remaining,
                "source": "player",
                **own,
            }
        )
    return found


def is_fair(order: Order) -> bool:
    """Would anybody trade at this price?"""
    usual = ITEMS[order.item_id].price
    if order.side == "sell":
        return order.price_each <= 2 * usual
    return 2 * order.price_each >= usual


def _view_orders(call: Call) -> Json:
    own = [
        _order_view(one)
        for one in orders_at(call.state, call.base.id)
        if one.player_id == call.player.id
    ]
    return {"action": "view_orders", "base": call.base.name, "orders": own}


def _order_view(order: Order) -> Json:
    return {
        "order_id": order.id,
        "order_type": order.side,
        "side": order.side,
        "item_id": order.item_id,
        "item_name": ITEMS[order.item_id].name,
        "price_each": order.price_each,
        "quantity": order.quantity,
        "remaining": order.remaining,
        "filled_quantity": order.quantity - order.remaining,
        "listing_fee": order.fee,
        "created_at": order.created_at,
    }


def _get_listings(call: Call) -> Json:
    """The seed era's list of what a station sells."""
    listed = offers_view(call.state.markets.at(call.base))
    return {"base_id": call.base.id, "listings": listed, "count": len(listed)}


def _estimate_purchase(call: Call) -> Json:
    item, quantity = named_item(call.arguments)
    shelf = call.state.markets.at(call.base).shelves[item.id]
    count = min(quantity, shelf.stock)
    return {
        "action": "estimate_purchase",
        "item": item.name,
        "item_id": item.id,
        "quantity": count,
        "unfilled": quantity - count,
        "total_cost": count * shelf.asked,
    }


def _worth(deed: Deed) -> int:
    (quantity,) = named(deed).values()
    return positive(deed.given, "price_each") * quantity


def _fee(deed: Deed) -> int:
    return max(1, _worth(deed) // 100)


def _too_many(deed: Deed) -> bool:
    own = [one for one in deed.state.orders.values() if one.player_id == deed.player.id]
    return len(own) >= MOST_ORDERS


def _open(deed: Deed, side: str) -> Json:
    """Put an order up; at a fair price somebody takes it after some ticks."""
    ((item_id, quantity),) = named(deed).items()
    order = Order(
        id=deed.state.sources.token(16),
        player_id=deed.player.id,
        base_id=deed.base.id,
        side=side,
        item_id=item_id,
        price_each=deed.given["price_each"],
        quantity=quantity,
        remaining=quantity,
        fee=_fee(deed),
        created_at=rfc3339(deed.state.sources.now_ns()),
    )
    deed.state.orders[order.id] = order
    deed.later(TAKEN_AFTER_TICKS, "market_update", order.id, quantity)
    return {"order_id": order.id, "listing_fee": order.fee}


def _own(deed: Deed) -> Order:
    order = deed.state.orders.get(deed.given["order_id"])
    if order is None or order.player_id != deed.player.id:
        raise GameError("invalid_order", "No such order. Use 'view_orders'.")
    if order.base_id != deed.base.id:
        raise GameError("wrong_base", "This order stands at another base.")
    return order


def _dearer(deed: Deed) -> int:
    """What a new price costs more; less than nothing where it costs less."""
    order, price = deed.thing, positive(deed.given, "new_price")
    return (price - order.price_each) * order.remaining if order.side == "buy" else 0


def _reprice(deed: Deed) -> None:
    deed.thing.price_each = deed.given["new_price"]


def _returned(deed: Deed) -> dict[str, int]:
    order = deed.thing
    return {order.item_id: order.remaining} if order.side == "sell" else {}


def _escrowed(deed: Deed) -> int:
    order: Order = deed.thing
    return order.remaining * order.price_each if order.side == "buy" else 0


def _cancel(deed: Deed) -> Json:
    del deed.state.orders[deed.thing.id]
    return {"item_id": deed.thing.item_id, "returned": deed.thing.remaining}


def _amount(name: str) -> Parameter:
    words = "Credits for one"
    return Parameter(name, "integer", words, own_error=True, most=MOST_QUANTITY)


_OFFER = Takes(
    (*GOODS.parameters, _amount("price_each")),
    {"item_id": "ore_iron", "quantity": 10, "price_each": 6},
)
_ORDER = text("order_id", "The order's ID, from view_orders")
_ROOM = ((_too_many, "too_many_orders", f"At most {MOST_ORDERS} orders at a time."),)

ORDERS = (
    ask("view_orders", "trading", "See your open orders at this base.", _view_orders,
        notes=DOCKED),
    ask("get_listings", "trading", "List what this station sells.", _get_listings,
        notes=DOCKED),
    ask("estimate_purchase", "trading", "See what a purchase would cost.",
        _estimate_purchase,
        Takes(GOODS.parameters, {"item_id": "fuel_cell", "quantity": 5}), notes=DOCKED),
    act("create_sell_order", "trading", "Offer items of your hold for sale.", _OFFER,
        notes="What is earned goes to your storage. A listing fee is due.", where=DOCK,
        service="market", unless=_ROOM, costs=_fee, moves=(Move(HOLD, AWAY),),
        changes=lambda deed: _open(deed, "sell")),
    act("create_buy_order", "trading", "Offer to buy items.", _OFFER,
        notes="Credits are escrowed. What is bought goes to your storage.", where=DOCK,
        service="market", unless=_ROOM, costs=lambda deed: _worth(deed) + _fee(deed),
        changes=lambda deed: _open(deed, "buy")),
    act("modify_order", "trading", "Change the price of an order.",
        Takes((_ORDER, _amount("new_price")), {"order_id": "order_id", "new_price": 7}),
        where=DOCK, names=_own, costs=_dearer, changes=_reprice),
    act("cancel_order", "trading", "Take an order back.",
        Takes((_ORDER,), {"order_id": "order_id"}), where=DOCK, names=_own,
        earns=_escrowed, moves=(Move(AWAY, STORE, _returned),), changes=_cancel),
)  # fmt: skip
