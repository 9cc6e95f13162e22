"""Puts stars, planets, belts, clouds and stations into a system."""

from __future__ import annotations

from random import Random

from sandbox.game.capitals import Capital
from sandbox.game.places import Base, Deposit, Poi, Position, System

_NUMERALS = ("I", "II", "III", "IV", "V", "VI")
_SERVICES = (
    "refuel",
    "repair",
    "shipyard",
    "market",
    "cloning",
    "insurance",
    "crafting",
    "missions",
    "storage",
)
_TOWN_SERVICES = ("refuel", "repair", "market", "storage")
_FACILITIES = (
    "fusion_plant",
    "life_support",
    "galley",
    "iron_refinery",
    "circuit_fabricator",
    "copper_wire_mill",
    "fuel_cell_plant",
    "repair_kit_factory",
    "sensor_assembly",
    "drydock",
)
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
        _town(system, rng)
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


def _town(system: System, rng: Random) -> None:
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
