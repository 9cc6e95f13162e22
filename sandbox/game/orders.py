"""The order book: captains' standing offers, and the traders who take them."""

from __future__ import annotations

from typing import Any

from sandbox.game.catalogue import ITEMS
from sandbox.game.dice import dice
from sandbox.game.holdings import Order
from sandbox.game.notifications import Event
from sandbox.game.state import State

Json = dict[str, Any]
_CHANCE = 0.15
_MOST_AT_ONCE = 5


def orders_at(state: State, base_id: str) -> list[Order]:
    """The open orders of a base, the oldest first."""
    return [one for one in state.orders.values() if one.base_id == base_id]


def trade_orders(state: State) -> None:
    """Let somebody pass who takes an order, or a part of it (once per tick)."""
    for order in list(state.orders.values()):
        owner = state.players[order.player_id]
        rng = dice(
            state.config.seed, state.tick, owner.username, order.item_id, order.side
        )
        if _is_fair(order) and rng.random() < _CHANCE:
            _fill(state, order, min(order.remaining, rng.randint(1, _MOST_AT_ONCE)))


def _is_fair(order: Order) -> bool:
    """Would anybody trade at this price?"""
    usual = ITEMS[order.item_id].price
    if order.side == "sell":
        return order.price_each <= 2 * usual
    return 2 * order.price_each >= usual


def _fill(state: State, order: Order, count: int) -> None:
    """Trade a part of an order: both goods and credits go to the owner's storage."""
    owner = state.players[order.player_id]
    if order.side == "sell":
        worth = count * order.price_each
        saved = owner.saved_credits.get(order.base_id, 0)
        owner.saved_credits[order.base_id] = saved + worth
        owner.stats["credits_earned"] += worth
    else:
        store = owner.stores.setdefault(order.base_id, {})
        store[order.item_id] = store.get(order.item_id, 0) + count
    order.remaining -= count
    if not order.remaining:
        del state.orders[order.id]
    data = {
        "tick": state.tick,
        "base_id": order.base_id,
        "items": [
            {
                "item_id": order.item_id,
                "side": order.side,
                "quantity": count,
                "price_each": order.price_each,
                "order_id": order.id,
                "remaining": order.remaining,
            }
        ],
    }
    state.tell_event(owner, Event(data, "market_update", "market"))


def order_view(order: Order) -> Json:
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
