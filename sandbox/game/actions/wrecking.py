"""salvage_wreck, tow_wreck, release_tow and sell_wreck: what wrecks are good for."""

from __future__ import annotations

from sandbox.game.actions.action import Action, Arguments, Event, Intent
from sandbox.game.actions.docked import base_of
from sandbox.game.actions.goods import room_for
from sandbox.game.catalogue import ITEMS
from sandbox.game.errors import GameError, must_undock
from sandbox.game.learning import teach
from sandbox.game.models import Player, Wreck
from sandbox.game.state import State

STEEL = 2
VALUE = 90
_XP = 3


def _ship_wreck(state: State, player: Player, wreck_id: str) -> Wreck:
    """A ship's wreck at the same place that nobody else has in tow."""
    wreck = state.wrecks.get(wreck_id)
    if wreck is None or wreck.poi_id != player.poi_id or wreck.type != "ship":
        raise GameError("invalid_wreck", "No such wreck here. Use 'get_wrecks'.")
    towed = [one.id for one in state.players.values() if one.towing == wreck_id]
    if towed not in ([], [player.id]):
        raise GameError("wreck_in_tow", "Somebody else has this wreck in tow.")
    return wreck


def _prepare_salvage(state: State, player: Player, arguments: Arguments) -> Intent:
    if player.docked_at:
        raise must_undock()
    wreck = _ship_wreck(state, player, arguments["wreck_id"])
    room_for(player, ITEMS["refined_steel"], STEEL)
    given = {"wreck_id": wreck.id}
    return Intent(given, {**given, "message": "Cutting..."})


def _finish_salvage(state: State, player: Player, arguments: Arguments) -> list[Event]:
    _prepare_salvage(state, player, arguments)
    _remove(state, player, arguments["wreck_id"])
    player.ship.load("refined_steel", STEEL)
    teach(state, player, "crafting_basic", _XP)
    items = [{"item_id": "refined_steel", "quantity": STEEL}]
    return [Event({"action": "salvage_wreck", "items": items, "xp_gained": _XP})]


def _remove(state: State, player: Player, wreck_id: str) -> None:
    del state.wrecks[wreck_id]
    if player.towing == wreck_id:
        player.towing = ""


def _prepare_tow(state: State, player: Player, arguments: Arguments) -> Intent:
    if player.docked_at:
        raise must_undock()
    if player.towing:
        raise GameError("already_towing", "You have a wreck in tow already.")
    given = {"wreck_id": _ship_wreck(state, player, arguments["wreck_id"]).id}
    return Intent(given, {**given, "message": "Hooking on..."})


def _finish_tow(state: State, player: Player, arguments: Arguments) -> list[Event]:
    _prepare_tow(state, player, arguments)
    player.towing = arguments["wreck_id"]
    return [Event({"action": "tow_wreck", "wreck_id": player.towing})]


def _prepare_release(state: State, player: Player, arguments: Arguments) -> Intent:
    if not player.towing:
        raise GameError("not_towing", "You have nothing in tow.")
    return Intent({}, {"message": "Letting go..."})


def _finish_release(state: State, player: Player, arguments: Arguments) -> list[Event]:
    _prepare_release(state, player, arguments)
    wreck_id, player.towing = player.towing, ""
    return [Event({"action": "release_tow", "wreck_id": wreck_id})]


def _prepare_sale(state: State, player: Player, arguments: Arguments) -> Intent:
    base_of(state, player)
    wreck = _ship_wreck(state, player, player.towing)
    return Intent({"wreck_id": wreck.id}, {"message": "The scrappers look it over."})


def _finish_sale(state: State, player: Player, arguments: Arguments) -> list[Event]:
    _prepare_sale(state, player, arguments)
    _remove(state, player, player.towing)
    player.earn(VALUE)
    return [Event({"action": "sell_wreck", "credits": VALUE})]


WRECKING = (
    Action("salvage_wreck", _prepare_salvage, _finish_salvage, needs="space"),
    Action("tow_wreck", _prepare_tow, _finish_tow, needs="space"),
    Action("release_tow", _prepare_release, _finish_release),
    Action("sell_wreck", _prepare_sale, _finish_sale, needs="dock"),
)
