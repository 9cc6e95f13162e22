"""Makes the world of a seed: its systems, and what is in them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from random import Random

from sandbox.game.config import dice
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
from sandbox.game.world.starmap import around, connect, scatter

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
    ("ore_iron", 90),
    ("ore_copper", 70),
    ("ore_nickel", 50),
    ("ore_silicon", 40),
)
_RARE = (
    ("ore_titanium", 30),
    ("ore_cobalt", 25),
    ("ore_gold", 12),
    ("ore_palladium", 10),
    ("ore_plasma", 8),
)
_GASES = (("gas_hydrogen", 80), ("gas_argon", 30))
_ICES = (("ice_water", 85), ("ice_nitrogen", 40))
_PLENTY = 100_000


def furnish_capital(system: System, capital: Capital, rng: Random) -> None:
    """Give a capital its own places, with a rich belt one tick from the station."""
    _add(system, "sun", f"{system.id}_sun", f"{system.name} Star", Position(0, 0))
    for index, (poi_id, name) in enumerate(capital.planets):
        _add(system, "planet", poi_id, name, Position(0.5 + 0.6 * index, 0.1 * index))
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
    belt.deposits = [_deposit(name, richness, _PLENTY) for name, richness in _COMMON]
    _clouds(system, rng)


def furnish(system: System, rng: Random) -> None:
    """Give an ordinary system its places; empire systems often have a station."""
    _add(system, "sun", f"{system.id}_sun", f"{system.name} Star", Position(0, 0))
    for index in range(rng.randint(0, 5)):
        name = f"{system.name} {_NUMERALS[index]}"
        place = Position(round(1 + 0.8 * index, 2), round(rng.uniform(-1, 1), 2))
        _add(system, "planet", f"{system.id}_planet_{index + 1}", name, place)
    if rng.random() < 0.6:
        _belt(system, rng)
    if system.empire and rng.random() < 0.6:
        _add_town(system, rng)
    _clouds(system, rng)


def _add(system: System, kind: str, poi_id: str, name: str, place: Position) -> Poi:
    poi = Poi(poi_id, system.id, kind, name, place)
    system.pois.append(poi)
    return poi


def _belt(system: System, rng: Random) -> None:
    place = Position(round(rng.uniform(2, 5), 2), round(rng.uniform(-2, 2), 2))
    name = f"{system.name} Belt"
    belt = _add(system, "asteroid_belt", f"{system.id}_belt", name, place)
    common = rng.sample(_COMMON, 3)
    rare = rng.sample(_RARE, 1 if system.empire else 2)
    belt.deposits = [_deposit(item, richness, _PLENTY) for item, richness in common]
    belt.deposits += [_deposit(item, richness, 3000) for item, richness in rare]


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


def _clouds(system: System, rng: Random) -> None:
    for kind, label, stuff in (
        ("gas_cloud", "Gas Cloud", _GASES),
        ("ice_field", "Ice Field", _ICES),
    ):
        if rng.random() < 0.25:
            place = Position(round(rng.uniform(3, 6), 2), round(rng.uniform(-2, 2), 2))
            name = f"{system.name} {label}"
            poi = _add(system, kind, f"{system.id}_{kind}", name, place)
            poi.deposits = [_deposit(item, rich, _PLENTY // 2) for item, rich in stuff]


def hide(system: System, rng: Random) -> None:
    """Put a place into some systems that only a survey finds."""
    if rng.random() < 0.5:
        return
    place = Position(round(rng.uniform(2, 4), 2), round(rng.uniform(-2, 2), 2))
    name = f"{system.name} Drift"
    poi = _add(system, "asteroid", f"{system.id}_drift", name, place)
    poi.description = "A lone rock that no chart has."
    poi.deposits = [_deposit(item, rich, 3000) for item, rich in _RARE[:2]]
    poi.hidden = True


def _deposit(resource_id: str, richness: int, amount: int) -> Deposit:
    return Deposit(resource_id, richness, amount, amount)


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
    rng = dice(seed, "world", systems)
    stars = _empire_systems(systems, rng)
    stars += _wilderness(systems - len(stars), [star.position for star in stars], rng)
    _join(stars, rng)
    _mark_strongholds(stars, rng)
    capitals = {capital.system_id: capital for capital in CAPITALS}
    for star in stars:
        if star.id in capitals:
            furnish_capital(star, capitals[star.id], rng)
        else:
            furnish(star, rng)
        hide(star, dice(seed, "hidden", star.id))
    return _index(stars)


def _empire_systems(systems: int, rng: Random) -> list[System]:
    stars = [_capital(capital) for capital in CAPITALS]
    names = _town_names(rng)
    # A small world keeps about a third of its systems for the wilderness.
    towns = min(_TOWNS_EACH, max(1, (systems * 2 // 3 - len(stars)) // len(CAPITALS)))
    for capital in CAPITALS:
        more = islice(names, _TOWNS_EACH - len(capital.towns))
        for name in [*capital.towns, *more][:towns]:
            place = around(capital.position, [star.position for star in stars], rng)
            stars.append(_town(capital, name, place, rng))
    return stars


def _capital(capital: Capital) -> System:
    return System(
        id=capital.system_id,
        name=capital.name,
        position=capital.position,
        description=capital.description,
        empire=capital.empire,
        police_level=100,
    )


def _town(capital: Capital, name: str, place: Position, rng: Random) -> System:
    return System(
        id=re.sub(r"[^a-z]+", "_", name.lower().replace("'", "")),
        name=name,
        position=place,
        description=f"A system of the {capital.name} worlds.",
        empire=capital.empire,
        police_level=rng.choice((80, 60, 45, 25)),
    )


def _town_names(rng: Random) -> Iterator[str]:
    names = [f"{first} {second}" for first in _FIRST for second in _SECOND]
    rng.shuffle(names)
    return iter(names)


def _wilderness(count: int, taken: list[Position], rng: Random) -> list[System]:
    return [
        System(
            id=f"sys_{index:04d}",
            name=f"GSC-{index:04d}",
            position=place,
            description=rng.choice(_TEMPERS) if rng.random() < _NOTED else "",
        )
        for index, place in enumerate(scatter(count, taken, rng), start=1)
    ]


def _join(stars: list[System], rng: Random) -> None:
    joined = connect([star.position for star in stars], rng)
    for star, others in zip(stars, joined, strict=True):
        star.connections = sorted(stars[index].id for index in others)


def _mark_strongholds(stars: list[System], rng: Random) -> None:
    wild = [star for star in stars if not star.empire]
    count = min(_STRONGHOLDS, len(wild), max(1, len(wild) // 10))
    for star in rng.sample(wild, count):
        star.stronghold = True


def _index(stars: list[System]) -> World:
    pois = {poi.id: poi for star in stars for poi in star.pois}
    bases = {poi.base.id: poi.base for poi in pois.values() if poi.base}
    return World({star.id: star for star in stars}, pois, bases)
