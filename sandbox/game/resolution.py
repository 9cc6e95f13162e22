"""How actions get their turn: the part of the game that changed from era to era."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from sandbox.game.actions.action import Action, Event, Intent
from sandbox.game.errors import GameError
from sandbox.game.models import Pending, Player
from sandbox.game.state import State
from sandbox.game.table import ACTIONS

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of an action: its result, or why it failed when its tick came."""

    result: Json | None = None
    error: GameError | None = None


class Resolution(Protocol):
    """An era's way to take actions in and to carry them out."""

    blocks: bool
    """Does the caller wait for the outcome, instead of being told of it later?"""

    def must_wait(self, state: State, player: Player) -> bool:
        """Has the player used up this tick?"""
        ...

    def submit(
        self, state: State, player: Player, action: Action, arguments: Json
    ) -> Json:
        """Take an action in and give the answer to its caller.

        Raises GameError when it is impossible; that costs the player no tick.
        """
        ...

    def resolve(self, state: State) -> None:
        """Carry out what is due at the state's tick."""
        ...

    def outcome(self, player_id: str) -> Outcome | None:
        """Take what came of the player's last action, None while it is under way."""
        ...


def refuse_in_flight(player: Player, action: Action) -> None:
    """Raises GameError where the ship is between two places."""
    pending = player.pending
    if pending is None or not player.in_transit:
        return
    under_way = {"travel": "already_traveling", "jump": "already_jumping"}
    moving = action.name in under_way
    raise GameError(
        under_way[pending.tool] if moving else "in_transit",
        f"Your ship is under way and arrives at tick {pending.due_tick}.",
    )


def accept(
    state: State, player: Player, action: Action, arguments: Json, flag: str = ""
) -> Intent:
    """Let an action begin whose turn it is; what it will need and take.

    Raises GameError where it is impossible.
    """
    intent = action.prepare(state, player, arguments)
    player.pending = Pending(
        action.name, intent.arguments, state.tick + intent.ticks, flag=flag
    )
    return intent


Ended = Callable[[State, Player, Pending, Action, list[Event]], None]
Failed = Callable[[State, Player, Pending, GameError], None]


def carry_out(state: State, ended: Ended, failed: Failed) -> None:
    """Take everybody's action one tick further, and tell of those that end.

    One that has become impossible since it was accepted ends by that: `failed` is told.
    """
    for player in list(state.players.values()):
        pending = player.pending
        if pending is None:
            continue
        try:
            done = advance(state, player)
        except GameError as error:
            failed(state, player, pending, error)
            continue
        if done is not None:
            ended(state, player, pending, *done)


def advance(state: State, player: Player) -> tuple[Action, list[Event]] | None:
    """Take a player's action one tick further; its events when it ends.

    Raises GameError, repeating its code in the message, where the action has become
    impossible since it was accepted; it ends by that.
    """
    pending = player.pending
    if pending is None:
        return None
    action = ACTIONS[pending.tool]
    if not pending.begun:
        action.begin(state, player, pending.arguments)
        pending.begun = True
    if state.tick < pending.due_tick:
        return None
    player.pending = None
    tally = state.tallies.of(player.username)
    try:
        events = action.finish(state, player, pending.arguments)
    except GameError as error:
        tally.failed[action.name] += 1
        raise GameError(error.code, f"{error.code}: {error.message}") from None
    tally.executed[action.name] += 1
    return action, events


def tell_error(state: State, player: Player, pending: Pending, why: GameError) -> None:
    """Put an action_error into the player's queue."""
    data = {
        "command": pending.tool,
        "tick": state.tick,
        "code": why.code,
        "message": why.message,
    }
    state.tell(player, state.notification("action_error", data))
