"""Era A, the seed's own: an action is checked and answered with a preview at once.

What came of it arrives as a notification at a later tick. One action per player and
tick.
"""

from __future__ import annotations

from sandbox.game.actions.action import Action, Event
from sandbox.game.models import Pending, Player
from sandbox.game.resolution import (
    Json,
    Outcome,
    accept,
    carry_out,
    refuse_in_flight,
    tell_error,
)
from sandbox.game.state import State


class Queued:
    """Era A."""

    blocks = False

    def must_wait(self, state: State, player: Player) -> bool:
        return player.acted_tick == state.tick

    def submit(
        self, state: State, player: Player, action: Action, arguments: Json
    ) -> Json:
        refuse_in_flight(player, action)
        intent = accept(state, player, action, arguments)
        player.acted_tick = state.tick
        return {"queued": True, **intent.preview}

    def resolve(self, state: State) -> None:
        carry_out(state, _tell, tell_error)

    def outcome(self, player_id: str) -> Outcome | None:
        """Nobody waits for it in this era."""
        return None


def _tell(
    state: State, player: Player, pending: Pending, action: Action, events: list[Event]
) -> None:
    for event in events:
        state.tell_event(player, event)
