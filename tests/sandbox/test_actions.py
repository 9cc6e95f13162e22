"""What each action does, from the preview to the notification."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.game.config import GameError
from sandbox.game.game import Game
from sandbox.game.world.npcs import Pirate
from tests.sandbox.captains import Captain, make_game


def test_undock_and_dock(captain: Captain) -> None:
    assert captain.call("undock") == {"queued": True, "message": "Undocking..."}
    assert captain.call("get_status")["player"]["docked_at_base"] == "sol_base"
    captain.game.step()
    assert [item["data"] for item in captain.news()] == [{"action": "undock"}]
    assert "docked_at_base" not in captain.call("get_status")["player"]
    assert captain.call("dock") == {
        "queued": True,
        "base_name": "Confederacy Central Command",
        "base_id": "sol_base",
    }
    captain.game.step()
    assert captain.call("get_status")["player"]["docked_at_base"] == "sol_base"


def test_travel_burns_fuel_and_arrives(captain: Captain) -> None:
    captain.do("undock")
    tick = captain.game.tick
    assert captain.call("travel", target_poi="sol_belt") == {
        "queued": True,
        "destination": "Main Belt",
        "destination_id": "sol_belt",
        "ticks": 1,
        "fuel_cost": 1,
        "arrival_tick": tick + 1,
    }
    captain.game.step()
    (news,) = captain.news()
    assert (news["type"], news["msg_type"]) == ("system", "ok")
    assert news["data"] == {
        "action": "arrived",
        "poi": "Main Belt",
        "poi_id": "sol_belt",
        "online_players": [],
    }
    status = captain.call("get_status")
    assert status["player"]["current_poi"] == "sol_belt"
    assert status["ship"]["fuel"] == 99


@pytest.mark.parametrize(
    ("target", "code"),
    [
        ("krynn_mines", "wrong_system"),
        ("sol_station", "already_there"),
        ("nowhere", "invalid_poi"),
        ("sol_belt", "docked"),
    ],
)
def test_travel_to_where_one_cannot(captain: Captain, target: str, code: str) -> None:
    assert captain.refused("travel", target_poi=target).code == code


def test_jump_takes_two_ticks_and_is_a_journey(captain: Captain) -> None:
    captain.do("undock")
    goal = captain.call("get_system")["system"]["connections"][0]
    name = captain.game.state.world.systems[goal].name
    tick = captain.game.tick
    assert captain.call("jump", target_system=goal) == {
        "queued": True,
        "destination": name,
        "ticks": 2,
        "fuel_cost": 2,
        "arrival_tick": tick + 2,
    }
    captain.game.step()
    flight = captain.call("get_system")
    assert flight["in_transit"] is True
    assert (flight["transit_type"], flight["ticks_remaining"]) == ("jump", 1)
    assert (flight["from_system"], flight["to_system"]) == ("sol", goal)
    assert captain.call("get_poi")["to_poi"] == f"{goal}_sun"
    assert captain.call("get_nearby")["poi_id"] == ""
    assert captain.refused("mine").code == "in_transit"
    assert captain.refused("jump", target_system="sol").code == "already_jumping"
    captain.game.step()
    (news,) = captain.news()
    assert news["data"]["action"] == "jumped"
    assert news["data"]["system_id"] == goal
    assert captain.call("get_system")["system"]["id"] == goal
    status = captain.call("get_status")
    assert status["player"]["stats"]["systems_explored"] == 1
    assert status["ship"]["fuel"] == 98
    (seen,) = captain.call("get_map", system_id=goal)["systems"]
    assert seen["visited"] is True
    assert seen["visited_at"] == "2026-02-06 00:42:16"


def test_jump_needs_a_connection(captain: Captain) -> None:
    captain.do("undock")
    near = captain.call("get_system")["system"]["connections"]
    far = next(
        name
        for name in captain.game.state.world.systems
        if name not in near and name != "sol"
    )
    assert captain.refused("jump", target_system=far).code == "not_connected"
    assert captain.refused("jump", target_system="sol").code == "already_in_system"
    assert captain.refused("jump", target_system="no").code == "invalid_system"


def test_mining_fills_the_hold_and_empties_the_belt(captain: Captain) -> None:
    captain.go_mining()
    preview = captain.call("mine")
    assert set(preview) == {
        "queued",
        "resource_id",
        "resource_name",
        "mining_power",
        "message",
    }
    assert captain.call("get_cargo")["cargo"] == []
    captain.game.step()
    (news,) = captain.news()
    found = news["data"]
    assert news["msg_type"] == "mining_yield"
    assert found["resource_id"] == preview["resource_id"]
    assert 1 <= found["quantity"] <= preview["mining_power"] == 5
    assert captain.call("get_cargo")["cargo"] == [
        {
            "item_id": found["resource_id"],
            "name": found["resource_name"],
            "quantity": found["quantity"],
            "size": 1,
        }
    ]
    assert found["remaining"] == 100_000 - found["quantity"]
    assert captain.player.stats["ore_mined"] == found["quantity"]
    assert captain.player.skills["mining_basic"].xp == found["quantity"]


def test_an_emptied_deposit_grows_back(captain: Captain) -> None:
    captain.go_mining()
    deposits = captain.game.state.world.pois["sol_belt"].deposits
    for deposit in deposits:
        deposit.remaining = 3 if deposit.resource_id == "ore_iron" else 0
    captain.do("mine")
    assert deposits[0].remaining == 200
    assert captain.player.ship.cargo == {"ore_iron": 3}


def test_somebody_else_was_faster(game: Game, captain: Captain) -> None:
    captain.go_mining()
    for deposit in game.state.world.pois["sol_belt"].deposits:
        deposit.remaining = 0
    captain.game.state.world.pois["sol_belt"].deposits[0].remaining = 1
    captain.call("mine")
    game.state.world.pois["sol_belt"].deposits[0].remaining = 0
    game.step()
    (news,) = captain.news()
    assert news["msg_type"] == "action_error"
    assert news["data"] == {
        "command": "mine",
        "tick": game.tick,
        "code": "no_resources",
        "message": "no_resources: Nothing to mine here",
    }


def test_selling_pays_the_recorded_prices(captain: Captain) -> None:
    captain.player.ship.cargo = {"ore_iron": 10, "ore_copper": 4}
    (sold,) = captain.do("sell", item_id="ore_iron", quantity=7)
    assert sold["data"]["quantity_sold"] == 7
    assert sold["data"]["total_earned"] == 35
    captain.do("sell", item_id="Copper Ore", quantity=4)
    assert captain.player.credits == 100 + 35 + 32
    assert captain.player.ship.cargo == {"ore_iron": 3}
    assert captain.player.stats["trades_completed"] == 2
    assert captain.player.stats["credits_earned"] == 67


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


def test_what_nobody_wants_stays(captain: Captain) -> None:
    base = captain.game.state.world.bases["sol_base"]
    captain.game.state.markets.at(base).shelves["ore_iron"].wanted = 2
    captain.player.ship.cargo = {"ore_iron": 10}
    (sold,) = captain.do("sell", item_id="ore_iron", quantity=10)
    assert (sold["data"]["quantity_sold"], sold["data"]["unsold"]) == (2, 8)
    assert captain.player.ship.cargo == {"ore_iron": 8}


@pytest.mark.parametrize(
    ("item", "price"),
    [
        ("ore_iron", 5),
        ("ore_copper", 8),
        ("fuel_cell", 15),
        ("repair_kit", 120),
        ("mining_laser_1", 150),
    ],
)
def test_the_capital_has_the_recorded_prices(
    captain: Captain, item: str, price: int
) -> None:
    (entry,) = captain.call("view_market", item_id=item)["items"]
    assert entry["best_sell"] == price


def test_buying(captain: Captain) -> None:
    (bought,) = captain.do("buy", item_id="fuel_cell", quantity=6)
    assert bought["data"]["total_cost"] == 90
    assert captain.player.credits == 10
    assert captain.player.ship.cargo == {"fuel_cell": 6}
    refusal = captain.refused("buy", item_id="fuel_cell", quantity=1)
    assert refusal.text == "Error: insufficient_credits: Need 15 credits. You have 10."


def test_buying_more_than_there_is_or_fits(captain: Captain) -> None:
    captain.player.credits = 100_000
    (bought,) = captain.do("buy", item_id="weapon_missile_1", quantity=5)
    assert bought["data"]["quantity"] == 5
    assert captain.refused("buy", item_id="fuel_cell", quantity=1).code == (
        "no_cargo_space"
    )
    captain.do("sell", item_id="weapon_missile_1", quantity=5)
    base = captain.game.state.world.bases["sol_base"]
    captain.game.state.markets.at(base).shelves["fuel_cell"].stock = 3
    (bought,) = captain.do("buy", item_id="fuel_cell", quantity=10)
    assert (bought["data"]["quantity"], bought["data"]["unfilled"]) == (3, 7)


def test_selling_what_one_has_not(captain: Captain) -> None:
    assert captain.refused("sell", item_id="ore_iron", quantity=35).text == (
        "Error: insufficient_items: Not enough Iron Ore in cargo. "
        "You have 0 but tried to sell 35."
    )


def test_refuelling_at_a_station_and_from_cells(captain: Captain) -> None:
    assert captain.refused("refuel").code == "fuel_full"
    captain.player.ship.fuel = 93
    (news,) = captain.do("refuel")
    assert news["data"] == {
        "action": "refuel",
        "source": "station",
        "fuel": 7,
        "cost": 7,
        "fuel_now": 100,
        "fuel_max": 100,
    }
    captain.do("undock")
    captain.player.ship.fuel = 75
    captain.player.ship.cargo = {"fuel_cell": 5}
    (news,) = captain.do("refuel")
    assert (news["data"]["fuel"], news["data"]["cells_used"]) == (25, 3)
    assert captain.player.ship.cargo == {"fuel_cell": 2}


def test_repairing_as_far_as_the_money_goes(captain: Captain) -> None:
    assert captain.refused("repair").code == "hull_full"
    captain.player.ship.hull = 40
    (news,) = captain.do("repair")
    assert news["data"] == {
        "action": "repair",
        "repaired": 50,
        "cost": 100,
        "hull": 90,
        "max_hull": 100,
    }
    assert captain.player.credits == 0
    assert captain.refused("repair").code == "insufficient_credits"


def test_scanning_tells_both_sides(game: Game, captain: Captain) -> None:
    other = Captain(game, "Other")
    (seen,) = captain.do("scan", target_id=other.registered["player_id"])
    assert (seen["type"], seen["msg_type"]) == ("combat", "scan_result")
    assert seen["data"]["success"] is True
    assert seen["data"]["username"] == "Other"
    assert seen["data"]["revealed_info"] == [
        "username",
        "ship_class",
        "hull",
        "shield",
        "cloaked",
    ]
    (noticed,) = other.news()
    assert noticed["msg_type"] == "scan_detected"
    assert noticed["data"]["scanner_username"] == "Wanderer"
    assert captain.refused("scan", target_id="nobody").code == "invalid_target"
    own = captain.registered["player_id"]
    assert captain.refused("scan", target_id=own).code == "invalid_target"


@pytest.fixture
def pirate(game: Game) -> Pirate:
    """A small pirate who waits at the belt of Sol."""
    pirate = next(one for one in game.state.pirates.values() if one.tier == "small")
    pirate.poi_id = "sol_belt"
    return pirate


def test_a_duel_with_a_pirate(captain: Captain, pirate: Pirate) -> None:
    captain.go_mining()
    (near,) = captain.call("get_nearby")["pirates"]
    assert near["pirate_id"] == pirate.id
    preview = captain.call("attack", target_id=pirate.id)
    assert preview["target_name"] == pirate.name
    captain.game.step()
    shot, back = captain.news()
    assert (shot["msg_type"], back["msg_type"]) == ("combat_update", "pirate_combat")
    assert shot["data"]["shield_hit"] == 12
    assert back["data"]["player_shield"] == 50 - 6
    credits = captain.player.credits
    while pirate.alive:
        news = captain.do("attack", target_id=pirate.id)
    assert news[-1]["msg_type"] == "pirate_destroyed"
    assert captain.player.credits == credits + news[-1]["data"]["credits_reward"]
    assert captain.player.stats["pirates_destroyed"] == 1
    assert captain.call("get_nearby")["pirates"] == []
    for _ in range(50):
        captain.game.step()
    assert len(captain.call("get_nearby")["pirates"]) == 1


def test_who_is_docked_cannot_be_attacked(game: Game, captain: Captain) -> None:
    other = Captain(game, "Other")
    captain.do("undock")
    target = other.registered["player_id"]
    assert captain.refused("attack", target_id=target).code == "invalid_target"
