"""Facts, and the view of a snapshot that they are read from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

from memory.gamestate.names import Names, name_of
from memory.gamestate.values import first, line

MAX_ITEMS = 1000


@dataclass(frozen=True, slots=True)
class Fact:
    """One line: ``label: value``, with a list in the line or lines below it.

    ``items`` stand in the line itself. ``children`` stand below it, as (what, how
    much), with ``between`` in the middle. Both may be shortened at their borders,
    the value never.
    """

    label: str
    value: str = ""
    paths: tuple[str, ...] = ()
    items: tuple[str, ...] = ()
    children: tuple[tuple[str, str], ...] = ()
    between: str = ": "


@dataclass(frozen=True, slots=True)
class View:
    """A snapshot's content with what is known around it.

    ``ship_elsewhere`` and ``cargo_elsewhere`` say that a snapshot at least as new
    tells of the ship, or of the items in its hold.
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
    """The entries of a list, of null, or of an object keyed by id.

    The first thousand: nobody reads on, and a hostile answer may have millions.
    """
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
    """A fact with a value; nothing where the value is unknown."""
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
    words = " ".join(
        [
            "Yes",
            *([f"to {to}"] if to else []),
            *([f"({ticks} ticks left)"] if ticks else []),
        ]
    )
    yield Fact("In transit", words, (f"{place}in_transit",))
