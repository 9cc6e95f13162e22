"""dock and undock."""

from __future__ import annotations

from sandbox.game.actions.action import Action, Arguments, Event, Intent
from sandbox.game.errors import GameError
from sandbox.game.models import Player
from sandbox.game.state import State


def _prepare_dock(state: State, player: Player, arguments: Arguments) -> Intent:
    if player.docked_at:
        raise GameError("already_docked", "Already docked")
    base = state.world.base_at(player.poi_id)
    if base is None:
        raise GameError("no_base", "No base at this location")
    return Intent({"base_id": base.id}, {"base_name": base.name, "base_id": base.id})


def _finish_dock(state: State, player: Player, arguments: Arguments) -> list[Event]:
    base = state.world.bases[arguments["base_id"]]
    player.docked_at = base.id
    player.target_id = None
    return [Event({"action": "dock", "base": base.name, "base_id": base.id})]


def _prepare_undock(state: State, player: Player, arguments: Arguments) -> Intent:
    if not player.docked_at:
        raise GameError("not_docked", "Not docked")
    return Intent({}, {"message": "Undocking..."})


def _finish_undock(state: State, player: Player, arguments: Arguments) -> list[Event]:
    player.docked_at = None
    return [Event({"action": "undock"})]


DOCK = Action("dock", _prepare_dock, _finish_dock)
UNDOCK = Action("undock", _prepare_undock, _finish_undock)
