"""Storage at bases, gifts, insurance, and barter between two captains."""

from __future__ import annotations

from sandbox.game.actions.action import Call, base_of, size_of
from sandbox.game.config import GameError
from sandbox.game.minor.row import (
    DOCK,
    DOCKED,
    GOODS,
    HOLD,
    STORE,
    Deed,
    Goods,
    Json,
    Move,
    Takes,
    act,
    ask,
    one,
)
from sandbox.game.tool import MOST_QUANTITY, Parameter, text
from sandbox.game.views import goods_view
from sandbox.game.world.catalogue import ITEMS
from sandbox.game.world.models import Player, Trade

_AMOUNT = Takes(
    (
        Parameter(
            "amount", "integer", "How many credits", own_error=True, most=MOST_QUANTITY
        ),
    ),
    {"amount": 100},
)


def _view_storage(call: Call) -> Json:
    base, player = call.base, call.player
    return {
        "base_id": base.id,
        "credits": player.saved_credits.get(base.id, 0),
        "items": goods_view(player.stores.get(base.id, {})),
        "ships": [
            {
                "ship_id": ship.id,
                "class_id": ship.class_id,
                "class_name": ship.build.name,
                "modules": len(ship.modules),
                "cargo_used": ship.cargo_used,
            }
            for ship in player.hangar
            if ship.base_id == base.id
        ],
    }


def _saved(deed: Deed) -> int:
    return deed.player.saved_credits.get(deed.base.id, 0)


def _too_little(deed: Deed) -> bool:
    return int(deed.given.get("amount", 0)) < 1


def _book(deed: Deed, sign: int) -> Json:
    """Credits that go to storage or come from it are neither earned nor spent."""
    player, amount = deed.player, deed.given["amount"]
    player.credits += sign * amount
    player.saved_credits[deed.base.id] = _saved(deed) - sign * amount
    return {"credits": player.credits, "stored_credits": _saved(deed)}


_POSITIVE = (_too_little, "invalid_quantity", "Amount must be at least 1.")

STORAGE = (
    ask("view_storage", "storage", "See your storage at this base.", _view_storage,
        notes=DOCKED),
    act("deposit_items", "storage", "Put items from your hold into storage.", GOODS,
        where=DOCK, moves=(Move(HOLD, STORE),)),
    act("withdraw_items", "storage", "Take items from storage into your hold.", GOODS,
        where=DOCK, moves=(Move(STORE, HOLD),)),
    act("deposit_credits", "storage", "Put credits into storage.", _AMOUNT, where=DOCK,
        unless=(_POSITIVE,
                (lambda deed: deed.given["amount"] > deed.player.credits,
                 "insufficient_credits", "You have not so many credits.")),
        changes=lambda deed: _book(deed, -1)),
    act("withdraw_credits", "storage", "Take credits from storage.", _AMOUNT,
        where=DOCK,
        unless=(_POSITIVE,
                (lambda deed: deed.given["amount"] > _saved(deed),
                 "insufficient_credits", "There are not so many credits in storage.")),
        changes=lambda deed: _book(deed, 1)),
)  # fmt: skip


def _recipient(deed: Deed) -> Player:
    name = deed.given["recipient"].strip().casefold()
    other = deed.state.players.get(deed.state.usernames.get(name, ""))
    if other is None or other is deed.player:
        raise GameError("invalid_target", "No such captain.")
    return other


def _their_store(deed: Deed) -> Goods:
    recipient: Player = deed.thing
    return recipient.stores.setdefault(deed.base.id, {})


GIFTS = (
    act("send_gift", "storage", "Send items to another captain's storage at this base.",
        Takes((text("recipient", "The captain's name"), *GOODS.parameters),
              {"recipient": "Ada", "item_id": "ore_iron", "quantity": 5}), where=DOCK,
        names=_recipient, moves=(Move(HOLD, _their_store),)),
)  # fmt: skip

LEAST_VALUE = 200


def _quote(player: Player) -> Json:
    """What a ship is worth with what is fitted, and what its insurance costs."""
    fitted = sum(ITEMS[module.type_id].price for module in player.ship.modules)
    value = max(LEAST_VALUE, player.ship.build.price + fitted)
    return {"coverage": value, "fitted_value": value, "premium": max(1, value // 20)}


def _get_insurance_quote(call: Call) -> Json:
    base_of(call.state, call.player)
    name, refused = call.player.ship.build.name, bool(call.player.coverage)
    return {
        "message": f"Insurance quote for your {name}",
        "quote": {**_quote(call.player), "refused": refused, "risk_score": 1},
    }


def _insure(deed: Deed) -> Json:
    offer = _quote(deed.player)
    deed.player.coverage = offer["coverage"]
    return offer


def _claim(deed: Deed) -> Json:
    payout, deed.player.claim = deed.player.claim, 0
    return {"payout": payout}


INSURANCE = (
    ask("get_insurance_quote", "ship", "See what insurance costs.",
        _get_insurance_quote, notes=DOCKED),
    act("buy_insurance", "ship", "Insure your ship.", where=DOCK, service="insurance",
        unless=((lambda deed: deed.player.coverage > 0, "already_insured",
                 "Your ship is insured already."),),
        costs=lambda deed: _quote(deed.player)["premium"], changes=_insure),
    act("claim_insurance", "ship", "Collect what is due for a lost ship.", where=DOCK,
        service="insurance",
        unless=((lambda deed: not deed.player.claim, "no_claim",
                 "There is nothing to claim."),), earns=lambda deed: deed.player.claim,
        changes=_claim),
)  # fmt: skip

# An offer binds nothing: what is not there when it is accepted makes it fail.


def _partner(deed: Deed) -> Player:
    other = deed.state.players.get(deed.given["target_id"])
    if other is None or other is deed.player or other.docked_at != deed.base.id:
        raise GameError("invalid_target", "No such captain is docked here.")
    _goods(deed, "offer_items")
    _goods(deed, "request_items")
    return other


def _goods(deed: Deed, name: str) -> Goods:
    goods: Goods = {}
    for entry in deed.given.get(name, ()):
        item_id, count = entry.get("item_id"), entry.get("quantity")
        if item_id not in ITEMS or not isinstance(count, int) or count < 1:
            raise GameError(
                "invalid_item",
                f"{name} is a list of items, such as "
                '[{"item_id": "ore_iron", "quantity": 5}].',
            )
        goods[item_id] = goods.get(item_id, 0) + count
    return goods


def _offer(deed: Deed) -> Json:
    trade = Trade(
        id=deed.state.sources.token(16),
        offerer_id=deed.player.id,
        offerer_name=deed.player.username,
        target_id=deed.thing.id,
        offer_items=_goods(deed, "offer_items"),
        offer_credits=deed.given.get("offer_credits", 0),
        request_items=_goods(deed, "request_items"),
        request_credits=deed.given.get("request_credits", 0),
    )
    deed.state.trades[trade.id] = trade
    deed.tell(deed.thing, "trade_offer_received", "trade", trade.view())
    return {"trade_id": trade.id}


def _open(deed: Deed, side: str) -> Trade:
    trade = deed.state.trades.get(deed.given["trade_id"])
    if trade is None or getattr(trade, side) != deed.player.id:
        raise GameError("invalid_trade", "No such trade offer. Use 'get_trades'.")
    return trade


def _acceptable(deed: Deed) -> Trade:
    trade = _open(deed, "target_id")
    if deed.state.players[trade.offerer_id].docked_at != deed.base.id:
        raise GameError("invalid_target", "No such captain is docked here.")
    return trade


def _offerer(deed: Deed) -> Player:
    return deed.state.players[deed.thing.offerer_id]


def _their_hold(deed: Deed) -> Goods:
    return _offerer(deed).ship.cargo


def _no_room_there(deed: Deed) -> bool:
    return size_of(deed.thing.request_items) > _offerer(deed).ship.cargo_free


def _accept(deed: Deed) -> Json:
    trade, offerer = deed.thing, _offerer(deed)
    del deed.state.trades[trade.id]
    offerer.spend(trade.offer_credits)
    offerer.earn(trade.request_credits)
    told = {"trade_id": trade.id, "message": "Trade complete."}
    for each in (offerer, deed.player):
        each.stats["trades_completed"] += 1
    own = {"your_credits": offerer.credits}
    deed.tell(offerer, "trade_complete", "trade", told | own)
    return told | {"your_credits": deed.player.credits}


def _end(deed: Deed, other_id: str, how: str) -> Json:
    del deed.state.trades[deed.thing.id]
    told = {"trade_id": deed.thing.id, "message": f"Trade {how}."}
    deed.tell(deed.state.players[other_id], f"trade_{how}", "trade", told)
    return {"action": f"trade_{how}"}


def _get_trades(call: Call) -> Json:
    trades, me = call.state.trades.values(), call.player.id
    return {
        "incoming": [each.view() for each in trades if each.target_id == me],
        "outgoing": [each.view() for each in trades if each.offerer_id == me],
    }


def _credits(name: str, description: str) -> Parameter:
    most = MOST_QUANTITY
    return Parameter(name, "integer", description, required=False, least=0, most=most)


_TRADE = one("trade_id", "The ID of the offer, from get_trades")

TRADES = (
    ask("get_trades", "trading", "See the trade offers to you and from you.",
        _get_trades),
    act("trade_offer", "trading", "Offer a trade to a captain docked at the same base.",
        Takes((text("target_id", "The captain's ID, from get_nearby"),
               Parameter("offer_items", "items", "What you give", required=False),
               _credits("offer_credits", "Credits you give"),
               Parameter("request_items", "items", "What you want", required=False),
               _credits("request_credits", "Credits you want")),
              {"target_id": "player_id", "offer_items": [GOODS.example],
               "request_credits": 50}), where=DOCK, names=_partner, changes=_offer),
    act("trade_accept", "trading", "Accept a trade offer.", _TRADE, notes="",
        where=DOCK, names=_acceptable,
        unless=((lambda deed: _offerer(deed).credits < deed.thing.offer_credits,
                 "insufficient_credits", "The other captain has not enough credits."),
                (_no_room_there, "no_cargo_space", "The other captain has no room.")),
        costs=lambda deed: deed.thing.request_credits,
        earns=lambda deed: deed.thing.offer_credits,
        moves=(Move(HOLD, _their_hold, lambda deed: deed.thing.request_items),
               Move(_their_hold, HOLD, lambda deed: deed.thing.offer_items)),
        changes=_accept, told=("trade_complete", "trade")),
    act("trade_decline", "trading", "Decline a trade offer.", _TRADE,
        names=lambda deed: _open(deed, "target_id"),
        changes=lambda deed: _end(deed, deed.thing.offerer_id, "declined")),
    act("trade_cancel", "trading", "Cancel a trade offer.", _TRADE,
        names=lambda deed: _open(deed, "offerer_id"),
        changes=lambda deed: _end(deed, deed.thing.target_id, "cancelled")),
)  # fmt: skip
