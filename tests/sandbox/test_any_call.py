"""Whatever captains call, the game answers or refuses, and its books stay right."""

from __future__ import annotations

import random
from contextlib import suppress
from dataclasses import dataclass, field

import pytest

from sandbox.game import truth
from sandbox.game.config import GameError, make_dice
from sandbox.game.game import Game
from sandbox.game.happenings import HAPPENINGS
from sandbox.game.persistence import dump_game, restore_game
from sandbox.game.tools.combat import kill
from sandbox.game.world.models import Drone, Module, Ship
from tests.sandbox.arguments import GOODS, arguments
from tests.sandbox.captains import Captain, make_game

START_CREDITS = 100
LEFT_OUT = {"register", "login", "logout"}


def check_ship(ship: Ship) -> None:
    build = ship.build
    assert 0 <= ship.cargo_used <= build.cargo
    assert all(count > 0 for count in ship.cargo.values())
    assert 0 <= ship.fuel <= build.fuel
    assert 0 < ship.hull <= build.hull
    assert 0 <= ship.shield <= build.shield


def check(game: Game) -> None:
    """Nobody has what cannot be, and no credit comes from nowhere."""
    players = list(game.state.players.values())
    for player in players:
        for ship in (player.ship, *player.hangar):
            check_ship(ship)
        assert player.credits >= 0
        assert not (player.docked_at and player.in_transit)
    owned = sum(one.credits + sum(one.saved_credits.values()) for one in players)
    gained = [
        one.stats["credits_earned"] - one.stats["credits_spent"] for one in players
    ]
    assert owned == START_CREDITS * len(players) + sum(gained)


EVENTS = sorted(set(HAPPENINGS) - {"pirate_spawn"})


def _let_happen(captain: Captain, rng: random.Random) -> None:
    """Let something happen to a captain, if it can."""
    with suppress(ValueError):
        truth.let_happen(captain.game, captain.player.username, rng.choice(EVENTS), {})


def _help(captain: Captain, rng: random.Random) -> None:
    """Give a captain, now and then, what else would take too long to come by."""
    player = captain.player
    if rng.random() < 0.1:
        player.ship.cargo = {"ore_copper": 4, "ore_iron": 5, rng.choice(GOODS): 1}
    if rng.random() < 0.1 and player.docked_at:
        store = player.stores.setdefault(player.docked_at, {})
        store |= {"ore_copper": 10, "ore_iron": 10}
    if rng.random() < 0.1:
        player.ship.hull = max(1, player.ship.hull - 20)
        player.ship.fuel = max(5, player.ship.fuel - 20)
    if rng.random() < 0.05 and player.missions:
        player.missions[0].current = 1_000
    if rng.random() < 0.02:
        player.earn(500)
        for pirate in captain.game.state.pirates_at(player.poi_id):
            pirate.hull, pirate.shield = 1, 0
    if rng.random() < 0.02 and not player.drones:
        player.drones.append(Drone(f"drone {player.username}", "sol_belt", "ore_iron"))
    if player.in_transit and rng.random() < 0.1:
        kill(captain.game.state, player, "", "an asteroid", "collision")
    if not any(one.ammo for one in player.ship.modules) and rng.random() < 0.05:
        player.ship.modules.append(Module("gun", "weapon_cannon_1"))


@dataclass
class Played:
    """What was answered, and which types of events were told."""

    answered: set[str] = field(default_factory=set)
    heard: set[str] = field(default_factory=set)


def play(game: Game, seed: int, ticks: int) -> Played:
    """Let three captains call anything at all."""
    rng = make_dice(seed, "any call")
    captains = [Captain(game, name) for name in ("First", "Second", "Third")]
    tools = [one for one in game.tools.values() if one.name not in LEFT_OUT]
    played = Played()
    for _ in range(ticks):
        for captain in captains:
            _help(captain, rng)
            if rng.random() < 0.05:
                _let_happen(captain, rng)
            likely = [one for one in tools if one.name not in played.answered]
            if captain.game.state.pirates_at(captain.player.poi_id):
                likely = [game.tools["attack"]]
            tool = rng.choice(likely if likely and rng.random() < 0.3 else tools)
            given = {} if tool.open else {"session_id": captain.session_id}
            try:
                game.call(tool.name, given | arguments(tool, game, captain.player, rng))
            except GameError:
                continue
            played.answered.add(tool.name)
        game.step()
        check(game)
        for captain in captains:
            news = captain.call("get_notifications", limit=100)["notifications"]
            played.heard.update(item["msg_type"] for item in news)
    return played


@pytest.mark.parametrize("era", ["A", "C"])
def test_nothing_that_is_called_breaks_the_game(era: str) -> None:
    game = make_game(era=era, raid_chance=0.1)
    answered = play(game, 1, 2500).answered
    # Nearly everything was possible at some time, so the run has tried it.
    assert len(answered) >= len(game.tools) - len(LEFT_OUT) - 6
    for name in ("First", "Second", "Third"):
        true = truth.describe_account(game, name)
        assert true["calls"]["mutations_executed"] > 100
    again = make_game(era=era, raid_chance=0.1)
    restore_game(again, dump_game(game))
    assert dump_game(again) == dump_game(game)


def test_the_same_calls_make_the_same_world() -> None:
    worlds = []
    for _ in range(2):
        game = make_game(raid_chance=0.1)
        play(game, 2, 300)
        worlds.append(dump_game(game))
    assert worlds[0] == worlds[1]
