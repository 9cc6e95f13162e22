"""How actions get their turn: the part of the game that changed from era to era.

Era A: an action is checked and answered with a preview at once; what came of it
arrives as a notification at a later tick. One action per player and tick.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from agents.game.sandbox.actions import ACTIONS
from agents.game.sandbox.actions.action import Action, Event
from agents.game.sandbox.errors import GameError
from agents.game.sandbox.models import Pending, Player
from agents.game.sandbox.state import State


class Resolution(Protocol):
    """An era's way to take actions in and to carry them out."""

    def must_wait(self, state: State, player: Player) -> bool:
        """Has the player used up this tick?"""
        ...

    def submit(
        self, state: State, player: Player, action: Action, arguments: dict[str, Any]
    ) -> dict[str, Any]:
        """Take an action in and give the answer to its caller.

        Raises GameError when it is impossible; that costs the player no tick.
        """
        ...

    def resolve(self, state: State) -> None:
        """Carry out what is due at the state's tick."""
        ...


class Queued:
    """Era A."""

    def must_wait(self, state: State, player: Player) -> bool:
        return player.acted_tick == state.tick

    def submit(
        self, state: State, player: Player, action: Action, arguments: dict[str, Any]
    ) -> dict[str, Any]:
        _check_free(player, action)
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
        action = ACTIONS[pending.tool]
        if not pending.begun:
            action.begin(state, player, pending.arguments)
            pending.begun = True
        if state.tick < pending.due_tick:
            return
        player.pending = None
        for event in _finish(state, player, action, pending):
            state.tell(
                player, state.notification(event.msg_type, event.data, event.category)
            )


def _check_free(player: Player, action: Action) -> None:
    pending = player.pending
    if pending is None or not player.in_transit:
        return
    under_way = {"travel": "already_traveling", "jump": "already_jumping"}
    moving = action.name in under_way
    raise GameError(
        under_way[pending.tool] if moving else "in_transit",
        f"Your ship is under way and arrives at tick {pending.due_tick}.",
    )


def _finish(
    state: State, player: Player, action: Action, pending: Pending
) -> list[Event]:
    try:
        return action.finish(state, player, pending.arguments)
    except GameError as error:
        data = {
            "command": action.name,
            "tick": state.tick,
            "code": error.code,
            "message": f"{error.code}: {error.message}",
        }
        return [Event(data, "action_error")]


ERAS: dict[str, Callable[[], Resolution]] = {"A": Queued}
