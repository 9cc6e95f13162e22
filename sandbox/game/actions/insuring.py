"""buy_insurance and claim_insurance: credits for the next lost ship."""

from __future__ import annotations

from typing import Any

from sandbox.game.actions.action import Action, Arguments, Event, Intent
from sandbox.game.actions.docked import check_credits, serving_base
from sandbox.game.catalogue import ITEMS
from sandbox.game.errors import GameError
from sandbox.game.models import Player
from sandbox.game.state import State

LEAST_VALUE = 200


def quote(player: Player) -> dict[str, Any]:
    """What a ship is worth with what is fitted, and what its insurance costs."""
    fitted = sum(ITEMS[module.type_id].price for module in player.ship.modules)
    value = max(LEAST_VALUE, player.ship.build.price + fitted)
    return {"coverage": value, "fitted_value": value, "premium": max(1, value // 20)}


def _prepare_buy(state: State, player: Player, arguments: Arguments) -> Intent:
    serving_base(state, player, "insurance")
    if player.coverage:
        raise GameError("already_insured", "Your ship is insured already.")
    check_credits(player, quote(player)["premium"])
    return Intent({}, {**quote(player), "message": "Signing..."})


def _finish_buy(state: State, player: Player, arguments: Arguments) -> list[Event]:
    _prepare_buy(state, player, arguments)
    offer = quote(player)
    player.spend(offer["premium"])
    player.coverage = offer["coverage"]
    return [Event({"action": "buy_insurance", **offer})]


def _prepare_claim(state: State, player: Player, arguments: Arguments) -> Intent:
    serving_base(state, player, "insurance")
    if not player.claim:
        raise GameError("no_claim", "There is nothing to claim.")
    return Intent({}, {"payout": player.claim, "message": "Filing..."})


def _finish_claim(state: State, player: Player, arguments: Arguments) -> list[Event]:
    _prepare_claim(state, player, arguments)
    payout, player.claim = player.claim, 0
    player.earn(payout)
    return [Event({"action": "claim_insurance", "payout": payout})]


INSURING = (
    Action("buy_insurance", _prepare_buy, _finish_buy, needs="dock"),
    Action("claim_insurance", _prepare_claim, _finish_claim, needs="dock"),
)
