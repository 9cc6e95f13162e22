"""What an action answers to a caller who has waited for it (era C)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sandbox.game.actions.action import Event
from sandbox.game.models import Player
from sandbox.game.state import State
from sandbox.game.views import condition_view

Json = dict[str, Any]
MOST_NAMES = 20
_STORY = (
    "The clamps close, the pumps start and somebody waves from behind thick glass. "
    "Crates stand in long rows under yellow light; a loader backs out of your way. "
    "On the board by the lift the day's prices change while you read them, and the "
    "talk at the next table is of belts, of debts and of who did not come back."
)


def report(state: State, player: Player, name: str, events: list[Event]) -> Json:
    """Give the result of an action from its events, the first of which is its own."""
    own = dict(events[0].data)
    form = _FORMS.get(name)
    return form(state, player, own) if form else own


def _travel(state: State, player: Player, own: Json) -> Json:
    names = own.pop("online_players")
    return {
        **own,
        "online_players": names[:MOST_NAMES] or None,
        "online_players_count": len(names),
        "online_players_truncated": len(names) > MOST_NAMES,
    }


def _jump(state: State, player: Player, own: Json) -> Json:
    del own["poi_id"]
    return own


def _dock(state: State, player: Player, own: Json) -> Json:
    base = state.world.bases[own["base_id"]]
    return {
        "action": "dock",
        "base": base.name,
        "story": _STORY,
        "station_condition": condition_view(base, state.bases.get(base.id)),
    }


def _mine(state: State, player: Player, own: Json) -> Json:
    left = 100 * own["remaining"] / own["max_remaining"]
    return {**own, "depletion_percent": left, "kind": "yield"}


def _attack(state: State, player: Player, own: Json) -> Json:
    target = own["target_id"]
    other = state.players.get(target)
    return {
        "action": "attack",
        "target": target,
        "target_name": other.username if other else state.pirates[target].name,
        "target_type": "player" if other else "pirate",
        "kind": "player" if other else "npc",
    }


_FORMS: dict[str, Callable[[State, Player, Json], Json]] = {
    "travel": _travel,
    "jump": _jump,
    "dock": _dock,
    "mine": _mine,
    "attack": _attack,
}
