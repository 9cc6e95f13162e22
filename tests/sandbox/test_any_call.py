"""Whatever captains call, the game answers or refuses, and its books stay right.

What they hear meanwhile is what the rules about actions and events are checked against.
"""

from __future__ import annotations

import random
from contextlib import suppress
from dataclasses import dataclass, field

import pytest

from memory.gamestate.effects import ACTIONS, PREFIXES
from memory.gamestate.invalidation import is_mutation
from memory.gamestate.reactions import FAMILIES, REACTIONS
from sandbox.game import truth
from sandbox.game.config import GameError, Json, make_dice
from sandbox.game.game import Game
from sandbox.game.happenings import HAPPENINGS
from sandbox.game.persistence import dump_game, restore_game
from sandbox.game.table import TOOLS
from sandbox.game.tools.combat import kill
from sandbox.game.world.models import Drone, Module, Ship
from tests.sandbox.arguments import GOODS, arguments
from tests.sandbox.captains import Captain, make_game

START_CREDITS = 100
LEFT_OUT = {"register", "login", "logout"}
# Actions that do the same as one that is there, by that one.
SAME_AS = {
    "hunt": "attack", "battle": "attack",
    "rename_ship": "name_ship", "scrap_wreck": "salvage_wreck",
    "refit": "install_mod", "repair_module": "install_mod",
    "buy_listed_ship": "buy_ship", "list_ship_for_sale": "sell_ship",
    "list_item": "create_sell_order",
    "cancel_list": "cancel_order", "buy_listing": "buy",
}  # fmt: skip
# Told over the socket alone, or nothing that the era's own actions lead to.
NOT_TOLD = {"state_update", "base_destroyed"}


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
        if player.docked_at:
            assert game.state.world.bases[player.docked_at].poi_id == player.poi_id
        here = [poi_id for poi_id, ids in game.state._here.items() if player.id in ids]
        assert here == ([] if player.in_transit else [player.poi_id])
    for poi in game.state.world.pois.values():
        assert all(0 <= one.remaining <= one.max_remaining for one in poi.deposits)
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


@pytest.fixture(scope="module")
def games() -> dict[str, tuple[Game, Played]]:
    """A game of each era in which anything at all was called."""
    games = {era: make_game(era=era, raid_chance=0.1) for era in ("A", "C")}
    return {era: (game, play(game, 1, 2500)) for era, game in games.items()}


@pytest.mark.parametrize("era", ["A", "C"])
def test_nothing_that_is_called_breaks_the_game(
    era: str, games: dict[str, tuple[Game, Played]]
) -> None:
    game, played = games[era]
    # Nearly everything was possible at some time, so the run has tried it.
    assert len(played.answered) >= len(game.tools) - len(LEFT_OUT) - 6
    for name in ("First", "Second", "Third"):
        true = truth.describe_account(game, name)
        assert true["calls"]["mutations_executed"] > 100
    again = make_game(era=era, raid_chance=0.1)
    restore_game(again, dump_game(game))
    assert dump_game(again) == dump_game(game)


def _overhear(game: Game, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A list that gets every answer of a game."""
    told: list[str] = []
    answer = game.answer

    def tell(name: str, arguments: Json | None = None) -> str:
        told.append(answer(name, arguments))
        return told[-1]

    monkeypatch.setattr(game, "answer", tell)
    return told


@pytest.mark.parametrize("era", ["A", "C"])
def test_the_same_seed_and_calls_give_the_same_game(
    era: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    games = []
    for _ in range(2):
        game = make_game(era=era, seed=7, raid_chance=0.1)
        told = _overhear(game, monkeypatch)
        play(game, 2, 300)
        games.append((told, dump_game(game)))
    assert len(games[0][0]) > 300
    assert games[0] == games[1]


def test_every_event_with_a_reaction_is_told(
    games: dict[str, tuple[Game, Played]],
) -> None:
    heard = set().union(*(played.heard for _, played in games.values()))
    assert set(REACTIONS) - NOT_TOLD <= heard
    for start in FAMILIES:
        assert any(kind.startswith(start) for kind in heard), start


def test_every_action_of_the_table_can_be_done() -> None:
    there = {name for name, tool in TOOLS.items() if not tool.read_only}
    assert set(ACTIONS) - there == set(SAME_AS)
    assert set(SAME_AS.values()) <= there
    for prefix in PREFIXES:
        assert any(name.startswith(prefix) for name in there), prefix


def test_what_the_table_calls_a_read_changes_nothing() -> None:
    lifecycle = {"register", "login", "logout"}
    for name, tool in TOOLS.items():
        if name not in lifecycle:
            assert is_mutation(name) is not tool.read_only, name
