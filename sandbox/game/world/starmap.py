"""Where the stars are, which of them are joined, and the map of them as text."""

from __future__ import annotations

import heapq
import json
import math
from collections.abc import Mapping
from random import Random

from sandbox.game.config import Json
from sandbox.game.world.places import Position, System, World

MOST_CONNECTIONS = 8
_MEAN_CONNECTIONS = 4.2
_SPACING = 222.0  # half the usual distance of neighbours
_CLOSEST = 120.0


def scatter_points(count: int, taken: list[Position], rng: Random) -> list[Position]:
    """Find `count` free points in a disc whose size follows from the number of stars."""
    radius = _SPACING * math.sqrt(count + len(taken))
    points: list[Position] = []
    while len(points) < count:
        # The square root makes the points even over the disc's area.
        reach, angle = radius * math.sqrt(rng.random()), rng.random() * math.tau
        points.append(_free(Position(0, 0), reach, angle, taken + points))
    return points


def place_near(centre: Position, taken: list[Position], rng: Random) -> Position:
    return _free(centre, rng.uniform(250, 1300), rng.random() * math.tau, taken)


def _free(
    centre: Position, reach: float, angle: float, taken: list[Position]
) -> Position:
    """Move outwards along the ray until no star is too close."""
    while True:
        point = Position(
            round(centre.x + reach * math.cos(angle), 2),
            round(centre.y + reach * math.sin(angle), 2),
        )
        if all(point.distance(other) >= _CLOSEST for other in taken):
            return point
        reach += _CLOSEST


def connect_points(points: list[Position], rng: Random) -> list[set[int]]:
    """Join the stars: every one reachable, at most 8 connections, about 4.2 each.

    A shortest spanning tree makes the map whole (none of its points has more than
    six neighbours); joints between near stars are added until the mean is met.
    """
    joined: list[set[int]] = [set() for _ in points]
    for left, right in _spanning_tree(points):
        joined[left].add(right)
        joined[right].add(left)
    near = _near_pairs(points)
    rng.shuffle(near)
    missing = round(len(points) * _MEAN_CONNECTIONS / 2) - (len(points) - 1)
    for left, right in near:
        if missing <= 0:
            break
        full = max(len(joined[left]), len(joined[right])) >= MOST_CONNECTIONS
        if full or right in joined[left]:
            continue
        joined[left].add(right)
        joined[right].add(left)
        missing -= 1
    return joined


def _spanning_tree(points: list[Position]) -> list[tuple[int, int]]:
    """Prim's algorithm on the full graph of distances."""
    nearest = dict.fromkeys(range(1, len(points)), 0)
    distance = {index: points[0].distance(points[index]) for index in nearest}
    edges: list[tuple[int, int]] = []
    while nearest:
        new = min(distance, key=distance.__getitem__)
        edges.append((nearest.pop(new), new))
        del distance[new]
        for index, known in distance.items():
            reach = points[new].distance(points[index])
            if reach < known:
                distance[index] = reach
                nearest[index] = new
    return edges


def _near_pairs(points: list[Position], each: int = 8) -> list[tuple[int, int]]:
    pairs: set[tuple[int, int]] = set()
    for index, point in enumerate(points):
        others = (other for other in range(len(points)) if other != index)
        close = heapq.nsmallest(
            each, others, key=lambda other: point.distance(points[other])
        )
        pairs.update((min(index, other), max(index, other)) for other in close)
    return sorted(pairs)


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
    visited = "true" if visited_at else "false"
    return (
        f'      "online": {online},\n      "visited": {visited},\n'
        f'      "visited_at": "{visited_at}"'
    )


def _halves(star: System) -> tuple[str, str]:
    """Give what stands before and after the changing lines of a system."""
    empire = {"empire": star.empire} if star.empire else {}
    before: Json = {
        "system_id": star.id,
        "name": star.name,
        "position": star.position.view,
        "connections": star.connections,
        **empire,
        "poi_count": len(star.known()),
    }
    after: Json = {"description": star.description} if star.description else {}
    if star.stronghold:
        after["is_stronghold"] = True
    ends = f",\n{_indent(after)}" if after else ""
    return f"    {{\n{_indent(before)},\n", f"{ends}\n    }}"


def _indent(view: Json) -> str:
    lines = json.dumps(view, indent=2, ensure_ascii=False).splitlines()[1:-1]
    return "\n".join(f"    {line}" for line in lines)
