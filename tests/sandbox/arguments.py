"""Arguments for any tool of the game, often right ones."""

from __future__ import annotations

import random
from typing import Any

from sandbox.game.game import Game
from sandbox.game.tool import Tool
from sandbox.game.world.models import Player

GOODS = ["ore_iron", "ore_copper", "fuel_cell", "refined_steel", "repair_kit"]
GOODS += ["mining_laser_1", "mining_drone", "cannon_rounds"]


def arguments(
    tool: Tool, game: Game, player: Player, rng: random.Random
) -> dict[str, Any]:
    """Arguments that are often right."""
    state = game.state
    missions = [one.id for one in player.missions]
    pirates = [one.id for one in state.pirates_at(player.poi_id)]
    near = [*(pirates * 3), *state.players, "none"]
    pools: dict[str, list[Any]] = {
        "target_poi": [one.id for one in state.world.systems[player.system_id].pois],
        "target_system": state.world.systems[player.system_id].connections,
        "target_id": near,
        "item_id": GOODS,
        "quantity": [1, 3, 10],
        "amount": [1, 20],
        "count": [1, 2],
        "mission_id": ["iron_for_the_docks", "one_pirate_less", *missions],
        "wreck_id": [*state.wrecks, "none"],
        "trade_id": [*state.trades, "none"],
        "recipe_id": ["basic_iron_smelting", "wire_drawing"],
        "module_id": ["mining_laser_1", *(one.id for one in player.ship.modules)],
        "channel": ["local", "system"],
        "index": [0, 1],
        "offer_credits": [0, 5],
        "request_credits": [0, 5],
        "offer_items": [[{"item_id": "ore_iron", "quantity": 1}]],
        "request_items": [[{"item_id": "ore_copper", "quantity": 1}]],
        "order_id": [*state.orders, "none"],
        "price_each": [1, 6],
        "new_price": [2, 7],
        "ship_class": ["courier_light"],
        "ship_id": [*(one.id for one in player.hangar), "none"],
        "drone_id": [*(one.id for one in player.drones), "none"],
        "note_id": [*(one.id for one in player.notes), "none"],
        "thread_id": [*state.threads, "none"],
        "faction_id": [*state.factions, "none"],
        "target_faction_id": [*state.factions, "none"],
        "player_id": [*state.players, "none"],
        "recipient": [one.username for one in state.players.values()],
        "weapon_instance_id": [*(one.id for one in player.ship.modules), "none"],
        "action": ["build", "produce"],
        "facility_type": ["galley"],
        "name": [f"The {player.username}"],
        "primary_color": ["#001122"],
        "secondary_color": ["#001122"],
        "enable": [True, False],
        "anonymous": [True, False],
    }
    return {
        one.name: rng.choice(pools.get(one.name, ["sol"]))
        for one in tool.parameters
        if one.listed and (one.required or one.name in pools)
    }
