"""Items and quantities as captains name them."""

from __future__ import annotations

from sandbox.game.actions.action import Arguments
from sandbox.game.catalogue import Item, find_item
from sandbox.game.errors import GameError, unknown_item
from sandbox.game.models import Player


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


def room_for(player: Player, item: Item, count: int) -> None:
    """Raises GameError `no_cargo_space` where so many do not fit."""
    needed = count * item.size
    if needed > player.ship.cargo_free:
        raise GameError(
            "no_cargo_space",
            f"Not enough cargo space. Need {needed}, have {player.ship.cargo_free}.",
        )
