"""Standing offers of captains at a base; what one needs is given when it is made."""

from __future__ import annotations

from sandbox.game.config import Json, make_view
from sandbox.game.state import State
from sandbox.game.tool import GOODS
from sandbox.game.tools.rules import (
    DOCKED,
    Call,
    Move,
    act,
    ask,
    pick,
    read_item,
    read_positive,
)
from sandbox.game.views import view_offers
from sandbox.game.world.catalogue import ITEMS
from sandbox.game.world.models import Order

# By item and side.
Offers = dict[tuple[str, str], list[Json]]
_NAMES = make_view("order_id=id order_type=side side item_id")
_PRICES = make_view("price_each quantity remaining")
MOST_ORDERS = 20
TAKEN_AFTER_TICKS = 5


def list_offers(state: State, base_id: str, me: str) -> Offers:
    """What captains offer, as the market lists it."""
    found: Offers = {}
    for order in state.orders.values():
        if order.base_id == base_id:
            view: Json = {"price_each": order.price_each, "quantity": order.remaining}
            view |= {"source": "player"}
            if order.player_id == me:
                view["my_quantity"] = order.remaining
            found.setdefault((order.item_id, order.side), []).append(view)
    return found


def is_fair(order: Order) -> bool:
    """Would anybody trade at this price?"""
    usual = ITEMS[order.item_id].price
    if order.side == "sell":
        return order.price_each <= 2 * usual
    return 2 * order.price_each >= usual


def _view_orders(call: Call) -> Json:
    base_id, me = call.base.id, call.player.id
    own = [
        {
            **_NAMES(each),
            "item_name": ITEMS[each.item_id].name,
            **_PRICES(each),
            "filled_quantity": each.quantity - each.remaining,
            "listing_fee": each.fee,
            "created_at": each.created_at,
        }
        for each in call.state.orders.values()
        if (each.base_id, each.player_id) == (base_id, me)
    ]
    return {"action": "view_orders", "base": call.base.name, "orders": own}


def _get_listings(call: Call) -> Json:
    listed = view_offers(call.state.markets.at(call.base))
    return {"base_id": call.base.id, "listings": listed, "count": len(listed)}


def _estimate_purchase(call: Call) -> Json:
    item, quantity = read_item(call.given)
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


def _worth(call: Call) -> int:
    (quantity,) = call.goods().values()
    return read_positive(call.given, "price_each") * quantity


def _fee(call: Call) -> int:
    return max(1, _worth(call) // 100)


def _has_too_many(call: Call) -> bool:
    own = [one for one in call.state.orders.values() if one.player_id == call.player.id]
    return len(own) >= MOST_ORDERS


def _open(call: Call, side: str) -> Json:
    """Put an order up; at a fair price somebody takes it after some ticks."""
    ((item_id, quantity),) = call.goods().items()
    order = Order(
        id=call.token(),
        player_id=call.player.id,
        base_id=call.base.id,
        side=side,
        item_id=item_id,
        price_each=call.given["price_each"],
        quantity=quantity,
        remaining=quantity,
        fee=_fee(call),
        created_at=call.state.now,
    )
    call.state.orders[order.id] = order
    call.schedule(TAKEN_AFTER_TICKS, "market_update", order.id, quantity)
    return {"order_id": order.id, "listing_fee": order.fee}


_find_own = pick(
    "order_id", lambda call: call.state.orders.values(), "invalid_order",
    "No such order. Use 'view_orders'.",
    fits=lambda call, order: order.player_id == call.player.id)  # fmt: skip
_ELSEWHERE = (
    (lambda call: call.thing.base_id != call.base.id, "wrong_base",
     "This order stands at another base."),
)  # fmt: skip


def _price_rise(call: Call) -> int:
    """What a new price costs more; less than nothing where it costs less."""
    order, price = call.thing, read_positive(call.given, "new_price")
    return (price - order.price_each) * order.remaining if order.side == "buy" else 0


def _list_returned(call: Call) -> dict[str, int]:
    order = call.thing
    return {order.item_id: order.remaining} if order.side == "sell" else {}


def _cancel(call: Call) -> Json:
    del call.state.orders[call.thing.id]
    return {"item_id": call.thing.item_id, "returned": call.thing.remaining}


_ROOM = (
    (_has_too_many, "too_many_orders", f"At most {MOST_ORDERS} orders at a time."),
)

ORDERS = (
    ask("view_orders", "trading", "See your open orders at this base.", _view_orders,
        notes=DOCKED),
    ask("get_listings", "trading", "List what this station sells.", _get_listings,
        notes=DOCKED),
    ask("estimate_purchase", "trading", "See what a purchase would cost.",
        _estimate_purchase, *GOODS, example={"item_id": "fuel_cell", "quantity": 5},
        notes=DOCKED),
    act("create_sell_order", "trading", "Offer items of your hold for sale.", *GOODS,
        "price_each",
        notes="What is earned goes to your storage. A listing fee is due.", where="dock",
        service="market", unless=_ROOM, costs=_fee, moves=(Move(Call.hold, None),),
        changes=lambda call: _open(call, "sell")),
    act("create_buy_order", "trading", "Offer to buy items.", *GOODS, "price_each",
        notes="Credits are escrowed. What is bought goes to your storage.", where="dock",
        service="market", unless=_ROOM, costs=lambda call: _worth(call) + _fee(call),
        changes=lambda call: _open(call, "buy")),
    act("modify_order", "trading", "Change the price of an order.",
        "order_id", "new_price", where="dock", names=_find_own, unless=_ELSEWHERE,
        costs=_price_rise,
        changes=lambda call: setattr(call.thing, "price_each", call.given["new_price"])),
    act("cancel_order", "trading", "Take an order back.",
        "order_id", where="dock", names=_find_own, unless=_ELSEWHERE,
        earns=lambda call: 0 if call.thing.side == "sell"
        else call.thing.remaining * call.thing.price_each,
        moves=(Move(None, Call.store, _list_returned),), changes=_cancel),
)  # fmt: skip
