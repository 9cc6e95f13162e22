"""Names and sizes of things by id, learnt from what the game answered."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping

from memory.gamestate.types import Snapshot
from memory.gamestate.values import HUGE, is_number, line

Names = Mapping[str, str]

# Objects looked at in one snapshot: a whole galaxy map has a few thousand.
_MAX_NODES = 40_000
_MOST_LEARNT = 2_000
# An object's own id stands beside its `name`, under the first of these keys.
_OWN = ("id", "system_id", "item_id", "resource_id", "skill_id")
# Other things are named by a pair: `item_id` and `item_name`.
_OTHERS = ("item", "resource", "base", "poi", "system", "class")
# Answers to actions, routes and events name places so: `poi_id` and `poi`.
_PLACES = ("destination", "base", "poi", "system", "item")


def known_names(snapshots: Iterable[Snapshot]) -> dict[str, str]:
    """Names by id from snapshots, oldest first; later names win."""
    names: dict[str, str] = {}
    for snapshot in snapshots:
        for item in _objects(snapshot.current):
            names.update(_pairs_of(item))
    return names


def learnt(content: object) -> dict[str, str]:
    """Names by id from one answer or event of the game."""
    names: dict[str, str] = {}
    for item in _objects(content):
        for place in _PLACES:
            names.update(_pair(item, f"{place}_id", place))
        names.update(_pairs_of(item))
        if len(names) >= _MOST_LEARNT:
            break
    return {key: name for key, name in names.items() if key != name}


def sizes(content: object) -> dict[str, float]:
    """The hold space that one of each item takes, by id, from one answer."""
    found: dict[str, float] = {}
    for item in _objects(content):
        name, size = item.get("item_id"), item.get("size")
        if not isinstance(name, str) or len(found) >= _MOST_LEARNT:
            continue
        if isinstance(size, (int, float)) and is_number(size) and 0 < size < HUGE:
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
        shown = line(name)
        if shown:
            yield identity, shown


def _objects(content: object) -> Iterator[Mapping[str, object]]:
    queue: deque[object] = deque([content])
    for _ in range(_MAX_NODES):
        if not queue:
            return
        item = queue.popleft()
        if isinstance(item, dict):
            yield item
            queue.extend(v for v in item.values() if isinstance(v, (dict, list)))
        elif isinstance(item, list):
            queue.extend(v for v in item if isinstance(v, (dict, list)))


def name_of(names: Names, value: object) -> str:
    """The name for an id, else the id itself as a line."""
    if isinstance(value, str) and value in names:
        return names[value]
    return line(value)
