"""Orders, ships that are kept, insurance, work at bases, and raids on them."""

from __future__ import annotations

from sandbox.game import truth
from sandbox.game.game import Game
from sandbox.game.happenings import REPAIR_TICKS
from sandbox.game.tools.combat import CLONE_COST
from sandbox.game.tools.market import TAKEN_AFTER_TICKS
from sandbox.game.tools.ships import YARD_TICKS
from sandbox.game.tools.workshop import WORK_TICKS
from tests.sandbox.captains import Captain


def test_a_sell_order_is_taken_bit_by_bit(captain: Captain) -> None:
    captain.player.ship.load("ore_iron", 10)
    offer = {"item_id": "ore_iron", "quantity": 10, "price_each": 6}
    (made,) = captain.do("create_sell_order", **offer)
    assert captain.player.ship.cargo == {}
    assert captain.player.credits == 99
    (order,) = captain.call("view_orders")["orders"]
    assert order["order_id"] == made["data"]["order_id"]
    (iron,) = captain.call("view_market", item_id="ore_iron")["items"]
    assert iron["sell_orders"][-1]["my_quantity"] == order["remaining"]
    truth.let_happen(captain.game, "Wanderer", "market_update", {"count": 3})
    (told,) = captain.news()
    assert told["data"]["base_id"] == "sol_base"
    (left,) = captain.call("view_orders")["orders"]
    assert (left["remaining"], left["filled_quantity"]) == (7, 3)
    assert captain.call("view_storage")["credits"] == 18
    for _ in range(TAKEN_AFTER_TICKS):
        captain.game.step()
    assert captain.news()[0]["msg_type"] == "market_update"
    assert captain.call("view_orders")["orders"] == []
    assert captain.call("view_storage")["credits"] == 60
    assert captain.refused("cancel_order", order_id="x").code == "invalid_order"


def test_a_buy_order_is_paid_for_at_once_and_given_back(captain: Captain) -> None:
    offer = {"item_id": "ore_gold", "quantity": 2, "price_each": 10}
    (made,) = captain.do("create_buy_order", **offer)
    order_id = made["data"]["order_id"]
    assert captain.player.credits == 79
    captain.do("modify_order", order_id=order_id, new_price=30)
    assert captain.player.credits == 39
    captain.do("cancel_order", order_id=order_id)
    assert captain.player.credits == 99
    refusal = captain.refused("create_buy_order", **{**offer, "price_each": 60})
    assert refusal.code == "insufficient_credits"


def test_an_order_that_was_taken_back_lies_in_storage(captain: Captain) -> None:
    captain.player.ship.load("ore_gold", 2)
    offer = {"item_id": "ore_gold", "quantity": 2, "price_each": 200}
    (made,) = captain.do("create_sell_order", **offer)
    captain.do("cancel_order", order_id=made["data"]["order_id"])
    assert captain.player.stores == {"sol_base": {"ore_gold": 2}}


def test_a_second_ship_is_bought_flown_and_sold(captain: Captain) -> None:
    captain.player.earn(400)
    captain.player.ship.load("ore_iron", 3)
    first = captain.player.ship.id
    assert "courier_light" in [s["id"] for s in captain.call("get_ships")["ships"]]
    (bought,) = captain.do("buy_ship", ship_class="courier_light")
    second = bought["data"]["ship_id"]
    assert captain.call("list_ships")["count"] == 2
    captain.do("switch_ship", ship_id=second)
    listed = captain.call("list_ships")
    assert listed["active_ship_id"] == second
    assert captain.call("get_cargo")["used"] == 0
    assert captain.call("view_storage")["ships"][0]["ship_id"] == first
    captain.do("switch_ship", ship_id=first)
    captain.do("sell_ship", ship_id=second)
    assert captain.player.credits == 300
    assert captain.refused("switch_ship", ship_id=second).code == "invalid_ship"


def test_insurance_pays_for_a_lost_ship(captain: Captain) -> None:
    captain.do("buy_insurance")
    assert captain.refused("buy_insurance").code == "already_insured"
    paid = 100 - captain.player.credits
    captain.do("undock")
    captain.do("self_destruct")
    assert captain.player.credits == 100 - paid - CLONE_COST
    assert captain.do("claim_insurance")[0]["data"]["payout"] == 200
    assert captain.player.credits == 300 - paid - CLONE_COST
    assert captain.refused("claim_insurance").code == "no_claim"


def test_a_gift_lies_in_the_others_storage(game: Game, captain: Captain) -> None:
    other = Captain(game, "Other")
    captain.player.ship.load("ore_iron", 5)
    gift = {"recipient": "other", "item_id": "ore_iron", "quantity": 5}
    captain.do("send_gift", **gift)
    assert other.call("view_storage")["items"][0]["quantity"] == 5
    assert captain.refused("send_gift", **gift).code == "insufficient_items"


def test_a_base_produces_from_storage(modern: Captain) -> None:
    modern.player.stores = {"sol_base": {"ore_iron": 12}}
    work = {"action": "produce", "recipe_id": "basic_iron_smelting", "count": 2}
    modern.do("facility", **work)
    assert modern.call("view_storage")["items"][0]["quantity"] == 2
    for _ in range(WORK_TICKS):
        modern.game.step()
    assert modern.news()[-1]["msg_type"] == "crafting_update"
    assert modern.player.stores == {"sol_base": {"ore_iron": 2, "refined_steel": 2}}
    assert modern.refused("facility", action="fly").code == "invalid_action"


def test_a_facility_that_is_built_is_seen_by_others(modern: Captain) -> None:
    other = Captain(modern.game, "Other")
    modern.do("facility", action="build", facility_type="arboretum")
    assert other.news()[0]["msg_type"] == "facility_built"
    assert "arboretum" in other.call("get_base")["base"]["facilities"]


def test_a_ship_that_was_ordered_is_kept_at_the_base(modern: Captain) -> None:
    modern.player.earn(400)
    modern.do("commission_ship", ship_class="courier_light")
    assert modern.call("list_ships")["count"] == 1
    for _ in range(YARD_TICKS):
        modern.game.step()
    assert modern.news()[-1]["msg_type"] == "ship_commission_complete"
    assert modern.call("list_ships")["count"] == 2


def test_a_raided_base_is_mended(captain: Captain) -> None:
    before = captain.call("get_base")
    truth.let_happen(captain.game, "Wanderer", "base_raid_update", {})
    assert captain.news()[0]["msg_type"] == "base_raid_update"
    assert captain.call("get_base")["condition"]["condition"] == "struggling"
    for _ in range(REPAIR_TICKS):
        captain.game.step()
    assert captain.news()[0]["msg_type"] == "station_repaired"
    assert captain.call("get_base") == before


def test_a_mission_that_was_declined_is_not_offered_again(modern: Captain) -> None:
    first = modern.call("get_missions")["missions"][0]["mission_id"]
    modern.do("decline_mission", mission_id=first)
    left = [one["mission_id"] for one in modern.call("get_missions")["missions"]]
    assert first not in left
