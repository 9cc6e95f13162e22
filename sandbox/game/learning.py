"""Experience that a captain gains, and the news when it makes a level."""

from __future__ import annotations

from sandbox.game.models import Player
from sandbox.game.notifications import Event
from sandbox.game.skills import learn
from sandbox.game.state import State


def teach(state: State, player: Player, skill_id: str, xp: int) -> bool:
    """Add experience; True when a level was gained, which era C also tells."""
    if not learn(player, skill_id, xp):
        return False
    if state.config.era == "C":
        level = player.skills[skill_id].level
        data = {"skill_id": skill_id, "new_level": level, "xp_gained": xp}
        state.tell_event(player, Event(data, "skill_level_up"))
    return True
