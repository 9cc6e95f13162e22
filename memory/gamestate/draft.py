"""A snapshot's content while events change those values that it has in a known form."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeGuard

from memory.gamestate.values import find_value, is_number, unwrap_content

_ITEM_LISTS = ("ship.cargo", "cargo", "items")
_USED = ("ship.cargo_used", "cargo_used", "used")
_FREE = ("available", "cargo_available")
# These take one unit of space in every recorded answer.
_ORE = re.compile(r"^ore_|_ore$")
_HOLDS = frozenset({"get_status", "get_state", "get_ship", "get_cargo"})


@dataclass(slots=True)
class Draft:
    """A copy of a snapshot's content, and the ticks at which paths of it were written.

    ``fixed`` paths were set to a value, ``written`` are these and the counted ones;
    ``failed`` paths could not be counted. Paths begin at ``root``.
    """

    tool: str
    content: Any
    sizes: Mapping[str, float] = field(default_factory=dict)
    written: dict[str, int] = field(default_factory=dict)
    fixed: dict[str, int] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)
    tick: int = 0
    root: Any = field(init=False)

    def __post_init__(self) -> None:
        self.content = copy.deepcopy(self.content)
        # Found once: an event asks for many paths, and there are many events.
        self.root = unwrap_content(self.content)

    def get(self, path: str) -> object:
        return find_value(self.root, path)

    def put(self, path: str, value: object, *, absent: bool = False) -> bool:
        """Write a value; with ``absent`` also where the content has none."""
        parent, key = self._parent(path)
        if parent is None or (key not in parent and not absent):
            return False
        parent[key] = value
        self.written[path] = self.fixed[path] = self.tick
        return True

    def drop(self, path: str) -> bool:
        """Remove a value, where its absence is the fact."""
        parent, key = self._parent(path)
        if parent is None:
            return False
        parent.pop(key, None)
        self.written[path] = self.fixed[path] = self.tick
        return True

    def add(self, path: str, amount: float) -> bool:
        """Count a number up or down, never below 0."""
        value = self.get(path)
        parent, key = self._parent(path)
        if parent is None or value is None:
            return False
        if not is_number(value):
            self.failed.append(path)
            return False
        parent[key] = max(0, value + amount)
        self.written[path] = self.tick
        return True

    def note(self, path: str) -> None:
        """Note that something below a path was changed."""
        self.written[path] = self.tick

    def _parent(self, path: str) -> tuple[dict[str, Any] | None, str]:
        *parents, key = path.split(".")
        place = self.get(".".join(parents)) if parents else self.root
        return (place if isinstance(place, dict) else None), key

    def load(self, item_id: str, amount: float, name: str = "") -> tuple[bool, bool]:
        """Change the hold; whether its items, and the space used, are right then."""
        size = self._size(item_id)
        listed = [self._stock(p, item_id, amount, name) for p in self._item_lists()]
        items = bool(listed) and all(listed)
        if size is None:
            return items, False
        used = [self.add(path, amount * size) for path in _USED]
        for path in _FREE:
            self.add(path, -amount * size)
        return items, any(used)

    def _item_lists(self) -> list[str]:
        if self.tool not in _HOLDS:
            return []
        paths = _ITEM_LISTS if self.tool == "get_cargo" else _ITEM_LISTS[:2]
        places = ((path, *self._parent(path)) for path in paths)
        return [
            path
            for path, parent, key in places
            if parent is not None
            and isinstance(parent.get(key, ""), (list, type(None)))
        ]

    def _stock(self, path: str, item_id: str, amount: float, name: str) -> bool:
        parent, key = self._parent(path)
        if parent is None:
            return False
        items: list[Any] = parent[key] or []
        parent[key] = items
        held = next((i for i in items if is_entry(i, "item_id", item_id)), None)
        if held is None and amount >= 0:
            named = {"name": name} if name else {}
            held = {"item_id": item_id, **named, "quantity": 0}
            items.append(held)
        before = held.get("quantity") if held is not None else None
        if held is None or not isinstance(before, (int, float)):
            return False
        held["quantity"] = before + amount
        if held["quantity"] <= 0:
            items.remove(held)
        self.note(path)
        return bool(before + amount >= 0)

    def _size(self, item_id: str) -> float | None:
        """The space that one of an item takes, None where nothing tells it."""
        if item_id in self.sizes:
            return self.sizes[item_id]
        if _ORE.search(item_id):
            return 1
        for path in self._item_lists():
            listed = self.get(path)
            items = listed if isinstance(listed, list) else []
            items = [item for item in items if isinstance(item, dict)]
            if any(is_entry(i, "item_id", item_id) for i in items) and self._all_of_one(
                items
            ):
                return 1
        return None

    def _all_of_one(self, items: list[dict[str, Any]]) -> bool:
        """Whether as much space is used as there are items: all have size 1."""
        counts = [item.get("quantity") for item in items]
        if not all(isinstance(c, int) for c in counts):
            return False
        used = next((u for p in _USED if is_number(u := self.get(p))), None)
        return used is not None and used == sum(c for c in counts if c is not None)


def is_entry(item: object, key: str, value: object) -> TypeGuard[dict[str, Any]]:
    """Whether an entry of a list is the one with this value."""
    return isinstance(item, dict) and item.get(key) == value
