"""What a station trades, fills and repairs, and the standing offers of captains there."""

from __future__ import annotations

from sandbox.game.config import GameError, Json, make_view
from sandbox.game.sessions import Event
from sandbox.game.state import State
from sandbox.game.tool import GOODS
from sandbox.game.tools.rules import (
    DOCKED,
    Call,
    Intent,
    Move,
    act,
    ask,
    check_credits,
    check_room,
    pick,
    read_item,
    read_positive,
)
from sandbox.game.views import view_offers
from sandbox.game.world.catalogue import ITEMS, Item
from sandbox.game.world.markets import Shelf
from sandbox.game.world.models import Order, Player

# --- The station

FUEL_PRICE = 1
CELL_FUEL = 10
HULL_PRICE = 2
_NOT_SOLD = (
    "No one is selling {name} at this station. To place a standing buy order, use: "
    '{{"type": "create_buy_order", "payload": {{"item_id": "{id}", '
    '"quantity": {quantity}, "price_each": <your_price>}}}}. '
    "Credits are escrowed immediately; when a seller fills your order, "
    "items are delivered to your station storage."
)


def _read_trade(call: Call) -> tuple[Item, int, Shelf]:
    base = call.base
    item, quantity = read_item(call.given)
    return item, quantity, call.state.markets.at(base).shelves[item.id]


def _preview(verb: str, item: Item, quantity: int, price: int) -> Intent:
    arguments = {"item_id": item.id, "quantity": quantity}
    preview = {
        "item_id": item.id,
        "item": item.name,
        "quantity": quantity,
        "price_each": price,
        "message": f"{verb} {quantity} {item.name}",
    }
    return Intent(arguments, preview)


def _prepare_buy(call: Call) -> Intent:
    item, quantity, shelf = _read_trade(call)
    _check_buy(call.player, item, shelf, quantity)
    return _preview("Buying", item, quantity, shelf.asked)


def _check_buy(player: Player, item: Item, shelf: Shelf, quantity: int) -> int:
    if not shelf.stock:
        raise GameError(
            "item_not_available",
            _NOT_SOLD.format(name=item.name, id=item.id, quantity=quantity),
        )
    count = min(quantity, shelf.stock)
    check_credits(player, count * shelf.asked)
    check_room(player, {item.id: count})
    return count


def _finish_buy(call: Call) -> list[Event]:
    item, quantity, shelf = _read_trade(call)
    count = _check_buy(call.player, item, shelf, quantity)
    cost = count * shelf.asked
    shelf.stock -= count
    call.player.spend(cost)
    call.player.ship.load(item.id, count)
    data = {
        "action": "buy",
        "item": item.name,
        "item_id": item.id,
        "quantity": count,
        "total_cost": cost,
        **({"unfilled": quantity - count} if count < quantity else {}),
        "delivered_to_cargo": count,
        "fills": [_fill(count, shelf.asked)],
        **_count_trade(call, cost),
        "message": f"Bought {count} {item.name} for {cost}cr.",
    }
    return [Event(data)]


def _prepare_sell(call: Call) -> Intent:
    item, quantity, shelf = _read_trade(call)
    have = call.hold().get(item.id, 0)
    if have < quantity:
        raise GameError(
            "insufficient_items",
            f"Not enough {item.name} in cargo. "
            f"You have {have} but tried to sell {quantity}.",
        )
    return _preview("Selling", item, quantity, shelf.paid)


def _finish_sell(call: Call) -> list[Event]:
    item, quantity, shelf = _read_trade(call)
    count = min(quantity, shelf.wanted)
    earned = count * shelf.paid
    left = quantity - count
    if count:
        shelf.wanted -= count
        shelf.stock += count
        call.player.ship.load(item.id, -count)
        call.player.earn(earned)
    note = f" {left} unsold (no buyers)." if left else ""
    data = {
        "action": "sell",
        "item": item.name,
        "item_id": item.id,
        "quantity_sold": count,
        "total_earned": earned,
        **({"unsold": left} if left else {}),
        "fills": [_fill(count, shelf.paid)] if count else [],
        **_count_trade(call, earned),
        "message": f"Sold {count} {item.name} for {earned}cr.{note}",
    }
    return [Event(data)]


def _fill(count: int, price: int) -> Json:
    return {
        "quantity": count,
        "price_each": price,
        "subtotal": count * price,
        "source": "station",
    }


def _count_trade(call: Call, worth: int) -> Json:
    call.state.markets.touch(call.base.id)
    if not worth:
        return {"level_up": False}
    xp = 1 + worth // 50
    call.player.stats["trades_completed"] += 1
    return {"level_up": call.teach("trading", xp), "xp_gained": xp}


def _prepare_refuel(call: Call) -> Intent:
    player = call.player
    if player.ship.fuel == player.ship.build.fuel:
        raise GameError("fuel_full", "Fuel tank is already full")
    if player.docked_at:
        check_credits(player, FUEL_PRICE)
        source = "station"
    elif player.ship.cargo.get("fuel_cell"):
        source = "fuel_cells"
    else:
        raise GameError(
            "no_fuel_cells",
            "No fuel cells found in cargo. Buy fuel cells from a market or craft them.",
        )
    return Intent({"source": source}, {"source": source, "message": "Refueling..."})


def _finish_refuel(call: Call) -> list[Event]:
    player, ship, source = call.player, call.player.ship, call.given["source"]
    missing = ship.build.fuel - ship.fuel
    data: Json = {"action": "refuel", "source": source}
    if source == "station":
        added = min(missing, player.credits // FUEL_PRICE)
        player.spend(added * FUEL_PRICE)
        data |= {"fuel": added, "cost": added * FUEL_PRICE}
    else:
        # The last cell is used up even where less than all of it fits.
        cells = min(ship.cargo.get("fuel_cell", 0), -(-missing // CELL_FUEL))
        added = min(missing, cells * CELL_FUEL)
        ship.load("fuel_cell", -cells)
        data |= {"fuel": added, "cells_used": cells}
    ship.fuel += added
    return [Event(data | {"fuel_now": ship.fuel, "fuel_max": ship.build.fuel})]


def _prepare_repair(call: Call) -> Intent:
    _ = call.base  # refuses where there is none
    if call.player.ship.hull >= call.player.ship.build.hull:
        raise GameError("hull_full", "Hull is already at full strength")
    check_credits(call.player, HULL_PRICE)
    return Intent({}, {"message": "Repairing..."})


def _finish_repair(call: Call) -> list[Event]:
    player, ship = call.player, call.player.ship
    repaired = min(ship.build.hull - ship.hull, player.credits // HULL_PRICE)
    player.spend(repaired * HULL_PRICE)
    ship.hull += repaired
    told = {
        "action": "repair",
        "repaired": repaired,
        "cost": repaired * HULL_PRICE,
        "hull": ship.hull,
        "max_hull": ship.build.hull,
    }
    return [Event(told)]


ACTIONS = (
    act("buy", "trading", "Buy an item from the station.", *GOODS,
        example={"item_id": "fuel_cell", "quantity": 5}, notes=DOCKED, needs="dock",
        steps=(_prepare_buy, _finish_buy)),
    act("sell", "trading", "Sell an item from your hold to the station.", *GOODS,
        notes=DOCKED, needs="dock", steps=(_prepare_sell, _finish_sell)),
    act("refuel", "ship", "Fill the tank.", needs="dock",
        notes="From the station where you are docked, else from fuel cells.",
        steps=(_prepare_refuel, _finish_refuel)),
    act("repair", "ship", "Repair the hull.", notes=DOCKED, needs="dock",
        steps=(_prepare_repair, _finish_repair)),
)  # fmt: skip


# --- Standing offers; what one needs is given when it is made

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
