"""Surveys, drones, wrecks in tow, what is done to a ship, battles."""

from __future__ import annotations

import pytest

from sandbox.game.persistence import dump_game, restore_game
from sandbox.game.tools.combat import kill, leave_wreck
from sandbox.game.world.models import Module
from tests.sandbox.captains import Captain, make_game


@pytest.fixture
def modern(modern: Captain) -> Captain:
    """A captain of era C in space."""
    modern.do("undock")
    return modern


def hide_a_place(captain: Captain) -> str:
    place = captain.game.state.world.pois["sol_belt"]
    place.hidden = True
    return place.id


def test_a_survey_finds_what_no_chart_has(modern: Captain) -> None:
    hidden = hide_a_place(modern)
    assert modern.refused("travel", target_poi=hidden).code == "invalid_poi"
    before = [poi["id"] for poi in modern.call("get_system")["system"]["pois"]]
    assert hidden not in before
    told = modern.do("survey_system")
    assert hidden in told[-1]["data"]["result"]["newly_revealed"]
    after = [poi["id"] for poi in modern.call("get_system")["system"]["pois"]]
    assert set(after) > set(before)
    player = modern.call("get_status")["player"]
    assert player["revealed_pois"][hidden] is True
    modern.do("travel", target_poi=hidden)
    assert modern.call("get_poi")["poi"]["id"] == hidden


def test_a_drone_digs_and_comes_back(captain: Captain) -> None:
    captain.player.ship.load("mining_drone", 1)
    captain.go_mining()
    captain.do("deploy_drone")
    assert captain.player.ship.cargo == {}
    again = make_game()
    restore_game(again, dump_game(captain.game))
    assert dump_game(again) == dump_game(captain.game)
    for _ in range(5):
        captain.game.step()
    told = [item for item in captain.news() if item["msg_type"] == "drone_update"]
    (drone,) = captain.call("get_drones")["drones"]
    assert told[-1]["data"]["drones"][0]["drone_id"] == drone["drone_id"]
    captain.do("recall_drone", drone_id=drone["drone_id"])
    hold = captain.player.ship.cargo
    assert hold["mining_drone"] == 1
    assert hold[drone["resource_id"]] >= drone["mined"] > 0
    assert captain.call("get_drones")["drones"] == []


def wreck_here(captain: Captain) -> str:
    player = captain.player
    return leave_wreck(
        captain.game.state,
        poi_id=player.poi_id,
        victim=("", "Nobody"),
        ship_class="pirate",
        cargo={},
    ).id


def test_a_wreck_is_towed_to_the_scrappers(modern: Captain) -> None:
    wreck = wreck_here(modern)
    modern.do("tow_wreck", wreck_id=wreck)
    assert modern.call("get_status")["player"]["towing_wreck_id"] == wreck
    modern.do("travel", target_poi="sol_belt")
    assert modern.call("get_wrecks")["wrecks"][0]["id"] == wreck
    modern.do("travel", target_poi="sol_station")
    before = modern.player.credits
    modern.do("sell_wreck")
    assert modern.player.credits > before
    assert "towing_wreck_id" not in modern.call("get_status")["player"]
    assert modern.refused("release_tow").code == "not_towing"


def test_a_wreck_is_cut_up(captain: Captain) -> None:
    captain.do("undock")
    wreck = wreck_here(captain)
    captain.do("salvage_wreck", wreck_id=wreck)
    assert captain.player.ship.cargo == {"refined_steel": 2}
    assert captain.call("get_wrecks")["wrecks"] == []


def test_kits_cells_and_rounds_are_used(modern: Captain) -> None:
    ship = modern.player.ship
    ship.hull, ship.fuel = 50, 50
    ship.cargo = {"repair_kit": 1, "fuel_cell": 1, "cannon_rounds": 5}
    ship.modules.append(Module("gun", "weapon_cannon_1"))
    modern.do("use_item", item_id="repair_kit")
    modern.do("use_item", item_id="fuel_cell")
    assert (ship.hull, ship.fuel) == (75, 60)
    modern.do("reload", weapon_instance_id="gun")
    assert modern.call("get_ship")["modules"][-1]["current_ammo"] == 5
    assert ship.cargo == {}
    assert modern.refused("reload", weapon_instance_id="gun").code == "no_ammo"


def test_who_is_cloaked_is_not_seen(modern: Captain) -> None:
    other = Captain(modern.game, "Other")
    other.do("undock")
    modern.news()
    other.do("name_ship", name="Second Wind")
    seen = {one["username"]: one for one in modern.call("get_nearby")["nearby"]}
    assert seen["Other"]["ship_name"] == "Second Wind"
    other.do("cloak")
    assert [item["msg_type"] for item in modern.news()] == ["observation_update"] * 2
    names = [one["username"] for one in modern.call("get_nearby")["nearby"]]
    assert "Other" not in names
    assert other.call("get_status")["player"]["is_cloaked"] is True


def test_a_battle_is_told_from_the_first_shot_to_the_last(modern: Captain) -> None:
    other = Captain(modern.game, "Other")
    other.do("undock")
    modern.do("attack", target_id=other.player.id)
    assert other.call("get_battle_status")["in_battle"] is True
    told = [item["msg_type"] for item in other.news()]
    assert told.count("battle_started") == 1
    modern.do("attack", target_id=other.player.id)
    other.do("travel", target_poi="sol_belt")
    told = [item["msg_type"] for item in modern.news()]
    assert "battle_ended" in told
    assert "battle_started" not in told[told.index("battle_ended") :]
    assert modern.call("get_battle_status")["in_battle"] is False


def test_the_queue_of_a_lost_ship_is_cleared(modern: Captain) -> None:
    modern.call("travel", target_poi="sol_belt")
    assert modern.call("get_queue")["queue"][0]["command"] == "travel"
    kill(modern.game.state, modern.player, "", "an asteroid", "collision")
    told = [item["msg_type"] for item in modern.news()]
    assert told == ["queue_cleared", "player_died"]
    assert modern.call("get_queue")["queue"] == []
