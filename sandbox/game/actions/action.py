"""The form of an action: checked when it is asked for, carried out at a tick.

How the three steps are told to the player is the business of the era (see
`eras`), so an action never knows whether its caller waits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sandbox.game.models import Player
from sandbox.game.notifications import Event
from sandbox.game.state import State

__all__ = ["Action", "Arguments", "Event", "Intent"]

Arguments = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Intent:
    """An action that may be done: what it will need, and what to say beforehand.

    `arguments` are plain JSON values for the later steps. `ticks` is how long it
    takes from the acceptance to the outcome, at least 1.
    """

    arguments: Arguments
    preview: dict[str, Any]
    ticks: int = 1


Prepare = Callable[[State, Player, Arguments], Intent]
Begin = Callable[[State, Player, Arguments], None]
Finish = Callable[[State, Player, Arguments], list[Event]]


def _nothing(state: State, player: Player, arguments: Arguments) -> None:
    """Most actions have no beginning of their own."""


@dataclass(frozen=True, slots=True)
class Action:
    """One action.

    `prepare` changes nothing and raises GameError when the action is impossible.
    `begin` runs at the first tick after the acceptance, `finish` at the last; it
    raises GameError when the action has become impossible meanwhile. The first
    event that `finish` gives is the action's own result. `needs`: "space" or "dock",
    where a later era undocks or docks the ship by itself.
    """

    name: str
    prepare: Prepare
    finish: Finish
    begin: Begin = field(default=_nothing)
    needs: str = ""
