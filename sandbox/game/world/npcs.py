"""Those whom no player steers: captains on their rounds, and pirates."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from sandbox.game.config import make_dice, make_hex_id
from sandbox.game.world.galaxy import World

_MOVE_CHANCE = 0.04
_JUMP_SHARE = 0.2
_MOST = 60
_NAMES = (
    "Iron Duke", "Wren", "Pallas", "Odd Socks", "Juniper", "Marrow", "Tin Saint",
    "Quill", "Bracken", "Halyard", "Vesper", "Copperhand",
)  # fmt: skip
_CLASSES = ("starter_mining", "mining_barge", "freighter_medium", "mining_cruiser")
_PIRATES = (("Drifter", "small"), ("Gaunt", "medium"))


@dataclass(frozen=True, slots=True)
class Tier:
    hull: int
    shield: int
    damage: int


TIERS = {
    "small": Tier(60, 20, 6),
    "medium": Tier(110, 40, 10),
    "large": Tier(200, 80, 16),
    "boss": Tier(400, 200, 30),
}


@dataclass(slots=True)
class Npc:
    """A captain without an account; a `local` one keeps to his capital's system."""

    id: str
    username: str
    ship_class: str
    clan_tag: str
    color: str
    poi_id: str
    local: bool


@dataclass(slots=True)
class Pirate:
    """A hostile ship that keeps to one place; `back_tick` is set while it is gone.

    `victim` is the player it is after and shoots at from `strike_tick` on. A `raider`
    has no home and leaves at `leaves_tick` where it finds nobody.
    """

    id: str
    name: str
    tier: str
    max_hull: int
    max_shield: int
    hull: int
    shield: int
    poi_id: str
    back_tick: int = 0
    victim: str | None = None
    strike_tick: int = 0
    raider: bool = False
    leaves_tick: int = 0

    @property
    def alive(self) -> bool:
        return self.hull > 0

    @property
    def is_boss(self) -> bool:
        return self.tier == "boss"


def make_npcs(world: World, seed: int) -> dict[str, Npc]:
    """Put half of the captains to the capitals, the rest anywhere in the empires."""
    rng = make_dice(seed, "npcs")
    capitals = _places(world, least_police=100)
    empires = _places(world, least_police=1)
    count = min(_MOST, max(6, len(world.systems) // 8))
    npcs: dict[str, Npc] = {}
    for number in range(count):
        name = _NAMES[number % len(_NAMES)]
        npc = Npc(
            id=make_hex_id(seed, "npc", number),
            username=name if number < len(_NAMES) else f"{name} {number}",
            ship_class=rng.choice(_CLASSES),
            clan_tag=rng.choice(("", "", "ORBK", "DUKE")),
            color=f"#{rng.getrandbits(24):06X}",
            poi_id=rng.choice(capitals if number % 2 else empires),
            local=bool(number % 2),
        )
        npcs[npc.id] = npc
    return npcs


def _places(world: World, least_police: int) -> list[str]:
    return [
        poi.id
        for star in world.systems.values()
        if star.police_level >= least_police
        for poi in star.known()
    ]


def make_pirates(world: World, seed: int) -> dict[str, Pirate]:
    """Put two pirates into every stronghold."""
    pirates = (
        make_pirate(name, tier, known[index % len(known)].id, seed, star.id, index)
        for star in world.systems.values()
        if star.stronghold and (known := star.known())
        for index, (name, tier) in enumerate(_PIRATES)
    )
    return {pirate.id: pirate for pirate in pirates}


def make_pirate(name: str, tier: str, poi_id: str, *occasion: object) -> Pirate:
    """Make a pirate whose id follows from the occasion; KeyError for the tier."""
    hull, shield = TIERS[tier].hull, TIERS[tier].shield
    pirate_id = f"pirate_{make_hex_id(*occasion)[:6]}"
    return Pirate(pirate_id, name, tier, hull, shield, hull, shield, poi_id)


def choose_goal(npc: Npc, world: World, rng: Random) -> str | None:
    """Decide where a captain goes this tick; None means that he stays."""
    if rng.random() >= _MOVE_CHANCE:
        return None
    star = world.systems[world.pois[npc.poi_id].system_id]
    if not npc.local and rng.random() < _JUMP_SHARE:
        near = [world.systems[name] for name in star.connections]
        patrolled = [other for other in near if other.empire]
        if patrolled:
            star = rng.choice(patrolled)
    stations = [poi for poi in star.pois if poi.base]
    goals = stations if stations and rng.random() < 0.5 else star.known()
    target = rng.choice(goals).id
    return target if target != npc.poi_id else None
