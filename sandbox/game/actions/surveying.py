"""survey_system: find the places of a system that no chart has."""

from __future__ import annotations

from sandbox.game.actions.action import Action, Arguments, Event, Intent
from sandbox.game.learning import teach
from sandbox.game.models import Player
from sandbox.game.state import State

_XP = 10


def _prepare(state: State, player: Player, arguments: Arguments) -> Intent:
    return Intent({}, {"message": "Surveying..."})


def _finish(state: State, player: Player, arguments: Arguments) -> list[Event]:
    system = state.world.systems[player.system_id]
    hidden = [poi.id for poi in system.pois if poi.hidden]
    new = [name for name in hidden if name not in player.revealed]
    player.revealed += new
    teach(state, player, "exploration", _XP)
    return [
        Event(
            {
                "action": "survey_system",
                "system_id": system.id,
                "system_name": system.name,
                "survey_power": 1,
                "newly_revealed": new,
                "already_revealed": [name for name in hidden if name not in new],
                "faint_signatures": [],
                "xp_gained": _XP,
                "message": f"{len(new)} new place(s) found.",
            }
        )
    ]


SURVEY = Action("survey_system", _prepare, _finish, needs="space")
