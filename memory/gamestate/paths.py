"""JSON paths: ``player.credits``, ``ship.cargo``, ``missions.*.current``.

A path names the value it leads to and everything below it. ``*`` stands for every
element of a list or every value of an object; a path whose ``*`` meets an empty
list names nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

MAX_BRANCHES = 200
ENVELOPES = ("structuredContent", "data", "result", "payload", "response")


def primary(content: object) -> object:
    """The value that facts are read from.

    A result of several content blocks is kept as a list of them; its first object
    carries the facts. Of an envelope it is what is inside.
    """
    if isinstance(content, list):
        content = next((part for part in content if isinstance(part, Mapping)), content)
    if isinstance(content, Mapping):
        inner = (content.get(key) for key in ENVELOPES)
        return next((part for part in inner if isinstance(part, Mapping)), content)
    return content


def lookup(content: object, path: str) -> object:
    """The value at a path without ``*``, or None where there is none."""
    value = content
    for key in path.split("."):
        if not isinstance(value, Mapping):
            return None
        value = value.get(key)
    return value


def first(content: object, *paths: str) -> object:
    """The first of several paths that holds something."""
    for path in paths:
        value = lookup(content, path)
        if value is not None:
            return value
    return None


def names_something(content: object, path: str) -> bool:
    """Whether a path applies to this content.

    A missing last key still counts: ``player.docked_at_base`` is absent while the
    ship is in space, and that absence is the fact.
    """
    values = [content]
    *parents, _ = path.split(".")
    for key in parents:
        values = [child for value in values for child in _children(value, key)]
        if not values:
            return False
    last = path.rsplit(".", 1)[-1]
    if last == "*":
        return any(_children(value, "*") for value in values)
    return any(isinstance(value, Mapping) for value in values)


def _children(value: object, key: str) -> list[object]:
    if key == "*":
        if isinstance(value, Mapping):
            return list(value.values())[:MAX_BRANCHES]
        return value[:MAX_BRANCHES] if isinstance(value, list) else []
    if isinstance(value, Mapping) and key in value:
        return [value[key]]
    return []


def overlap(one: str, other: str) -> bool:
    """Whether two paths speak of a common value: one leads to or into the other."""
    return all(
        "*" in pair or pair[0] == pair[1]
        for pair in zip(one.split("."), other.split("."), strict=False)
    )


def head(path: str) -> str:
    """The first key of a path."""
    return path.split(".", 1)[0]
