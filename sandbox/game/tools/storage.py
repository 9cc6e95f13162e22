"""Storage at bases, gifts, insurance, and barter between two captains."""

from __future__ import annotations

from sandbox.game.config import GameError, Json, make_view
from sandbox.game.tool import GOODS, MOST_QUANTITY, Parameter, number, text
from sandbox.game.tools.rules import DOCKED, Call, Find, Move, act, ask, pick
from sandbox.game.views import view_goods, view_goods_briefly, view_ship_briefly
from sandbox.game.world.catalogue import ITEMS
from sandbox.game.world.models import Goods, Player, Trade, add_goods, measure_goods

LEAST_VALUE = 200
_OFFER = make_view("trade_id=id offerer_id offerer_name target_id")


def _view_storage(call: Call) -> Json:
    base, player = call.base, call.player
    return {
        "base_id": base.id,
        "credits": player.saved_credits.get(base.id, 0),
        "items": view_goods(player.stores.get(base.id, {})),
        "ships": [
            {
                **view_ship_briefly(ship),
                "modules": len(ship.modules),
                "cargo_used": ship.cargo_used,
            }
            for ship in player.hangar
            if ship.base_id == base.id
        ],
    }


def _saved(call: Call) -> int:
    return call.player.saved_credits.get(call.base.id, 0)


def _book(call: Call, sign: int) -> Json:
    """Credits that go to storage or come from it are neither earned nor spent."""
    player, amount = call.player, call.given["amount"]
    player.credits += sign * amount
    player.saved_credits[call.base.id] = _saved(call) - sign * amount
    return {"credits": player.credits, "stored_credits": _saved(call)}


_POSITIVE = (
    lambda call: int(call.given.get("amount", 0)) < 1, "invalid_quantity",
    "Amount must be at least 1.",
)  # fmt: skip

STORAGE = (
    ask("view_storage", "storage", "See your storage at this base.", _view_storage,
        notes=DOCKED),
    act("deposit_items", "storage", "Put items from your hold into storage.", *GOODS,
        where="dock", moves=(Move(Call.hold, Call.store),)),
    act("withdraw_items", "storage", "Take items from storage into your hold.", *GOODS,
        where="dock", moves=(Move(Call.store, Call.hold),)),
    act("deposit_credits", "storage", "Put credits into storage.", "amount", where="dock",
        unless=(_POSITIVE,
                (lambda call: call.given["amount"] > call.player.credits,
                 "insufficient_credits", "You have not so many credits.")),
        changes=lambda call: _book(call, -1)),
    act("withdraw_credits", "storage", "Take credits from storage.", "amount",
        where="dock",
        unless=(_POSITIVE,
                (lambda call: call.given["amount"] > _saved(call),
                 "insufficient_credits", "There are not so many credits in storage.")),
        changes=lambda call: _book(call, 1)),
)  # fmt: skip


def _find_recipient(call: Call) -> Player:
    other = call.state.find_player(call.given["recipient"].strip())
    if other is None or other is call.player:
        raise GameError("invalid_target", "No such captain.")
    return other


GIFTS = (
    act("send_gift", "storage", "Send items to another captain's storage at this base.",
        text("recipient", "The captain's name", "Ada"), *GOODS, example={"quantity": 5},
        where="dock", names=_find_recipient, moves=(Move(
            Call.hold, lambda call: call.thing.stores.setdefault(call.base.id, {})),)),
)  # fmt: skip


def _quote(player: Player) -> Json:
    fitted = sum(ITEMS[module.type_id].price for module in player.ship.modules)
    value = max(LEAST_VALUE, player.ship.build.price + fitted)
    return {"coverage": value, "fitted_value": value, "premium": max(1, value // 20)}


def _get_insurance_quote(call: Call) -> Json:
    _ = call.base  # refuses where there is none
    name, refused = call.player.ship.build.name, bool(call.player.coverage)
    return {
        "message": f"Insurance quote for your {name}",
        "quote": {**_quote(call.player), "refused": refused, "risk_score": 1},
    }


def _insure(call: Call) -> Json:
    offer = _quote(call.player)
    call.player.coverage = offer["coverage"]
    return offer


def _claim(call: Call) -> Json:
    payout, call.player.claim = call.player.claim, 0
    return {"payout": payout}


INSURANCE = (
    ask("get_insurance_quote", "ship", "See what insurance costs.",
        _get_insurance_quote, notes=DOCKED),
    act("buy_insurance", "ship", "Insure your ship.", where="dock", service="insurance",
        unless=((lambda call: call.player.coverage > 0, "already_insured",
                 "Your ship is insured already."),),
        costs=lambda call: _quote(call.player)["premium"], changes=_insure),
    act("claim_insurance", "ship", "Collect what is due for a lost ship.", where="dock",
        service="insurance",
        unless=((lambda call: not call.player.claim, "no_claim",
                 "There is nothing to claim."),), earns=lambda call: call.player.claim,
        changes=_claim),
)  # fmt: skip

# An offer binds nothing: what is not there when it is accepted makes it fail.


def _find_partner(call: Call) -> Player:
    other = call.state.players.get(call.given["target_id"])
    if other is None or other is call.player or other.docked_at != call.base.id:
        raise GameError("invalid_target", "No such captain is docked here.")
    _read_goods(call, "offer_items")
    _read_goods(call, "request_items")
    return other


def _read_goods(call: Call, name: str) -> Goods:
    goods: Goods = {}
    for entry in call.given.get(name, ()):
        item_id, count = entry.get("item_id"), entry.get("quantity")
        if item_id not in ITEMS or not isinstance(count, int) or count < 1:
            raise GameError(
                "invalid_item",
                f"{name} is a list of items, such as "
                '[{"item_id": "ore_iron", "quantity": 5}].',
            )
        add_goods(goods, item_id, count)
    return goods


def _offer(call: Call) -> Json:
    trade = Trade(
        id=call.token(),
        offerer_id=call.player.id,
        offerer_name=call.player.username,
        target_id=call.thing.id,
        offer_items=_read_goods(call, "offer_items"),
        offer_credits=call.given.get("offer_credits", 0),
        request_items=_read_goods(call, "request_items"),
        request_credits=call.given.get("request_credits", 0),
    )
    call.state.trades[trade.id] = trade
    call.tell(call.thing, "trade_offer_received", "trade", _trade_view(trade))
    return {"trade_id": trade.id}


def _trade_view(trade: Trade) -> Json:
    return {
        **_OFFER(trade),
        "offer_items": view_goods_briefly(trade.offer_items),
        "offer_credits": trade.offer_credits,
        "request_items": view_goods_briefly(trade.request_items),
        "request_credits": trade.request_credits,
    }


def _open_trade(side: str) -> Find:
    """Find an offer by its id; `side` names who of the two the captain must be."""
    return pick(
        "trade_id", lambda call: call.state.trades.values(), "invalid_trade",
        "No such trade offer. Use 'get_trades'.",
        fits=lambda call, trade: getattr(trade, side) == call.player.id)  # fmt: skip


_find_received = _open_trade("target_id")
_AWAY = (
    lambda call: _offerer(call).docked_at != call.base.id, "invalid_target",
    "No such captain is docked here.",
)  # fmt: skip


def _offerer(call: Call) -> Player:
    return call.state.players[call.thing.offerer_id]


def _their_hold(call: Call) -> Goods:
    return _offerer(call).ship.cargo


def _accept(call: Call) -> Json:
    trade, offerer = call.thing, _offerer(call)
    del call.state.trades[trade.id]
    offerer.spend(trade.offer_credits)
    offerer.earn(trade.request_credits)
    told = {"trade_id": trade.id, "message": "Trade complete."}
    for each in (offerer, call.player):
        each.stats["trades_completed"] += 1
    own = {"your_credits": offerer.credits}
    call.tell(offerer, "trade_complete", "trade", told | own)
    return told | {"your_credits": call.player.credits}


def _end(call: Call, other_id: str, how: str) -> Json:
    del call.state.trades[call.thing.id]
    told = {"trade_id": call.thing.id, "message": f"Trade {how}."}
    call.tell(call.state.players[other_id], f"trade_{how}", "trade", told)
    return {"action": f"trade_{how}"}


def _get_trades(call: Call) -> Json:
    trades, me = call.state.trades.values(), call.player.id
    return {
        "incoming": [_trade_view(each) for each in trades if each.target_id == me],
        "outgoing": [_trade_view(each) for each in trades if each.offerer_id == me],
    }


def _credits(name: str, description: str, example: int | None = None) -> Parameter:
    limits: Json = {"required": False, "least": 0, "most": MOST_QUANTITY}
    return number(name, description, example, **limits)


def _items(name: str, description: str, example: list[Json] | None = None) -> Parameter:
    return Parameter(name, "items", description, required=False, example=example)


TRADES = (
    ask("get_trades", "trading", "See the trade offers to you and from you.",
        _get_trades),
    act("trade_offer", "trading", "Offer a trade to a captain docked at the same base.",
        text("target_id", "The captain's ID, from get_nearby", "player_id"),
        _items("offer_items", "What you give", [{"item_id": "ore_iron", "quantity": 10}]),
        _credits("offer_credits", "Credits you give"),
        _items("request_items", "What you want"),
        _credits("request_credits", "Credits you want", 50),
        where="dock", names=_find_partner, changes=_offer),
    act("trade_accept", "trading", "Accept a trade offer.", "trade_id", notes="",
        where="dock", names=_find_received,
        unless=(_AWAY, (lambda call: _offerer(call).credits < call.thing.offer_credits,
                 "insufficient_credits", "The other captain has not enough credits."),
                (lambda call: measure_goods(call.thing.request_items)
                 > _offerer(call).ship.cargo_free, "no_cargo_space",
                 "The other captain has no room.")),
        costs=lambda call: call.thing.request_credits,
        earns=lambda call: call.thing.offer_credits,
        moves=(Move(Call.hold, _their_hold, lambda call: call.thing.request_items),
               Move(_their_hold, Call.hold, lambda call: call.thing.offer_items)),
        changes=_accept, told=("trade_complete", "trade")),
    act("trade_decline", "trading", "Decline a trade offer.", "trade_id",
        names=_find_received,
        changes=lambda call: _end(call, call.thing.offerer_id, "declined")),
    act("trade_cancel", "trading", "Cancel a trade offer.", "trade_id",
        names=_open_trade("offerer_id"),
        changes=lambda call: _end(call, call.thing.target_id, "cancelled")),
)  # fmt: skip
