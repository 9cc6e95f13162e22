"""Which id stands for which name, learnt from all snapshots of the account."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping

from memory.gamestate.types import Snapshot
from memory.gamestate.values import HUGE, is_number, line

MAX_NODES = 40_000
"""Objects looked at in one snapshot: a whole galaxy map has a few thousand."""

# An object's own id stands with its name; some speak of another thing by pairs.
_OWN = (
    ("id", "name"),
    ("system_id", "name"),
    ("item_id", "name"),
    ("resource_id", "name"),
    ("skill_id", "name"),
)
_PAIRS = (
    ("item_id", "item_name"),
    ("resource_id", "resource_name"),
    ("base_id", "base_name"),
    ("poi_id", "poi_name"),
    ("system_id", "system_name"),
    ("class_id", "class_name"),
)
# How answers to actions, routes and events name places.
_TOLD = (
    ("destination_id", "destination"),
    ("base_id", "base"),
    ("poi_id", "poi"),
    ("system_id", "system"),
    ("item_id", "item"),
)
MOST_LEARNT = 2_000

Names = Mapping[str, str]


def known_names(snapshots: Iterable[Snapshot]) -> dict[str, str]:
    """Names by id; what was captured later wins."""
    names: dict[str, str] = {}
    for snapshot in snapshots:
        for item in _objects(snapshot.current):
            names.update(_of(item))
    return names


def learnt(content: object) -> dict[str, str]:
    """Names that one answer or event of the game tells of, by id."""
    names: dict[str, str] = {}
    for item in _objects(content):
        for key, named in _TOLD:
            names.update(_pair(item, key, named))
        names.update(_of(item))
        if len(names) >= MOST_LEARNT:
            break
    return {key: name for key, name in names.items() if key != name}


def sizes(content: object) -> dict[str, float]:
    """The space that one of each item takes, as an answer tells it."""
    found: dict[str, float] = {}
    for item in _objects(content):
        name, size = item.get("item_id"), item.get("size")
        if not isinstance(name, str) or len(found) >= MOST_LEARNT:
            continue
        if isinstance(size, (int, float)) and is_number(size) and 0 < size < HUGE:
            found[name] = size
    return found


def _of(item: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    for key, named in _OWN:
        if key in item:
            yield from _pair(item, key, named)
            break
    for key, named in _PAIRS:
        yield from _pair(item, key, named)


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
    for _ in range(MAX_NODES):
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
