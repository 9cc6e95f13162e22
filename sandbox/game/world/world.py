"""Makes the world of a seed: its systems, and what is in them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice
from random import Random

from sandbox.game.config import make_dice
from sandbox.game.world.places import (
    CAPITALS,
    Base,
    Capital,
    Deposit,
    Poi,
    Position,
    System,
    World,
)
from sandbox.game.world.starmap import connect_points, place_near, scatter_points

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
