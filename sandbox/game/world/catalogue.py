"""What exists to own: items, modules and ship classes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class Item:
    """A thing that fits into a hold; `price` is what a station asks for one.

    `stock` is what a station usually keeps: none of it means that no station
    offers the item, though it is still bought.
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


def find_item(given: str) -> Item | None:
    """Look an item up by its exact id or its full name."""
    return ITEMS.get(given) or _BY_NAME.get(given)


MINING_LASER: dict[str, Any] = {
    "type_id": "mining_laser_1",
    "name": "Mining Laser I",
    "type": "mining",
    "cpu_usage": 2,
    "power_usage": 5,
    "quality": 1,
    "quality_grade": "Standard",
    "wear": 0,
    "wear_status": "Pristine",
    "mining_power": 5,
    "mining_range": 5,
}
CANNON: dict[str, Any] = {
    "type_id": "weapon_cannon_1",
    "name": "Autocannon I",
    "type": "weapon",
    "cpu_usage": 3,
    "power_usage": 6,
    "quality": 1,
    "quality_grade": "Standard",
    "wear": 0,
    "wear_status": "Pristine",
    "damage": 12,
    "damage_type": "kinetic",
    "magazine_size": 20,
}
MODULES = {"mining_laser_1": MINING_LASER, "weapon_cannon_1": CANNON}
AMMUNITION = {"weapon_cannon_1": "cannon_rounds"}
"""What a weapon is loaded with."""


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
    id="starter_mining",
    name="Prospector",
    description="A small mining ship that every new captain receives.",
    lore="Slow to impress and hard to break, the Prospector has opened more "
    "belts than any other hull.\n",
    kind="Mining",
    price=0,
    hull=100,
    shield=50,
    shield_recharge=1,
    armor=5,
    speed=2,
    fuel=100,
    cargo=50,
    cpu=12,
    power=24,
    weapon_slots=1,
    defense_slots=1,
    utility_slots=2,
    modules=("mining_laser_1",),
)
BARGE = replace(
    STARTER,
    id="mining_barge",
    name="Excavator",
    description="A wide hull around a wide hold.",
    lore="Nobody has ever called the Excavator quick.\n",
    price=900,
    hull=180,
    shield=60,
    speed=1,
    fuel=150,
    cargo=120,
    cpu=16,
    power=30,
)
COURIER = replace(
    STARTER,
    id="courier_light",
    name="Swift",
    description="Two engines and a seat.",
    lore="It is cheap, and it is gone before anybody asks why.\n",
    kind="Courier",
    price=400,
    hull=60,
    shield=40,
    speed=4,
    cargo=20,
    modules=(),
)
SHIP_CLASSES = {one.id: one for one in (STARTER, BARGE, COURIER)}
