"""The facts that a section shows, and what they are read from.

A view is a snapshot's content with what is known beside it; names and sizes of things
are learnt by id from all that the game answered.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

from memory.gamestate.types import Snapshot
from memory.gamestate.values import (
    HUGE,
    find_first,
    format_line,
    is_number,
    unwrap_content,
    walk_objects,
)

Names = Mapping[str, str]

MAX_ITEMS = 1000
# Objects looked at in one snapshot: a whole galaxy map has a few thousand.
_MAX_NODES = 40_000
_MOST_LEARNT = 2_000
# An object's own id stands beside its `name`, under the first of these keys.
_OWN = ("id", "system_id", "item_id", "resource_id", "skill_id")
# Other things are named by a pair: `item_id` and `item_name`.
_OTHERS = ("item", "resource", "base", "poi", "system", "class")
# Answers to actions, routes and events name places so: `poi_id` and `poi`.
_PLACES = ("destination", "base", "poi", "system", "item")


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
        return find_first(self.content, *paths)

    def name(self, value: object) -> str:
        """A thing's name: an object's own; that of an id, else the id itself."""
        if isinstance(value, Mapping):
            named = find_first(value, "name", "title", "username")
            return format_line(named) or self.name(
                find_first(value, "id", "system_id", "poi_id", "item_id")
            )
        if isinstance(value, str) and value in self.names:
            return self.names[value]
        return format_line(value)


def list_entries(value: object) -> list[object]:
    """The first thousand entries of a list, or of an object keyed by id."""
    if isinstance(value, Mapping):
        return list(islice(value.values(), MAX_ITEMS))
    return value[:MAX_ITEMS] if isinstance(value, list) else []


def count_entries(value: object) -> int:
    """How many entries there are, however many."""
    return len(value) if isinstance(value, (Mapping, list)) else 0


def list_objects(value: object) -> Iterator[Mapping[str, object]]:
    """The objects of a list."""
    return (item for item in list_entries(value) if isinstance(item, Mapping))


def make_fact(label: str, value: str, *paths: str) -> Iterator[Fact]:
    """A fact, or nothing where the value is unknown."""
    if value:
        yield Fact(label, value, paths)


def read_transit(view: View) -> Iterator[Fact]:
    """Where the ship is on its way to, in answers given during a flight."""
    place = "location." if view.get("location.in_transit") is True else ""
    if view.get(f"{place}in_transit") is not True:
        return
    to = view.name(
        view.get(*(f"{place}{k}" for k in ("to_poi", "to_system", "destination")))
    )
    ticks = format_line(view.get(f"{place}ticks_remaining"))
    words = ("Yes", to and f"to {to}", ticks and f"({ticks} ticks left)")
    yield Fact("In transit", " ".join(filter(None, words)), (f"{place}in_transit",))


# --- Names and sizes


def collect_names(snapshots: Iterable[Snapshot]) -> dict[str, str]:
    """Names by id from snapshots, oldest first; later names win."""
    names: dict[str, str] = {}
    for snapshot in snapshots:
        content = snapshot.current
        if isinstance(content, str):
            content = unwrap_content(content)
        for item in walk_objects(content, _MAX_NODES):
            names.update(_pairs_of(item))
    return names


def learn_names(content: object) -> dict[str, str]:
    """Names by id from one answer or event of the game."""
    names: dict[str, str] = {}
    for item in walk_objects(content, _MAX_NODES):
        for place in _PLACES:
            names.update(_pair(item, f"{place}_id", place))
        names.update(_pairs_of(item))
        if len(names) >= _MOST_LEARNT:
            break
    return {key: name for key, name in names.items() if key != name}


def learn_sizes(content: object) -> dict[str, float]:
    """The hold space that one of each item takes, by id, from one answer."""
    found: dict[str, float] = {}
    for item in walk_objects(content, _MAX_NODES):
        name, size = item.get("item_id"), item.get("size")
        if not isinstance(name, str) or len(found) >= _MOST_LEARNT:
            continue
        if is_number(size) and 0 < size < HUGE:
            found[name] = size
    return found


def _pairs_of(item: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    own = next((key for key in _OWN if key in item), None)
    if own:
        yield from _pair(item, own, "name")
    for other in _OTHERS:
        yield from _pair(item, f"{other}_id", f"{other}_name")


def _pair(
    item: Mapping[str, object], key: str, named: str
) -> Iterator[tuple[str, str]]:
    identity, name = item.get(key), item.get(named)
    if isinstance(identity, str) and identity and isinstance(name, str):
        shown = format_line(name)
        if shown:
            yield identity, shown
