"""Era A, the seed's own: an action is checked and answered with a preview at once.

What came of it arrives as a notification at a later tick. One action per player and
tick.
"""

from __future__ import annotations

from agents.game.sandbox.actions.action import Action
from agents.game.sandbox.errors import GameError
from agents.game.sandbox.models import Pending, Player
from agents.game.sandbox.resolution import (
    Json,
    Outcome,
    advance,
    refuse_in_flight,
    tell_error,
)
from agents.game.sandbox.state import State


class Queued:
    """Era A."""

    blocks = False

    def must_wait(self, state: State, player: Player) -> bool:
        return player.acted_tick == state.tick

    def submit(
        self, state: State, player: Player, action: Action, arguments: Json
    ) -> Json:
        refuse_in_flight(player, action)
        intent = action.prepare(state, player, arguments)
        player.pending = Pending(
            action.name, intent.arguments, state.tick + intent.ticks
        )
        player.acted_tick = state.tick
        return {"queued": True, **intent.preview}

    def resolve(self, state: State) -> None:
        for player in list(state.players.values()):
            if player.pending is not None:
                self._advance(state, player, player.pending)

    def _advance(self, state: State, player: Player, pending: Pending) -> None:
        try:
            ended = advance(state, player)
        except GameError as error:
            tell_error(state, player, pending, error)
            return
        if ended is not None:
            for event in ended[1]:
                state.tell_event(player, event)

    def outcome(self, player_id: str) -> Outcome | None:
        """Nobody waits for it in this era."""
        return None
