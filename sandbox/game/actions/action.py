"""The forms of what captains do, and what most actions ask for.

An action is checked when it is asked for, and carried out at a tick. How its steps are
told to the player is the business of the era (see `eras`), so an action never knows
whether its caller waits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sandbox.game.config import GameError, not_docked_here, unknown_item
from sandbox.game.sessions import Event, Session
from sandbox.game.state import State
from sandbox.game.world.catalogue import ITEMS, Item, find_item
from sandbox.game.world.models import Player
from sandbox.game.world.places import Base
from sandbox.game.world.skills import learn

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


def base_of(state: State, player: Player) -> Base:
    """The base where a captain is docked. Raises GameError `not_docked`."""
    if not player.docked_at:
        raise not_docked_here()
    return state.world.bases[player.docked_at]


def check_credits(player: Player, needed: int) -> None:
    """Raises GameError `insufficient_credits` where there are fewer."""
    if player.credits < needed:
        raise GameError(
            "insufficient_credits", f"Need {needed} credits. You have {player.credits}."
        )


Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Call:
    """Who asks, in which session, with which checked arguments."""

    state: State
    player: Player
    session: Session
    arguments: Json

    @property
    def base(self) -> Base:
        """Where the asker is docked. Raises GameError `not_docked`."""
        return base_of(self.state, self.player)


def named_item(arguments: Arguments) -> tuple[Item, int]:
    """Read `item_id` and `quantity`; raises GameError for what is no such thing."""
    given = arguments.get("item_id", "")
    item = find_item(given)
    if item is None:
        raise unknown_item(given)
    return item, positive(arguments)


def positive(arguments: Arguments, name: str = "quantity") -> int:
    """Read a number of at least 1; raises GameError `invalid_quantity`."""
    number = int(arguments.get(name, 0))
    if number < 1:
        raise GameError(
            "invalid_quantity", f"{name.capitalize()} must be at least 1. Use '{name}'."
        )
    return number


def size_of(goods: Mapping[str, int]) -> int:
    return sum(ITEMS[name].size * count for name, count in goods.items())


def check_room(player: Player, goods: Mapping[str, int]) -> None:
    """Raises GameError `no_cargo_space` where the goods do not fit into the hold."""
    needed, free = size_of(goods), player.ship.cargo_free
    if needed > free:
        raise GameError(
            "no_cargo_space", f"Not enough cargo space. Need {needed}, have {free}."
        )


def teach(state: State, player: Player, skill_id: str, xp: int) -> bool:
    """Add experience; True when a level was gained, which era C also tells."""
    if not learn(player, skill_id, xp):
        return False
    if state.config.era == "C":
        level = player.skills[skill_id].level
        data = {"skill_id": skill_id, "new_level": level, "xp_gained": xp}
        state.tell_event(player, Event(data, "skill_level_up"))
    return True
