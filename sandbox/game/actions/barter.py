"""trade_offer, trade_accept, trade_decline and trade_cancel between two captains.

Both are docked at the same base. An offer binds nothing: what is not there when it is
accepted makes it fail.
"""

from __future__ import annotations

from sandbox.game.actions.action import Action, Arguments, Event, Intent
from sandbox.game.catalogue import ITEMS
from sandbox.game.errors import GameError, not_docked_here
from sandbox.game.models import Player, Trade
from sandbox.game.state import State

_FROM_ITEMS = {"offer_items", "request_items"}


def _partner(state: State, player: Player, target_id: str) -> Player:
    if not player.docked_at:
        raise not_docked_here()
    other = state.players.get(target_id)
    if other is None or other.id == player.id or other.docked_at != player.docked_at:
        raise GameError("invalid_target", "No such captain is docked here.")
    return other


def _goods(arguments: Arguments, name: str) -> dict[str, int]:
    goods: dict[str, int] = {}
    for one in arguments.get(name, ()):
        item_id, count = one.get("item_id"), one.get("quantity")
        if item_id not in ITEMS or not isinstance(count, int) or count < 1:
            raise GameError(
                "invalid_item",
                f"{name} is a list of items, such as "
                '[{"item_id": "ore_iron", "quantity": 5}].',
            )
        goods[item_id] = goods.get(item_id, 0) + count
    return goods


def _prepare_offer(state: State, player: Player, arguments: Arguments) -> Intent:
    other = _partner(state, player, arguments["target_id"])
    for name in sorted(_FROM_ITEMS):
        _goods(arguments, name)
    return Intent(
        dict(arguments), {"target_id": other.id, "message": "Offering a trade..."}
    )


def _finish_offer(state: State, player: Player, arguments: Arguments) -> list[Event]:
    other = _partner(state, player, arguments["target_id"])
    trade = Trade(
        id=state.sources.token(16),
        offerer_id=player.id,
        offerer_name=player.username,
        target_id=other.id,
        offer_items=_goods(arguments, "offer_items"),
        offer_credits=arguments.get("offer_credits", 0),
        request_items=_goods(arguments, "request_items"),
        request_credits=arguments.get("request_credits", 0),
    )
    state.trades[trade.id] = trade
    state.tell_event(other, Event(trade.view(), "trade_offer_received", "trade"))
    return [Event({"action": "trade_offer", "trade_id": trade.id})]


def _open(state: State, player: Player, trade_id: str, side: str) -> Trade:
    trade = state.trades.get(trade_id)
    if trade is None or getattr(trade, side) != player.id:
        raise GameError("invalid_trade", "No such trade offer. Use 'get_trades'.")
    return trade


def _prepare_accept(state: State, player: Player, arguments: Arguments) -> Intent:
    trade = _open(state, player, arguments["trade_id"], "target_id")
    _check(_partner(state, player, trade.offerer_id), player, trade)
    return Intent({"trade_id": trade.id}, {"message": "Accepting the trade..."})


def _check(offerer: Player, taker: Player, trade: Trade) -> None:
    """Raises GameError where one of the two cannot give what he should."""
    for giver, goods, money in (
        (offerer, trade.offer_items, trade.offer_credits),
        (taker, trade.request_items, trade.request_credits),
    ):
        if giver.credits < money:
            raise GameError(
                "insufficient_credits", f"{giver.username} has not enough credits."
            )
        if any(giver.ship.cargo.get(name, 0) < count for name, count in goods.items()):
            raise GameError(
                "insufficient_items", f"{giver.username} has not all of the items."
            )
    gain = _size(trade.offer_items) - _size(trade.request_items)
    if gain > taker.ship.cargo_free or -gain > offerer.ship.cargo_free:
        raise GameError("no_cargo_space", "Not enough cargo space.")


def _size(goods: dict[str, int]) -> int:
    return sum(ITEMS[name].size * count for name, count in goods.items())


def _finish_accept(state: State, player: Player, arguments: Arguments) -> list[Event]:
    trade = _open(state, player, arguments["trade_id"], "target_id")
    offerer = _partner(state, player, trade.offerer_id)
    _check(offerer, player, trade)
    del state.trades[trade.id]
    _hand_over(offerer, player, trade.offer_items, trade.offer_credits)
    _hand_over(player, offerer, trade.request_items, trade.request_credits)
    for each in (offerer, player):
        each.stats["trades_completed"] += 1
    state.tell_event(offerer, _complete(trade, offerer))
    return [_complete(trade, player)]


def _hand_over(giver: Player, taker: Player, goods: dict[str, int], money: int) -> None:
    for name, count in goods.items():
        giver.ship.unload(name, count)
        taker.ship.load(name, count)
    giver.credits -= money
    taker.credits += money


def _complete(trade: Trade, player: Player) -> Event:
    data = {
        "trade_id": trade.id,
        "message": "Trade complete.",
        "your_credits": player.credits,
    }
    return Event(data, "trade_complete", "trade")


def _prepare_decline(state: State, player: Player, arguments: Arguments) -> Intent:
    trade = _open(state, player, arguments["trade_id"], "target_id")
    return Intent({"trade_id": trade.id}, {"message": "Declining the trade..."})


def _finish_decline(state: State, player: Player, arguments: Arguments) -> list[Event]:
    trade = _open(state, player, arguments["trade_id"], "target_id")
    return [_ended(state, trade, trade.offerer_id, "declined")]


def _prepare_cancel(state: State, player: Player, arguments: Arguments) -> Intent:
    trade = _open(state, player, arguments["trade_id"], "offerer_id")
    return Intent({"trade_id": trade.id}, {"message": "Cancelling the trade..."})


def _finish_cancel(state: State, player: Player, arguments: Arguments) -> list[Event]:
    trade = _open(state, player, arguments["trade_id"], "offerer_id")
    return [_ended(state, trade, trade.target_id, "cancelled")]


def _ended(state: State, trade: Trade, other_id: str, how: str) -> Event:
    del state.trades[trade.id]
    data = {"trade_id": trade.id, "message": f"Trade {how}."}
    state.tell_event(state.players[other_id], Event(data, f"trade_{how}", "trade"))
    return Event({"action": f"trade_{how}", "trade_id": trade.id})


BARTER = (
    Action("trade_offer", _prepare_offer, _finish_offer, needs="dock"),
    Action("trade_accept", _prepare_accept, _finish_accept, needs="dock"),
    Action("trade_decline", _prepare_decline, _finish_decline),
    Action("trade_cancel", _prepare_cancel, _finish_cancel),
)
