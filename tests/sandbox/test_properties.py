"""What must hold whatever captains try."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from sandbox.game.config import GameError
from sandbox.game.game import Game
from sandbox.game.persistence import dump_game
from tests.sandbox.captains import Captain, make_game

ITEMS = ["ore_iron", "ore_copper", "ore_nickel", "fuel_cell", "repair_kit", "nothing"]
POIS = ["sol_station", "sol_belt", "sol_earth", "krynn_mines"]


def moves() -> st.SearchStrategy[tuple[str, dict[str, Any]]]:
    plain = st.sampled_from(["undock", "dock", "mine", "mine", "refuel", "repair"])
    items, quantities = st.sampled_from(ITEMS), st.integers(1, 80)
    return st.one_of(
        plain.map(lambda name: (name, {})),
        st.sampled_from(POIS).map(lambda poi: ("travel", {"target_poi": poi})),
        st.integers(0, 7).map(lambda way: ("jump", {"way": way})),
        st.tuples(st.sampled_from(["buy", "sell"]), items, quantities).map(
            lambda one: (one[0], {"item_id": one[1], "quantity": one[2]})
        ),
    )


TURNS = st.lists(st.tuples(st.integers(0, 1), moves()), max_size=60)


def play(game: Game, turns: list[tuple[int, tuple[str, dict[str, Any]]]]) -> list[str]:
    """Let two captains try something at each tick, and write down what they hear."""
    captains = [Captain(game, "First"), Captain(game, "Second")]
    heard: list[str] = []
    for who, (tool, arguments) in turns:
        captain = captains[who]
        if tool == "jump":
            near = game.state.world.systems[captain.player.system_id].connections
            arguments = {"target_system": near[arguments["way"] % len(near)]}
        try:
            heard.append(json.dumps(captain.call(tool, **arguments)))
        except GameError as error:
            heard.append(error.text)
        game.step()
        check(game)
        heard.append(json.dumps(captain.call("get_notifications")))
    return heard


def check(game: Game) -> None:
    for player in game.state.players.values():
        ship, build = player.ship, player.ship.build
        assert player.credits >= 0
        assert 0 <= ship.cargo_used <= build.cargo
        assert all(count > 0 for count in ship.cargo.values())
        assert 0 <= ship.fuel <= build.fuel
        assert 0 < ship.hull <= build.hull
        assert player.stats["credits_earned"] - player.stats["credits_spent"] == (
            player.credits - 100
        )
        if player.docked_at:
            assert game.state.world.bases[player.docked_at].poi_id == player.poi_id
        here = [poi_id for poi_id, ids in game.state._here.items() if player.id in ids]
        assert here == ([] if player.in_transit else [player.poi_id])
    for poi in game.state.world.pois.values():
        assert all(0 <= one.remaining <= one.max_remaining for one in poi.deposits)


@given(TURNS)
def test_accounts_and_holds_stay_within_their_bounds(turns: Any) -> None:
    play(make_game(), turns)


@given(TURNS, st.integers(0, 1000))
def test_the_same_seed_and_calls_give_the_same_game(turns: Any, seed: int) -> None:
    first, second = make_game(seed=seed), make_game(seed=seed)
    assert play(first, turns) == play(second, turns)
    assert dump_game(first) == dump_game(second)


@given(have=st.integers(0, 50), sell=st.integers(1, 60), wanted=st.integers(0, 60))
def test_a_sale_moves_goods_and_money_and_makes_none(
    have: int, sell: int, wanted: int
) -> None:
    game = make_game()
    captain = Captain(game)
    if have:
        captain.player.ship.cargo = {"ore_iron": have}
    shelf = game.state.markets.at(game.state.world.bases["sol_base"]).shelves[
        "ore_iron"
    ]
    shelf.wanted = wanted
    stock = shelf.stock
    try:
        captain.call("sell", item_id="ore_iron", quantity=sell)
    except GameError as error:
        assert error.code == "insufficient_items"
        assert sell > have
        return
    # The tick alone, so that no market drifts while it is looked at.
    game.state.tick += 1
    game.resolution.resolve()
    sold = captain.news()[0]["data"]
    assert sold["quantity_sold"] == min(sell, wanted)
    left = captain.player.ship.cargo.get("ore_iron", 0)
    assert left + shelf.stock == have + stock
    assert wanted - shelf.wanted == sold["quantity_sold"]
    paid = sum(fill["subtotal"] for fill in sold["fills"])
    assert captain.player.credits == 100 + sold["total_earned"] == 100 + paid
