"""What exists to own, to learn and to do: items, modules, ships, skills, missions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from sandbox.game.config import GameError


@dataclass(frozen=True, slots=True)
class Item:
    """A thing that fits into a hold; `price` is what a station asks for one.

    `stock` is what a station usually keeps; an item with none is bought, not offered.
    """

    id: str
    name: str
    price: int
    stock: int = 0
    size: int = 1


_ITEMS = (
    Item("ore_iron", "Iron Ore", 5, 1000),
    Item("ore_copper", "Copper Ore", 8, 1000),
    Item("ore_nickel", "Nickel Ore", 12, 400),
    Item("ore_silicon", "Silicon Ore", 10, 400),
    Item("ore_titanium", "Titanium Ore", 28),
    Item("ore_cobalt", "Cobalt Ore", 34),
    Item("ore_gold", "Gold Ore", 60),
    Item("ore_palladium", "Palladium Ore", 75),
    Item("ore_plasma", "Plasma Residue", 90),
    Item("gas_hydrogen", "Hydrogen Gas", 6),
    Item("gas_argon", "Argon Gas", 14),
    Item("ice_water", "Water Ice", 4),
    Item("ice_nitrogen", "Nitrogen Ice", 9),
    Item("refined_steel", "Steel Plate", 36, 200),
    Item("refined_copper_wire", "Copper Wiring", 32, 200),
    Item("fuel_cell", "Fuel Cell", 15, 100),
    Item("repair_kit", "Repair Kit", 120, 50, 2),
    Item("mining_laser_1", "Mining Laser I", 150, 10, 10),
    Item("weapon_laser_1", "Pulse Laser I", 200, 10, 10),
    Item("weapon_cannon_1", "Autocannon I", 250, 10, 10),
    Item("weapon_missile_1", "Missile Launcher I", 400, 5, 10),
    Item("cannon_rounds", "Autocannon Rounds", 2, 500),
    Item("mining_drone", "Mining Drone", 80, 20, 5),
)
ITEMS = {item.id: item for item in _ITEMS}
_BY_NAME = {item.name: item for item in _ITEMS}


def find_item(given: str) -> Item:
    """Look an item up by its exact id or its full name. Raises GameError."""
    item = ITEMS.get(given) or _BY_NAME.get(given)
    if item is None:
        raise GameError(
            "invalid_item",
            f"Unknown item '{given}'. "
            "Use exact item ID (e.g. 'iron_ore') or full name (e.g. 'Iron Ore').",
        )
    return item


_NEW = {"quality": 1, "quality_grade": "Standard", "wear": 0, "wear_status": "Pristine"}
MODULES: dict[str, dict[str, Any]] = {
    "mining_laser_1": {
        "type_id": "mining_laser_1", "name": "Mining Laser I", "type": "mining",
        "cpu_usage": 2, "power_usage": 5, **_NEW, "mining_power": 5, "mining_range": 5,
    },
    "weapon_cannon_1": {
        "type_id": "weapon_cannon_1", "name": "Autocannon I", "type": "weapon",
        "cpu_usage": 3, "power_usage": 6, **_NEW, "damage": 12,
        "damage_type": "kinetic", "magazine_size": 20,
    },
}  # fmt: skip
# What a weapon is loaded with.
AMMUNITION = {"weapon_cannon_1": "cannon_rounds"}


@dataclass(frozen=True, slots=True)
class ShipClass:
    """The build of a ship: every ship of a class has the same limits."""

    id: str
    name: str
    description: str
    lore: str
    kind: str
    price: int
    hull: int
    shield: int
    shield_recharge: int
    armor: int
    speed: int
    fuel: int
    cargo: int
    cpu: int
    power: int
    weapon_slots: int
    defense_slots: int
    utility_slots: int
    modules: tuple[str, ...]


STARTER = ShipClass(
    "starter_mining", "Prospector",
    "A small mining ship that every new captain receives.",
    "Slow to impress and hard to break, the Prospector has opened more "
    "belts than any other hull.\n",
    kind="Mining", price=0, hull=100, shield=50, shield_recharge=1, armor=5, speed=2,
    fuel=100, cargo=50, cpu=12, power=24, weapon_slots=1, defense_slots=1,
    utility_slots=2, modules=("mining_laser_1",),
)  # fmt: skip
BARGE = replace(
    STARTER, id="mining_barge", name="Excavator",
    description="A wide hull around a wide hold.",
    lore="Nobody has ever called the Excavator quick.\n",
    price=900, hull=180, shield=60, speed=1, fuel=150, cargo=120, cpu=16, power=30,
)  # fmt: skip
COURIER = replace(
    STARTER, id="courier_light", name="Swift", description="Two engines and a seat.",
    lore="It is cheap, and it is gone before anybody asks why.\n", kind="Courier",
    price=400, hull=60, shield=40, speed=4, cargo=20, modules=(),
)  # fmt: skip
SHIP_CLASSES = {one.id: one for one in (STARTER, BARGE, COURIER)}

MAX_LEVEL = 10
XP_PER_LEVEL = (100, 300, 600, 1000, 1500, 2100, 2800, 3600, 4500, 5500)


@dataclass(frozen=True, slots=True)
class SkillKind:
    id: str
    name: str
    category: str
    description: str
    bonus: str
    source: str
    requires: tuple[str, int] | None = None


_PLAYED = (
    SkillKind("mining_basic", "Mining", "Mining", "Handling of mining lasers.",
        "miningYield", "Mine anything."),
    SkillKind("trading", "Trading", "Trading", "A feeling for prices.", "tradeProfit",
        "Buy and sell at stations."),
    SkillKind("small_ships", "Small Ships", "Ships", "Flying light hulls.", "agility",
        "Travel within a system."),
    SkillKind("navigation", "Navigation", "Navigation", "Plotting jumps.",
        "jumpAccuracy", "Jump between systems."),
    SkillKind("exploration", "Exploration", "Navigation", "Knowing what to look for.",
        "surveyRange", "Visit systems for the first time."),
    SkillKind("crafting_basic", "Basic Crafting", "Crafting",
        "Making things of raw goods.", "craftQuality", "Craft at a workshop."),
    SkillKind("scanning", "Scanning", "Support", "Reading other ships.", "scanPower",
        "Scan ships and pirates."),
    SkillKind("weapons_basic", "Weapons", "Combat", "Hitting what moves.",
        "weaponDamage", "Fight pirates."),
)  # fmt: skip
_FIELDS = ("Mining", "Trading", "Ships", "Navigation", "Support", "Combat", "Crafting")
_STAGES = ("Theory", "Practice", "Mastery")
_TOPICS = ("Armour", "Drives", "Alloys", "Sensors", "Logistics", "Salvage")


# Skills that are listed but cannot be trained in this game.
_UNTAUGHT = [
    SkillKind(
        f"{area}_{topic}_{stage}".lower(),
        f"{area} {topic} {stage}",
        area,
        f"{stage} of {topic.lower()} as it is taught in {area.lower()}.",
        f"{topic.lower()}Efficiency",
        "Not taught here.",
        (f"{area}_{topic}_{_STAGES[step - 1]}".lower(), 3) if step else None,
    )
    for area in _FIELDS
    for topic in _TOPICS
    for step, stage in enumerate(_STAGES)
]
SKILLS = {one.id: one for one in (*_PLAYED, *_UNTAUGHT)}


def xp_needed(level: int) -> int:
    """Give the experience that leads from this level to the next, 0 at the end."""
    return XP_PER_LEVEL[level] if level < MAX_LEVEL else 0


@dataclass(frozen=True, slots=True)
class Template:
    """A mission as it is offered; `item_id` is empty where any target will do."""

    id: str
    title: str
    type: str
    description: str
    goal: str
    item_id: str
    required: int
    credits: int
    skill: str
    xp: int


_TEMPLATES = (
    Template("iron_for_the_docks", "Iron for the Docks", "mining",
        "The yard has run out of plate again. Dig some iron and come back.",
        "mine_resource", "ore_iron", 10, 200, "mining_basic", 15),
    Template("copper_for_the_mill", "Copper for the Mill", "mining",
        "The wire mill pays for fresh copper, no questions about the rest.",
        "mine_resource", "ore_copper", 20, 350, "mining_basic", 20),
    Template("one_pirate_less", "One Pirate Less", "combat",
        "Somebody has been shooting at freighters. Any pirate will do.", "kill_pirate",
        "", 1, 800, "weapons_basic", 20),
)  # fmt: skip
TEMPLATES = {one.id: one for one in _TEMPLATES}
