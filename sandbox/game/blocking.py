"""Era C: the caller waits until the action's tick and gets its real result.

One action per player may be under way; a second one is refused. Docking and undocking
are done for the captain where an action needs them.
"""

from __future__ import annotations

from sandbox.game.actions.action import Action, Event
from sandbox.game.actions.reports import report
from sandbox.game.errors import GameError
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


class Blocking:
    """Era C."""

    blocks = True

    def __init__(self) -> None:
        self._outcomes: dict[str, Outcome] = {}

    def must_wait(self, state: State, player: Player) -> bool:
        return False

    def submit(
        self, state: State, player: Player, action: Action, arguments: Json
    ) -> Json:
        refuse_in_flight(player, action)
        if player.pending is not None:
            raise GameError("action_pending", "Another action is already in progress")
        flag = _make_ready(state, player, action)
        intent = accept(state, player, action, arguments, flag)
        self._outcomes.pop(player.id, None)
        return {
            "pending": True,
            "command": action.name,
            "ticks": intent.ticks,
            "message": "The action is carried out at its tick.",
        }

    def resolve(self, state: State) -> None:
        carry_out(state, self._succeed, self._fail)

    def _fail(
        self, state: State, player: Player, pending: Pending, why: GameError
    ) -> None:
        tell_error(state, player, pending, why)
        self._outcomes[player.id] = Outcome(error=why)

    def _succeed(
        self,
        state: State,
        player: Player,
        pending: Pending,
        action: Action,
        events: list[Event],
    ) -> None:
        result = report(state, player, action.name, events)
        if pending.flag:
            result[pending.flag] = True
        for event in events:
            # The captain learns his own outcome by action_result, once.
            if event.msg_type != "ok":
                state.tell_event(player, event)
        told = {"command": action.name, "tick": state.tick, "result": result}
        state.tell(player, state.notification("action_result", told))
        self._outcomes[player.id] = Outcome(result)

    def outcome(self, player_id: str) -> Outcome | None:
        return self._outcomes.pop(player_id, None)


def _make_ready(state: State, player: Player, action: Action) -> str:
    """Dock or undock where the action needs it; gives the flag for its result."""
    if action.needs == "space" and player.docked_at:
        player.docked_at = None
        return _told(state, player, action, "undock")
    if action.needs == "dock" and not player.docked_at and not player.in_transit:
        base = state.world.base_at(player.poi_id)
        cells = action.name == "refuel" and player.ship.cargo.get("fuel_cell")
        if base is not None and not cells:
            player.docked_at = base.id
            return _told(state, player, action, "dock")
    return ""


def _told(state: State, player: Player, action: Action, move: str) -> str:
    message = f"Automatically {move}ed (required for {action.name})"
    state.tell_event(player, Event({"message": message, "type": f"auto_{move}"}))
    return f"auto_{move}ed"
