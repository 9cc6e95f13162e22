"""Made-up answers of game tools, in the shapes and sizes that the game gives.

Each answer is made once per variant and told apart by its tick, so that a long
log costs little to make and no two of its answers are the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

Payload = dict[str, Any]
_TICK = '"@tick"'
_VARIANTS = 12
_ORES = ("iron", "copper", "nickel", "silicon", "titanium", "cobalt", "iridium")
_PLACES = ("Vesper", "Dunmore", "Halcyon", "Tarn", "Orrery", "Quill", "Basalt")


def _token(random: Random) -> str:
    return f"{random.getrandbits(128):032x}"


def _cargo(random: Random, kinds: int) -> list[Payload]:
    ores = random.sample(_ORES, kinds)
    return [{"item_id": f"ore_{o}", "quantity": random.randint(1, 120)} for o in ores]


def _module(random: Random, number: str) -> Payload:
    return {
        "id": number,
        "type_id": "ore_cutter_2",
        "name": "Ore Cutter II",
        "type": "mining",
        "cpu_usage": 3,
        "power_usage": random.randint(4, 9),
        "quality": 1,
        "quality_grade": "Standard",
        "wear": random.randint(0, 30),
        "wear_status": "Used",
        "mining_power": random.randint(4, 9),
        "mining_range": 5,
    }


def ship(random: Random) -> Payload:
    """A ship with its class, modules and cargo: about 4 KB, indented."""
    numbers = [_token(random) for _ in range(5)]
    cargo = _cargo(random, 6)
    used = sum(item["quantity"] for item in cargo)
    slots = {"weapon_slots": 1, "defense_slots": 2, "utility_slots": 7}
    limits = {"cpu_capacity": 40, "power_capacity": 75, "cargo_capacity": 720}
    return {
        "ship": {
            "id": _token(random),
            "owner_id": _token(random),
            "class_id": "hauler_mk3",
            "name": random.choice(_PLACES),
            "created_at": "2026-01-09T08:14:02.118Z",
            "hull": random.randint(60, 410),
            "max_hull": 410,
            "shield": random.randint(0, 120),
            "max_shield": 120,
            "shield_recharge": 3,
            "armor": 18,
            "speed": 2,
            "fuel": random.randint(5, 240),
            "max_fuel": 240,
            "cargo_used": used,
            "cpu_used": 15,
            "power_used": 41,
            **limits,
            **slots,
            "modules": numbers,
            "cargo": cargo,
        },
        "class": {
            "id": "hauler_mk3",
            "name": "Long Hauler",
            "description": "A wide hold on a strong frame, slow to turn.",
            "lore": "Built for the outer belts, where a stop is a month away.\n"
            "Captains who fly one sleep well and arrive late.\n",
            "class": "Hauler",
            "price": 31_000,
            "tier": 3,
            "scale": 3,
            "base_hull": 410,
            "base_shield": 120,
            "base_shield_recharge": 3,
            "base_armor": 18,
            "base_speed": 2,
            "base_fuel": 240,
            **limits,
            **slots,
            "default_modules": ["ore_cutter_1", "ore_cutter_1"],
            "required_skills": {"hauling": 3, "mining_basic": 2, "piloting": 4},
            "shipyard_tier": 1,
            "build_time": 0,
        },
        "modules": [_module(random, number) for number in numbers],
        "cargo_used": used,
        "cargo_max": 720,
    }


def _status(random: Random) -> Payload:
    return {
        "player": {
            "id": _token(random),
            "username": "Wayfarer",
            "empire": "nebula",
            "credits": random.randint(100, 90_000),
            "current_system": f"sys_{random.randint(0, 504):04}",
            "current_poi": f"poi_{random.randint(0, 2000):05}",
            "docked_at_base": "" if random.random() < 0.6 else "base_12",
            "skills": {f"skill_{n}": random.randint(0, 9) for n in range(30)},
            "stats": {f"count_{n}": random.randint(0, 4_000) for n in range(30)},
        },
        "ship": {
            "name": random.choice(_PLACES),
            "hull": random.randint(60, 410),
            "max_hull": 410,
            "fuel": random.randint(5, 240),
            "max_fuel": 240,
            "cargo": _cargo(random, 4),
        },
        "current_tick": "@tick",
    }


def _system(random: Random) -> Payload:
    places = [
        {
            "id": f"poi_{random.randint(0, 2000):05}",
            "name": f"{random.choice(_PLACES)} {kind} {number}",
            "type": kind,
            "position": {"x": random.randint(-90, 90), "y": random.randint(-90, 90)},
        }
        for number, kind in enumerate(("belt", "station", "planet", "sun") * 4)
    ]
    links = [f"sys_{random.randint(0, 504):04}" for _ in range(4)]
    return {
        "system": {
            "id": f"sys_{random.randint(0, 504):04}",
            "name": random.choice(_PLACES),
            "security": random.choice(("high", "low", "none")),
            "connections": links,
            "pois": places,
        },
        "tick": "@tick",
    }


def _market(random: Random) -> Payload:
    return {
        "base": f"{random.choice(_PLACES)} Exchange",
        "items": [
            {
                "item_id": f"{kind}_{ore}",
                "item_name": f"{ore} {kind}",
                "best_buy": random.randint(1, 80),
                "best_sell": random.randint(80, 160),
                "buy_volume": random.randint(0, 9_000),
                "sell_volume": random.randint(0, 9_000),
            }
            for ore in _ORES
            for kind in ("ore", "plate", "wire", "alloy", "dust")
        ],
        "tick": "@tick",
    }


def _nearby(random: Random) -> Payload:
    return {
        "nearby": [
            {
                "player_id": _token(random),
                "username": f"{random.choice(_PLACES)}{number}",
                "ship_class": "hauler_mk3",
                "faction": None,
                "in_combat": False,
            }
            for number in range(random.randint(4, 20))
        ],
        "tick": "@tick",
    }


def _mined(random: Random) -> Payload:
    ore = random.choice(_ORES)
    return {
        "status": "ok",
        "message": f"Your cutters bring in {ore} from the belt.",
        "mined": [{"item_id": f"ore_{ore}", "quantity": random.randint(1, 30)}],
        "cargo_used": random.randint(1, 700),
        "cargo_max": 720,
        "tick": "@tick",
    }


def _travelled(random: Random) -> Payload:
    return {
        "status": "queued",
        "message": f"Course set for {random.choice(_PLACES)}; you arrive in some ticks.",
        "destination": f"poi_{random.randint(0, 2000):05}",
        "fuel_cost": random.randint(1, 9),
        "fuel": random.randint(5, 240),
        "tick": "@tick",
    }


def _sold(random: Random) -> Payload:
    ore = random.choice(_ORES)
    return {
        "status": "ok",
        "item_id": f"ore_{ore}",
        "quantity": random.randint(1, 90),
        "earned": random.randint(5, 4_000),
        "credits": random.randint(100, 90_000),
        "message": f"Sold all {ore} at the best price on offer.",
        "tick": "@tick",
    }


def _held(random: Random) -> Payload:
    return {"cargo": _cargo(random, 5), "cargo_max": 720, "tick": "@tick"}


def _news(random: Random) -> Payload:
    kinds = [random.choice(("chat", "arrival", "sale")) for _ in range(3)]
    events = [{"type": kind, "text": "Heard on the band."} for kind in kinds]
    return {"notifications": events, "count": 3, "tick": "@tick"}


#: The answers by tool, and how often each tool is called, as players do.
TOOLS: Mapping[str, tuple[int, Callable[[Random], Payload]]] = {
    "mine": (30, _mined),
    "get_status": (12, _status),
    "get_system": (9, _system),
    "get_cargo": (9, _held),
    "travel": (8, _travelled),
    "sell": (7, _sold),
    "get_notifications": (7, _news),
    "view_market": (6, _market),
    "get_nearby": (4, _nearby),
    "get_ship": (4, ship),
}


class Answers:
    """Answers of tools, the same ones for the same seed."""

    def __init__(self, seed: int) -> None:
        random = Random(seed)  # noqa: S311 (it is to be repeatable)
        self._made = {
            tool: [json.dumps(make(random), indent=1) for _ in range(_VARIANTS)]
            for tool, (_, make) in TOOLS.items()
        }

    def answer(self, tool: str, tick: int) -> str:
        """The answer of a tool at a tick."""
        text = self._made[tool][tick % _VARIANTS]
        if _TICK in text:
            return text.replace(_TICK, str(tick))
        return f'{{\n "tick": {tick},{text[1:]}'
