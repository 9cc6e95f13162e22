"""Makes the world of a seed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from random import Random

from sandbox.game.capitals import CAPITALS, Capital
from sandbox.game.dice import dice
from sandbox.game.furnishing import furnish, furnish_capital, hide
from sandbox.game.places import Position, System, World
from sandbox.game.starmap import around, connect, scatter

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
)


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
