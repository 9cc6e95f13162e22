"""The world of a seed: its systems, how they are joined, what is in them, and its map."""

from __future__ import annotations

import heapq
import json
import math
import re
from collections.abc import Container, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from itertools import islice
from random import Random

from sandbox.game.config import GameError, Json, make_dice, make_view


@dataclass(frozen=True, slots=True)
class Position:
    """A point of the galaxy, or of a system around its star."""

    x: float
    y: float

    def distance(self, other: Position) -> float:
        return math.hypot(self.x - other.x, self.y - other.y)

    @property
    def view(self) -> dict[str, float]:
        return asdict(self)


@dataclass(slots=True)
class Deposit:
    """A resource at a place; `remaining` falls by mining and slowly grows back."""

    resource_id: str
    richness: int
    remaining: int
    max_remaining: int


@dataclass(frozen=True, slots=True)
class Base:
    id: str
    poi_id: str
    name: str
    description: str
    empire: str
    services: tuple[str, ...]
    facilities: tuple[str, ...]
    defense_level: int


@dataclass(slots=True)
class Poi:
    """A place in a system where a ship can be."""

    id: str
    system_id: str
    type: str
    name: str
    position: Position
    description: str = ""
    deposits: list[Deposit] = field(default_factory=list)
    base: Base | None = None
    hidden: bool = False


@dataclass(slots=True)
class System:
    """A star system; the first of its places is where jumps arrive."""

    id: str
    name: str
    position: Position
    description: str = ""
    empire: str = ""
    police_level: int = 0
    stronghold: bool = False
    connections: list[str] = field(default_factory=list)
    pois: list[Poi] = field(default_factory=list)

    def known(self, revealed: Container[str] = ()) -> list[Poi]:
        """The places that anybody sees, and those of the hidden ones that are named."""
        return [poi for poi in self.pois if not poi.hidden or poi.id in revealed]


@dataclass(slots=True)
class World:
    """All systems, with the places and bases by id."""

    systems: dict[str, System]
    pois: dict[str, Poi]
    bases: dict[str, Base]

    def find_system(self, system_id: str) -> System:
        """Raises GameError `invalid_system`."""
        if system_id not in self.systems:
            raise GameError(
                "invalid_system",
                f"Unknown system: {system_id}. Use 'search_systems' to find its ID.",
            )
        return self.systems[system_id]


@dataclass(frozen=True, slots=True)
class Capital:
    """An empire's first system with its station and its belt."""

    empire: str
    system_id: str
    name: str
    position: Position
    description: str
    planets: tuple[tuple[str, str], ...]
    station: tuple[str, str]
    base: tuple[str, str]
    base_description: str
    belt: tuple[str, str]
    towns: tuple[str, ...]


CAPITALS = (
    Capital("solarian", "sol", "Sol", Position(0, 0),
            "Where humanity began, and where the Solarian Confederacy still keeps its "
            "archives, its courts and its patience.",
            (("sol_mercury", "Mercury"), ("sol_earth", "Earth"), ("sol_mars", "Mars")),
            ("sol_station", "Sol Central"), ("sol_base", "Confederacy Central Command"),
            "The Confederacy's seat: an exchange, drydocks and three decks of green.",
            ("sol_belt", "Main Belt"),
            ("Alpha Centauri", "Sirius", "Procyon", "Tau Ceti", "Epsilon Eridani")),
    Capital("crimson", "krynn", "Krynn", Position(-2450, 1500),
            "The forge world of the Crimson Pact, lit red by its own foundries.",
            (("krynn_forge", "The Forge"), ("krynn_prime", "Krynn Prime")),
            ("krynn_station", "War Citadel"), ("krynn_base", "Crimson War Citadel"),
            "Armour plate from deck to dome, and a market that closes for nothing.",
            ("krynn_mines", "War Materials"),
            ("Bloodreach", "Ironhold", "Ashfall", "Red Harbour", "Cinder Gate")),
    Capital("voidborn", "nexus_prime", "Nexus Prime", Position(2500, 1450),
            "The quiet centre of the Voidborn, where the lights are kept low.",
            (("nexus_dark", "Dark Cradle"), ("nexus_shade", "Shade")),
            ("nexus_station", "The Core"), ("nexus_base", "Nexus Core"),
            "A station that hums. Trade is done in whispers and settled at once.",
            ("nexus_belt", "Silent Field"),
            ("Hollow Deep", "Umbra", "Stillwater", "Last Echo", "Veil")),
    Capital("nebula", "haven", "Haven", Position(2300, -1700),
            "The market of markets, run by the Nebula Trade Federation.",
            (("haven_world", "Haven Prime"), ("haven_gardens", "The Gardens")),
            ("haven_exchange", "Grand Exchange"),
            ("haven_base", "Grand Exchange Station"),
            "Three decks of stalls, lenders and kitchens around one great board.",
            ("haven_belt", "Commerce Fields"),
            ("Market Prime", "Trader's Rest", "Cargo Lanes", "Gold Run", "Fair Wind")),
    Capital("outerrim", "frontier", "Frontier", Position(-2200, -1900),
            "The last place with a timetable, and proud of how often it is late.",
            (("frontier_landing", "First Landing"), ("frontier_hope", "Hope")),
            ("frontier_station", "Frontier Station"),
            ("frontier_base", "Frontier Station"),
            "Built from four wrecks and a good deal of welding. It holds.",
            ("frontier_belt", "Homestead Belt"),
            ("Far Claim", "Lone Lantern", "Windbreak", "Settler's Gap", "Long Odds")),
)  # fmt: skip
BY_EMPIRE = {capital.empire: capital for capital in CAPITALS}


# --- Where the stars are, and which of them are joined

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


# --- The map as text


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


_BEFORE = make_view("system_id=id name position=position.view connections empire?")
_AFTER = make_view("description? is_stronghold?=stronghold")


def _halves(star: System) -> tuple[str, str]:
    """Give what stands before and after the changing lines of a system."""
    before, after = {**_BEFORE(star), "poi_count": len(star.known())}, _AFTER(star)
    ends = f",\n{_indent(after)}" if after else ""
    return f"    {{\n{_indent(before)},\n", f"{ends}\n    }}"


def _indent(view: Json) -> str:
    lines = json.dumps(view, indent=2, ensure_ascii=False).splitlines()[1:-1]
    return "\n".join(f"    {line}" for line in lines)


# --- What is in a system

_NUMERALS = ("I", "II", "III", "IV", "V", "VI")
_SERVICES = (
    "refuel", "repair", "shipyard", "market", "cloning", "insurance", "crafting",
    "missions", "storage",
)  # fmt: skip
_TOWN_SERVICES = ("refuel", "repair", "market", "storage")
_FACILITIES = (
    "fusion_plant", "life_support", "galley", "iron_refinery", "circuit_fabricator",
    "copper_wire_mill", "fuel_cell_plant", "repair_kit_factory", "sensor_assembly",
    "drydock",
)  # fmt: skip
_COMMON = (
    ("ore_iron", 90), ("ore_copper", 70), ("ore_nickel", 50), ("ore_silicon", 40),
)  # fmt: skip
_RARE = (
    ("ore_titanium", 30), ("ore_cobalt", 25), ("ore_gold", 12), ("ore_palladium", 10),
    ("ore_plasma", 8),
)  # fmt: skip
_GASES = (("gas_hydrogen", 80), ("gas_argon", 30))
_ICES = (("ice_water", 85), ("ice_nitrogen", 40))
_PLENTY = 100_000


def _furnish_capital(system: System, capital: Capital) -> None:
    """Give a capital its own places, with a rich belt one tick from the station."""
    for index, (poi_id, name) in enumerate(capital.planets):
        place = Position(0.5 + 0.6 * index, 0.1 * index)
        _add(system, "planet", poi_id, name, place)
    station = _add(system, "station", *capital.station, Position(0.8, -0.2))
    station.description = f"The station of {system.name}."
    station.base = Base(
        id=capital.base[0],
        poi_id=station.id,
        name=capital.base[1],
        description=capital.base_description,
        empire=capital.empire,
        services=_SERVICES,
        facilities=_FACILITIES,
        defense_level=100,
    )
    belt = _add(system, "asteroid_belt", *capital.belt, Position(2.8, 0.5))
    belt.description = "Old, wide and far from mined out."
    belt.deposits = _make_deposits(_COMMON, _PLENTY)


def _furnish(system: System, rng: Random) -> None:
    for index in range(rng.randint(0, 5)):
        name = f"{system.name} {_NUMERALS[index]}"
        place = Position(round(1 + 0.8 * index, 2), round(rng.uniform(-1, 1), 2))
        _add(system, "planet", f"{system.id}_planet_{index + 1}", name, place)
    if rng.random() < 0.6:
        _add_belt(system, rng)
    if system.empire and rng.random() < 0.6:
        _add_town(system, rng)


def _add(system: System, kind: str, poi_id: str, name: str, place: Position) -> Poi:
    poi = Poi(poi_id, system.id, kind, name, place)
    system.pois.append(poi)
    return poi


def _make_deposits(kinds: Iterable[tuple[str, int]], amount: int) -> list[Deposit]:
    return [Deposit(name, richness, amount, amount) for name, richness in kinds]


def _add_belt(system: System, rng: Random) -> None:
    place = Position(round(rng.uniform(2, 5), 2), round(rng.uniform(-2, 2), 2))
    name = f"{system.name} Belt"
    belt = _add(system, "asteroid_belt", f"{system.id}_belt", name, place)
    belt.deposits = _make_deposits(rng.sample(_COMMON, 3), _PLENTY)
    rare = rng.sample(_RARE, 1 if system.empire else 2)
    belt.deposits += _make_deposits(rare, 3000)


def _add_town(system: System, rng: Random) -> None:
    place = Position(round(rng.uniform(0.5, 2), 2), round(rng.uniform(-1, 1), 2))
    name = f"{system.name} Station"
    station = _add(system, "station", f"{system.id}_station", name, place)
    station.base = Base(
        id=f"{system.id}_base",
        poi_id=station.id,
        name=name,
        description=f"A working station in {system.name}.",
        empire=system.empire,
        services=_TOWN_SERVICES,
        facilities=tuple(rng.sample(_FACILITIES, 5)),
        defense_level=40,
    )


def _add_clouds(system: System, rng: Random) -> None:
    for kind, label, stuff in (
        ("gas_cloud", "Gas Cloud", _GASES),
        ("ice_field", "Ice Field", _ICES),
    ):
        if rng.random() < 0.25:
            place = Position(round(rng.uniform(3, 6), 2), round(rng.uniform(-2, 2), 2))
            name = f"{system.name} {label}"
            poi = _add(system, kind, f"{system.id}_{kind}", name, place)
            poi.deposits = _make_deposits(stuff, _PLENTY // 2)


def _hide(system: System, rng: Random) -> None:
    if rng.random() < 0.5:
        return
    place = Position(round(rng.uniform(2, 4), 2), round(rng.uniform(-2, 2), 2))
    name = f"{system.name} Drift"
    poi = _add(system, "asteroid", f"{system.id}_drift", name, place)
    poi.description = "A lone rock that no chart has."
    poi.deposits = _make_deposits(_RARE[:2], 3000)
    poi.hidden = True


# --- The whole

_TOWNS_EACH = 13
_STRONGHOLDS = 9
_NOTED = 0.15  # how many systems of the wilderness anybody has described
_FIRST = ("Amber", "Brass", "Copper", "Dusk", "Ember", "Fallow", "Granite", "Harrow")
_SECOND = ("Reach", "Hollow", "Crossing", "Landing", "Watch", "Ford", "Spire", "Bay")
_TEMPERS = (
    "A dim star with little around it. Surveyors passed once and left no beacon.",
    "Dust hides most of the inner orbits; pilots come in slowly and by instruments.",
    "Old claims, none of them worked. The markers still answer when they are called.",
    "Wide orbits and a steady sun. Nobody has found a reason to stay.",
    "Charted by a drone and never confirmed; the catalogue gives its figures as good.",
    "Ice far out and rock near in, with long quiet stretches between the two.",
)  # fmt: skip


def make_world(seed: int, systems: int) -> World:
    """Make the world that belongs to a seed and a number of systems."""
    rng = make_dice(seed, "world", systems)
    stars = _empire_systems(systems, rng)
    stars += _wilderness(systems - len(stars), [star.position for star in stars], rng)
    joined = connect_points([star.position for star in stars], rng)
    for star, others in zip(stars, joined, strict=True):
        star.connections = sorted(stars[index].id for index in others)
    wild = [star for star in stars if not star.empire]
    count = min(_STRONGHOLDS, len(wild), max(1, len(wild) // 10))
    for star in rng.sample(wild, count):
        star.stronghold = True
    capitals = {capital.system_id: capital for capital in CAPITALS}
    for star in stars:
        _add(star, "sun", f"{star.id}_sun", f"{star.name} Star", Position(0, 0))
        if star.id in capitals:
            _furnish_capital(star, capitals[star.id])
        else:
            _furnish(star, rng)
        _add_clouds(star, rng)
        _hide(star, make_dice(seed, "hidden", star.id))
    pois = {poi.id: poi for star in stars for poi in star.pois}
    bases = {poi.base.id: poi.base for poi in pois.values() if poi.base}
    return World({star.id: star for star in stars}, pois, bases)


def _empire_systems(systems: int, rng: Random) -> list[System]:
    stars = [
        System(one.system_id, one.name, one.position, one.description, one.empire, 100)
        for one in CAPITALS
    ]
    made = [f"{first} {second}" for first in _FIRST for second in _SECOND]
    rng.shuffle(made)
    names = iter(made)
    # A small world keeps about a third of its systems for the wilderness.
    towns = min(_TOWNS_EACH, max(1, (systems * 2 // 3 - len(stars)) // len(CAPITALS)))
    for capital in CAPITALS:
        more = islice(names, _TOWNS_EACH - len(capital.towns))
        for name in [*capital.towns, *more][:towns]:
            place = place_near(capital.position, [star.position for star in stars], rng)
            stars.append(_town(capital, name, place, rng))
    return stars


def _town(capital: Capital, name: str, place: Position, rng: Random) -> System:
    return System(
        id=re.sub(r"[^a-z]+", "_", name.lower().replace("'", "")),
        name=name,
        position=place,
        description=f"A system of the {capital.name} worlds.",
        empire=capital.empire,
        police_level=rng.choice((80, 60, 45, 25)),
    )


def _wilderness(count: int, taken: list[Position], rng: Random) -> list[System]:
    return [
        System(
            id=f"sys_{index:04d}",
            name=f"GSC-{index:04d}",
            position=place,
            description=rng.choice(_TEMPERS) if rng.random() < _NOTED else "",
        )
        for index, place in enumerate(scatter_points(count, taken, rng), start=1)
    ]
