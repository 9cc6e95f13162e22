"""What a world is made of: systems, the places in them, bases, and five capitals."""

from __future__ import annotations

import math
from collections.abc import Container
from dataclasses import asdict, dataclass, field

from sandbox.game.config import GameError


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
