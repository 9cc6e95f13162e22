"""What a world is made of: systems, the places in them, bases and deposits."""

from __future__ import annotations

import math
from collections.abc import Container
from dataclasses import dataclass, field

MINABLE = frozenset({"asteroid_belt", "asteroid", "gas_cloud", "ice_field"})


@dataclass(frozen=True, slots=True)
class Position:
    """A point of the galaxy, or of a system around its star."""

    x: float
    y: float

    def distance(self, other: Position) -> float:
        return math.hypot(self.x - other.x, self.y - other.y)


@dataclass(slots=True)
class Deposit:
    """A resource at a place; `remaining` falls by mining and slowly grows back."""

    resource_id: str
    richness: int
    remaining: int
    max_remaining: int


@dataclass(frozen=True, slots=True)
class Base:
    """A station's inside."""

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

    def base_at(self, poi_id: str) -> Base | None:
        return self.pois[poi_id].base
