"""The map of the galaxy as text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sandbox.game.places import System, World
from sandbox.game.views import position_view


class Chart:
    """The map's text with only the changing parts left open.

    Rendering 505 systems for each of many players would cost more than the rest of
    the game: everything that never changes is made once, and `text` only joins.
    """

    def __init__(self, world: World) -> None:
        self._pieces = [(star.id, *_halves(star)) for star in world.systems.values()]

    def text(self, crowd: Mapping[str, int], visited: Mapping[str, str]) -> str:
        """Give the whole answer of get_map as indented JSON."""
        parts = [
            f"{before}{_changing(crowd.get(name, 0), visited.get(name, ''))}{after}"
            for name, before, after in self._pieces
        ]
        listed = ",\n".join(parts)
        return f'{{\n  "systems": [\n{listed}\n  ],\n  "total_count": {len(parts)}\n}}'


def _changing(online: int, visited_at: str) -> str:
    """The three lines of a system that differ from call to call."""
    return (
        f'      "online": {online},\n'
        f'      "visited": {"true" if visited_at else "false"},\n'
        f'      "visited_at": "{visited_at}"'
    )


def _halves(star: System) -> tuple[str, str]:
    """Give what stands before and after the changing lines of a system."""
    empire = {"empire": star.empire} if star.empire else {}
    before: dict[str, Any] = {
        "system_id": star.id,
        "name": star.name,
        "position": position_view(star.position),
        "connections": star.connections,
        **empire,
        "poi_count": len(star.known()),
    }
    after: dict[str, Any] = (
        {"description": star.description} if star.description else {}
    )
    if star.stronghold:
        after["is_stronghold"] = True
    ends = _indented(after)
    return "    {\n" + _indented(before) + ",\n", (
        f",\n{ends}" if ends else ""
    ) + "\n    }"


def _indented(view: dict[str, Any]) -> str:
    """Render an object's members as they stand four spaces deep."""
    if not view:
        return ""
    lines = json.dumps(view, indent=2, ensure_ascii=False).splitlines()[1:-1]
    return "\n".join(f"    {line}" for line in lines)
