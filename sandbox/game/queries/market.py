"""What is for sale, what it would cost, and the asker's own orders."""

from __future__ import annotations

from sandbox.game.actions.goods import named_item
from sandbox.game.orders import order_view, orders_at
from sandbox.game.queries.call import Call, Json
from sandbox.game.queries.here import docked_base
from sandbox.game.views import offers_view


def view_orders(call: Call) -> Json:
    base = docked_base(call)
    own = [
        order_view(one)
        for one in orders_at(call.state, base.id)
        if one.player_id == call.player.id
    ]
    return {"action": "view_orders", "base": base.name, "orders": own}


def get_listings(call: Call) -> Json:
    """The seed era's list of what a station sells."""
    market = call.state.markets.at(docked_base(call))
    listed = offers_view(market)
    return {"base_id": market.base_id, "listings": listed, "count": len(listed)}


def estimate_purchase(call: Call) -> Json:
    item, quantity = named_item(call.arguments)
    shelf = call.state.markets.at(docked_base(call)).shelves[item.id]
    count = min(quantity, shelf.stock)
    return {
        "action": "estimate_purchase",
        "item": item.name,
        "item_id": item.id,
        "quantity": count,
        "unfilled": quantity - count,
        "total_cost": count * shelf.asked,
    }
