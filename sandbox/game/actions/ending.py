"""self_destruct: the quickest way home."""

from __future__ import annotations

from sandbox.game.actions.action import Action, Arguments, Event, Intent
from sandbox.game.death import die
from sandbox.game.errors import must_undock
from sandbox.game.models import Player
from sandbox.game.state import State


def _prepare(state: State, player: Player, arguments: Arguments) -> Intent:
    if player.docked_at:
        raise must_undock()
    return Intent({}, {"message": "Self-destruct armed."})


def _finish(state: State, player: Player, arguments: Arguments) -> list[Event]:
    die(state, player, player.id, player.username, "self_destruct")
    return [Event({"action": "self_destruct", "message": "Ship destroyed."})]


SELF_DESTRUCT = Action("self_destruct", _prepare, _finish)
