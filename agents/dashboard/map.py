"""The galaxy as a drawing, made from what get_map told, with the fleet's ships on it.

Names are laid out here, for several scales: a browser only shows the layers for which
it has come close enough. Behind each ship is the way that it came, by its last jumps.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from itertools import pairwise
from typing import Any

from django.utils import timezone

from agents.dashboard.shared_results import shared, time_bucket
from agents.models import Mysis
from memory.gamestate.values import find_first, parse_text, unwrap_content
from memory.models import GameSnapshot, fetch_rows

TOOL = "get_map"
WIDTH = 1000.0
MARGIN = 24.0
# The place of a ship in no system that the map has.
LOST = ""
# Pixels of the screen to a unit of the drawing, from which on a layer of names is shown.
SCALES = (0.25, 0.45, 0.7, 1.2, 2.0, 4.0, 8.0)
# Pixels that a name takes: it stands above its star, that of an empire above all of its stars.
NAME_HEIGHT, NAME_LETTER, EMPIRE_HEIGHT, EMPIRE_LETTER = 13.0, 6.4, 18.0, 12.0
# Empires that have a colour of their own.
TONES = 6
# Systems of a trail, the messages that it is read from, and ships that have one.
TRAIL, TRAIL_MESSAGES, TRAILS = 8, 300, 50
_JUMPS = """
SELECT flown.id, hop.target, hop.at
FROM unnest(%s::bigint[]) AS flown(id) CROSS JOIN LATERAL (
  SELECT args ->> 'target_system' AS target, created_at AS at, recent.id FROM (
    SELECT id, args, created_at, tool_name, is_error, pending FROM memory_memory
    WHERE mysis_id = flown.id ORDER BY id DESC LIMIT %s
  ) AS recent
  WHERE tool_name = 'jump' AND NOT is_error AND NOT pending
  ORDER BY id DESC LIMIT %s
) AS hop ORDER BY hop.id
"""
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
class Empire:
    """The systems of an empire, "" for those of none; its name stands at their top."""

    name: str
    tone: int
    stars: Sequence[Star]
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class NameLayer:
    """The names that have room from a scale on, beside those of all smaller ones."""

    scale: float
    stars: Sequence[Star]


@dataclass(frozen=True, slots=True)
class Chart:
    """All systems. ``lanes`` is one path for all connections."""

    stars: Mapping[str, Star]
    empires: Sequence[Empire]
    names: Sequence[NameLayer]
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
class Trail:
    """The systems that a ship was in, the oldest first and the last where it is now."""

    ship: Mysis
    stars: Sequence[Star]
    jumped_at: datetime

    @property
    def words(self) -> str:
        return ", ".join(star.name for star in self.stars)

    @property
    def steps(self) -> Iterator[tuple[int, Star, Star]]:
        """Each jump with how many ago it was, the newest as 1."""
        count = len(self.stars) - 1
        for place, (one, two) in enumerate(pairwise(self.stars)):
            yield count - place, one, two


@dataclass(frozen=True, slots=True)
class ShipsOnMap:
    """Where the ships are and how they came there, and those of which nobody knows it."""

    groups: Sequence[ShipGroup]
    lost: Sequence[Mysis]
    trails: Sequence[Trail]


def load_chart() -> Chart | None:
    """The newest whole map that anybody was told; None while nobody asked for one."""
    rows = GameSnapshot.objects.filter(tool_name=TOOL, args_key="")
    row = (
        rows.order_by("-captured_at")
        .values_list("pk", "captured_at", "username")
        .first()
    )
    return _drawn(*row) if row else None


@lru_cache(maxsize=4)
def _drawn(pk: int, at: datetime, username: str) -> Chart | None:
    """One snapshot is drawn once per process: reading 190 KB takes its time."""
    content = GameSnapshot.objects.filter(pk=pk).values_list("content", flat=True)
    body = content.first()
    return draw_chart(read_systems(body), username, at) if body else None


def read_systems(content: str) -> list[Mapping[str, Any]]:
    """The systems of an answer; none where it has another shape."""
    found = parse_text(content)
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
    empires = _find_empires(stars.values())
    return Chart(
        stars=stars,
        empires=empires,
        names=_lay_out_names(stars.values(), empires),
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


def _find_empires(stars: Iterable[Star]) -> list[Empire]:
    """The empires by name; first the systems of none, where there are any."""
    groups: defaultdict[str, list[Star]] = defaultdict(list)
    for star in stars:
        groups[star.empire].append(star)
    return [
        Empire(
            name,
            number % TONES,
            found,
            x=round(sum(star.x for star in found) / len(found), 1),
            y=min(star.y for star in found),
        )
        for number, (name, found) in enumerate(sorted(groups.items()))
    ]


class _Sheet:
    """Boxes of names at one scale, none of which covers another."""

    def __init__(self, scale: float) -> None:
        self._scale = scale
        self._rows: defaultdict[int, list[tuple[float, ...]]] = defaultdict(list)

    def take(self, x: float, y: float, width: float, height: float, low: float) -> bool:
        """Take a box where it is free, ``low`` pixels below a spot of the drawing.

        Width and height are in pixels.
        """
        left, bottom = x * self._scale - width / 2, y * self._scale + low
        box = left, left + width, bottom - height, bottom
        rows = range(int(box[2] // NAME_HEIGHT), int(box[3] // NAME_HEIGHT) + 1)
        if any(_overlap(box, one) for row in rows for one in self._rows[row]):
            return False
        for row in rows:
            self._rows[row].append(box)
        return True


def _overlap(one: Sequence[float], two: Sequence[float]) -> bool:
    across = one[0] < two[1] and two[0] < one[1]
    return across and one[2] < two[3] and two[2] < one[3]


def _lay_out_names(stars: Iterable[Star], empires: Iterable[Empire]) -> list[NameLayer]:
    """The names in layers; those of empires' systems and of visited ones come first."""
    left = sorted(stars, key=lambda star: (not star.empire, not star.visited))
    shown: list[Star] = []
    layers: list[NameLayer] = []
    for scale in SCALES:
        sheet = _Sheet(scale)
        for one in empires:
            width = len(one.name) * EMPIRE_LETTER
            sheet.take(one.x, one.y, width, EMPIRE_HEIGHT, low=-NAME_HEIGHT - 4)
        for star in shown:
            _take_name(sheet, star)
        added = [star for star in left if _take_name(sheet, star)]
        left = [star for star in left if star not in added]
        shown += added
        layers.append(NameLayer(scale, added))
    return layers


def _take_name(sheet: _Sheet, star: Star) -> bool:
    width = len(star.name) * NAME_LETTER
    return sheet.take(star.x, star.y, width, NAME_HEIGHT, low=-4)


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
    trails = _find_trails(found, flown, where)
    for mysis in flown:
        place = where.get(mysis.account.username if mysis.account else "", "")
        groups[place if place in found.stars else LOST].append(mysis)
    lost = groups.pop(LOST, [])
    placed = [ShipGroup(found.stars[place], ships) for place, ships in groups.items()]
    return ShipsOnMap(placed, lost, trails)


def _find_trails(
    chart: Chart, flown: Sequence[Mysis], where: Mapping[str, str]
) -> list[Trail]:
    """The ways of the ships that jumped last, by the names of their Myses."""
    ids = tuple(mysis.pk for mysis in flown)
    key = ("jumps", ids, time_bucket(timezone.now()))
    jumps = shared.get(key, lambda: _load_jumps(ids))
    by_name = {star.name.casefold(): star.id for star in chart.stars.values()}
    found: list[Trail] = []
    for mysis in flown:
        hops = jumps.get(mysis.pk, ())
        here = where.get(mysis.account.username if mysis.account else "", "")
        places = [by_name.get(target.casefold(), target) for target, _ in hops]
        known = [place for place in _follow(places, here) if place in chart.stars]
        stars = [chart.stars[place] for place in known[-TRAIL:]]
        if len(stars) > 1:
            found.append(Trail(mysis, stars, hops[-1][1]))
    newest = sorted(found, key=lambda one: one.jumped_at, reverse=True)[:TRAILS]
    return sorted(newest, key=lambda one: one.ship.name)


def _load_jumps(ids: Sequence[int]) -> Mapping[int, Sequence[tuple[str, datetime]]]:
    """The targets of the last jumps by Mysis, the oldest first; one statement."""
    found: defaultdict[int, list[tuple[str, datetime]]] = defaultdict(list)
    for pk, target, at in fetch_rows(_JUMPS, [list(ids), TRAIL_MESSAGES, TRAIL]):
        if target:
            found[pk].append((target, at))
    return found


def _follow(targets: Sequence[str], here: str) -> list[str]:
    """The systems in turn; a jump that has not arrived yet is none of them."""
    if here and len(targets) > 1 and targets[-1] != here == targets[-2]:
        targets = targets[:-1]
    way = [*targets, here] if here else [*targets]
    return [place for n, place in enumerate(way) if n == 0 or place != way[n - 1]]


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
