"""The facts that a section shows, and the view of a snapshot they are read from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

from memory.gamestate.names import Names, name_of
from memory.gamestate.values import first, line

MAX_ITEMS = 1000


@dataclass(frozen=True, slots=True)
class Fact:
    """One line: ``label: value``, read from the JSON ``paths``.

    ``items`` stand in the line, ``children`` below it as (what, how much) with
    ``between`` in the middle. Both lists may be shortened, the value never.
    """

    label: str
    value: str = ""
    paths: tuple[str, ...] = ()
    items: tuple[str, ...] = ()
    children: tuple[tuple[str, str], ...] = ()
    between: str = ": "


@dataclass(frozen=True, slots=True)
class View:
    """A snapshot's content, and what is known beside it.

    ``ship_elsewhere`` and ``cargo_elsewhere`` say that another snapshot, at least as
    new, shows the ship's numbers, or the items in its hold.
    """

    content: Mapping[str, object]
    names: Names = field(default_factory=dict)
    ship_elsewhere: bool = False
    cargo_elsewhere: bool = False

    def get(self, *paths: str) -> object:
        """The value at the first path that holds something."""
        return first(self.content, *paths)

    def name(self, value: object) -> str:
        """A thing's name: an id looked up, an object by its own name."""
        if isinstance(value, Mapping):
            named = first(value, "name", "title", "username")
            return line(named) or self.name(
                first(value, "id", "system_id", "poi_id", "item_id")
            )
        return name_of(self.names, value)


def items_of(value: object) -> list[object]:
    """The first thousand entries of a list, or of an object keyed by id."""
    if isinstance(value, Mapping):
        return list(islice(value.values(), MAX_ITEMS))
    return value[:MAX_ITEMS] if isinstance(value, list) else []


def count_of(value: object) -> int:
    """How many entries there are, however many."""
    return len(value) if isinstance(value, (Mapping, list)) else 0


def dicts_of(value: object) -> Iterator[Mapping[str, object]]:
    """The objects of a list."""
    return (item for item in items_of(value) if isinstance(item, Mapping))


def fact(label: str, value: str, *paths: str) -> Iterator[Fact]:
    """A fact, or nothing where the value is unknown."""
    if value:
        yield Fact(label, value, paths)


def transit(view: View) -> Iterator[Fact]:
    """Where the ship is on its way to, in answers given during a flight."""
    place = "location." if view.get("location.in_transit") is True else ""
    if view.get(f"{place}in_transit") is not True:
        return
    to = view.name(
        view.get(*(f"{place}{k}" for k in ("to_poi", "to_system", "destination")))
    )
    ticks = line(view.get(f"{place}ticks_remaining"))
    words = ("Yes", to and f"to {to}", ticks and f"({ticks} ticks left)")
    yield Fact("In transit", " ".join(filter(None, words)), (f"{place}in_transit",))
