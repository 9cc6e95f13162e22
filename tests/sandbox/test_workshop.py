"""craft, install_mod, uninstall_mod and set_home_base."""

from __future__ import annotations

from tests.sandbox.captains import Captain


def test_crafting_turns_goods_into_others(captain: Captain) -> None:
    recipe = captain.call("get_recipes")["recipes"]["basic_iron_smelting"]
    assert recipe["inputs"] == [{"itemId": "ore_iron", "quantity": 5}]
    wanted = {"recipe_id": recipe["id"], "count": 2}
    assert captain.refused("craft", **wanted).code == "missing_materials"
    captain.player.ship.load("ore_iron", 12)
    (made,) = captain.do("craft", **wanted)
    assert made["data"]["xp_gained"] == {"crafting_basic": 10}
    assert captain.player.ship.cargo == {"ore_iron": 2, "refined_steel": 2}
    skills = captain.call("get_skills")["player_skills"]
    assert [(one["skill_id"], one["current_xp"]) for one in skills] == [
        ("crafting_basic", 10)
    ]
    assert captain.refused("craft", recipe_id="nothing").code == "cannot_craft"
    assert captain.refused("craft", recipe_id=recipe["id"], count=11).code == (
        "invalid_quantity"
    )


def test_modules_go_in_and_out(captain: Captain) -> None:
    captain.player.ship.load("mining_laser_1", 1)
    captain.do("install_mod", module_id="mining_laser_1")
    status = captain.call("get_status")
    assert len(status["modules"]) == len(status["ship"]["modules"]) == 2
    assert (status["ship"]["cpu_used"], status["ship"]["cargo_used"]) == (4, 0)
    refusal = captain.refused("install_mod", module_id="mining_laser_1")
    assert refusal.code == "invalid_item"
    captain.do("uninstall_mod", module_id=status["modules"][0]["id"])
    assert captain.player.ship.cargo == {"mining_laser_1": 1}
    assert len(captain.player.ship.modules) == 1
    assert captain.refused("uninstall_mod", module_id="x").code == "invalid_item"


def test_a_ship_has_room_for_so_many_modules(captain: Captain) -> None:
    captain.player.ship.load("mining_laser_1", 5)
    for _ in range(3):
        captain.do("install_mod", module_id="mining_laser_1")
    refusal = captain.refused("install_mod", module_id="mining_laser_1")
    assert refusal.code == "no_equipment"


def test_a_home_is_where_one_wakes_up(captain: Captain) -> None:
    krynn = captain.game.state.world.bases["krynn_base"]
    captain.game.state.leave(captain.player)
    captain.game.state.arrive(captain.player, krynn.poi_id)
    captain.player.docked_at = krynn.id
    captain.do("set_home_base")
    assert captain.call("get_status")["player"]["home_base"] == "krynn_base"
    captain.do("undock")
    captain.do("self_destruct")
    assert captain.player.docked_at == "krynn_base"
