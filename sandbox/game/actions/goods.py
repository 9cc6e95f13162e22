"""Items and quantities as captains name them."""

from __future__ import annotations

from collections.abc import Mapping

from sandbox.game.actions.action import Arguments
from sandbox.game.catalogue import ITEMS, Item, find_item
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


def size_of(goods: Mapping[str, int]) -> int:
    return sum(ITEMS[name].size * count for name, count in goods.items())


def check_room(player: Player, goods: Mapping[str, int]) -> None:
    """Raises GameError `no_cargo_space` where the goods do not fit into the hold."""
    needed, free = size_of(goods), player.ship.cargo_free
    if needed > free:
        raise GameError(
            "no_cargo_space", f"Not enough cargo space. Need {needed}, have {free}."
        )
