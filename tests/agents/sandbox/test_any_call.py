"""Whatever captains call, the game answers or refuses, and its books stay right."""

from __future__ import annotations

import random
from typing import Any

import pytest

from agents.game.sandbox import truth
from agents.game.sandbox.dice import dice
from agents.game.sandbox.errors import GameError
from agents.game.sandbox.game import Game
from agents.game.sandbox.persistence import dump, restore
from agents.game.sandbox.tool import Tool
from tests.agents.sandbox.captains import Captain, make_game

START_CREDITS = 100
LEFT_OUT = {"register", "login", "logout"}


def arguments(tool: Tool, captain: Captain, rng: random.Random) -> dict[str, Any]:
    """Arguments that are often right."""
    state, player = captain.game.state, captain.player
    missions = [one.id for one in player.missions]
    near = [*state.players, *state.pirates]
    goods = ["ore_iron", "ore_copper", "fuel_cell", "refined_steel", "mining_laser_1"]
    pools: dict[str, list[Any]] = {
        "target_poi": [one.id for one in state.world.systems[player.system_id].pois],
        "target_system": state.world.systems[player.system_id].connections,
        "target_id": near,
        "item_id": goods,
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
    }
    return {
        one.name: rng.choice(pools.get(one.name, ["sol"]))
        for one in tool.parameters
        if one.listed and (one.required or one.name in pools)
    }


def check(game: Game) -> None:
    """Nobody has what cannot be, and no credit comes from nowhere."""
    players = list(game.state.players.values())
    for player in players:
        ship, build = player.ship, player.ship.build
        assert player.credits >= 0
        assert 0 <= ship.cargo_used <= build.cargo
        assert all(count > 0 for count in ship.cargo.values())
        assert 0 <= ship.fuel <= build.fuel
        assert 0 < ship.hull <= build.hull
        assert 0 <= ship.shield <= build.shield
        assert not (player.docked_at and player.in_transit)
    owned = sum(one.credits + sum(one.saved_credits.values()) for one in players)
    gained = [
        one.stats["credits_earned"] - one.stats["credits_spent"] for one in players
    ]
    assert owned == START_CREDITS * len(players) + sum(gained)


def play(game: Game, seed: int, ticks: int) -> set[str]:
    """Let three captains call anything at all; the tools that were answered."""
    rng = dice(seed, "any call")
    captains = [Captain(game, name) for name in ("First", "Second", "Third")]
    tools = [one for one in game.tools.values() if one.name not in LEFT_OUT]
    answered = set()
    for _ in range(ticks):
        for captain in captains:
            if rng.random() < 0.1:
                captain.player.ship.load("ore_iron", captain.player.ship.cargo_free)
            tool = rng.choice(tools)
            given = {} if tool.open else {"session_id": captain.session_id}
            try:
                game.call(tool.name, given | arguments(tool, captain, rng))
            except GameError:
                continue
            answered.add(tool.name)
        game.step()
        check(game)
    return answered


@pytest.mark.parametrize("era", ["A", "C"])
def test_nothing_that_is_called_breaks_the_game(era: str) -> None:
    game = make_game(era=era, raid_chance=0.1)
    answered = play(game, 1, 1500)
    # Nearly everything was possible at some time, so the run has tried it.
    assert len(answered) >= len(game.tools) - len(LEFT_OUT) - 6
    for name in ("First", "Second", "Third"):
        true = truth.account(game, name)
        assert true["calls"]["mutations_executed"] > 100
    again = make_game(era=era, raid_chance=0.1)
    restore(again, dump(game))
    assert dump(again) == dump(game)


def test_the_same_calls_make_the_same_world() -> None:
    worlds = []
    for _ in range(2):
        game = make_game(raid_chance=0.1)
        play(game, 2, 300)
        worlds.append(dump(game))
    assert worlds[0] == worlds[1]
