"""The galaxy as a drawing, made from what get_map told, with the fleet's ships on it."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

from agents.models import Mysis
from memory.gamestate.values import find_first, unwrap_content
from memory.models import GameSnapshot

TOOL = "get_map"
WIDTH = 1000.0
MARGIN = 24.0
# The place of a ship in no system that the map has.
LOST = ""
# Where a ship is, in the order in which it is asked.
PLACES = (
    ("get_status", ("player.current_system", "current_system")),
    ("get_system", ("system.id", "system_id", "id")),
)


@dataclass(frozen=True, slots=True)
class Star:
    """A system in the drawing's own measures."""

    id: str
    name: str
    empire: str
    x: float
    y: float
    visited: bool


@dataclass(frozen=True, slots=True)
class Chart:
    """All systems. ``lanes`` is one path for all connections."""

    stars: Mapping[str, Star]
    lanes: str
    width: float
    height: float
    seen_by: str
    at: datetime


@dataclass(frozen=True, slots=True)
class ShipGroup:
    """The ships in one system; a label beside it names the first of them."""

    star: Star
    ships: Sequence[Mysis]

    @property
    def label(self) -> str:
        count = len(self.ships)
        return self.ships[0].name if count == 1 else f"{count} ships"

    @property
    def leads(self) -> bool:
        """Whether the label stands to the left, where the right edge is near."""
        return self.star.x > WIDTH * 0.8

    @property
    def state(self) -> str:
        order = ("errored", "running", "idle", "stopped")
        return min((ship.state for ship in self.ships), key=order.index)


@dataclass(frozen=True, slots=True)
class ShipsOnMap:
    """Where the ships are, and those of which nobody knows it."""

    groups: Sequence[ShipGroup]
    lost: Sequence[Mysis]


def load_chart() -> Chart | None:
    """The newest map that any account has; None while nobody asked for one."""
    rows = GameSnapshot.objects.filter(tool_name=TOOL).order_by("-captured_at")
    row = rows.values_list("pk", "captured_at", "username").first()
    return _drawn(*row) if row else None


@lru_cache(maxsize=4)
def _drawn(pk: int, at: datetime, username: str) -> Chart | None:
    """One snapshot is drawn once per process: reading 190 KB takes its time."""
    content = GameSnapshot.objects.filter(pk=pk).values_list("content", flat=True)
    body = content.first()
    return draw_chart(read_systems(body), username, at) if body else None


def read_systems(content: str) -> list[Mapping[str, Any]]:
    """The systems of an answer; none where it has another shape."""
    try:
        found = json.loads(content)
    except ValueError:
        return []
    listed = found.get("systems") if isinstance(found, dict) else None
    listed = listed if isinstance(listed, list) else []
    return [s for s in listed if isinstance(s, dict) and _place(s) is not None]


def _place(system: Mapping[str, Any]) -> tuple[float, float] | None:
    position = system.get("position")
    if not isinstance(position, dict):
        return None
    x, y = position.get("x"), position.get("y")
    if not isinstance(x, int | float) or not isinstance(y, int | float):
        return None
    return float(x), float(y)


def draw_chart(
    systems: Sequence[Mapping[str, Any]], username: str, at: datetime
) -> Chart | None:
    """The systems scaled to the drawing's width; None for none at all."""
    places = {_id(s): place for s in systems if (place := _place(s)) is not None}
    if not places:
        return None
    xs, ys = zip(*places.values(), strict=True)
    left, right, top, bottom = min(xs), max(xs), min(ys), max(ys)
    scale = (WIDTH - 2 * MARGIN) / max(right - left, (bottom - top) / 1.2, 1.0)
    stars: dict[str, Star] = {}
    for system in systems:
        x, y = places[_id(system)]
        x, y = MARGIN + (x - left) * scale, MARGIN + (y - top) * scale
        stars[_id(system)] = _star(system, round(x, 1), round(y, 1))
    return Chart(
        stars=stars,
        lanes=_lanes(systems, stars),
        width=round((right - left) * scale + 2 * MARGIN, 1),
        height=round((bottom - top) * scale + 2 * MARGIN, 1),
        seen_by=username,
        at=at,
    )


def _id(system: Mapping[str, Any]) -> str:
    return str(system.get("system_id") or system.get("id") or "")


def _star(system: Mapping[str, Any], x: float, y: float) -> Star:
    return Star(
        id=_id(system),
        name=str(system.get("name") or _id(system)),
        empire=str(system.get("empire") or ""),
        x=x,
        y=y,
        visited=bool(system.get("visited")),
    )


def _lanes(systems: Iterable[Mapping[str, Any]], stars: Mapping[str, Star]) -> str:
    drawn: set[tuple[str, str]] = set()
    for system in systems:
        connections = system.get("connections")
        for other in connections if isinstance(connections, list) else []:
            one, two = sorted((_id(system), str(other)))
            if one in stars and two in stars and one != two:
                drawn.add((one, two))
    return "".join(
        f"M{stars[a].x:g} {stars[a].y:g}L{stars[b].x:g} {stars[b].y:g}"
        for a, b in sorted(drawn)
    )


def place_ships(found: Chart) -> ShipsOnMap:
    """All Myses with an account, by the system in which their ship was last seen."""
    rows = Mysis.objects.exclude(account=None).select_related("account")
    flown = list(rows.order_by("name"))
    where = _load_ship_places([m.account.username for m in flown if m.account])
    groups: defaultdict[str, list[Mysis]] = defaultdict(list)
    for mysis in flown:
        place = where.get(mysis.account.username if mysis.account else "", "")
        groups[place if place in found.stars else LOST].append(mysis)
    lost = groups.pop(LOST, [])
    return ShipsOnMap(
        [ShipGroup(found.stars[place], ships) for place, ships in groups.items()], lost
    )


def _load_ship_places(usernames: Sequence[str]) -> dict[str, str]:
    """The system of each account's ship, by what is known of it now."""
    tools = [tool for tool, _ in PLACES]
    rows = GameSnapshot.objects.filter(
        username__in=usernames, tool_name__in=tools, args_key="", logged_out_at=None
    ).order_by("captured_at")
    found: dict[str, str] = {}
    paths = dict(PLACES)
    for row in rows:
        content = unwrap_content(row.to_snapshot().current)
        place = find_first(content, *paths[row.tool_name]) if content else None
        if isinstance(place, str) and place:
            found[row.username] = place
    return found
