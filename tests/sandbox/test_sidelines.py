"""Missions, storage, salvage, barter, chat and prices."""

from __future__ import annotations

import json

from sandbox.game.game import Game
from sandbox.game.persistence import dump_game, restore_game
from sandbox.game.tools.combat import LASTS_TICKS
from sandbox.game.world.markets import PRICE_TICKS
from tests.sandbox.captains import Captain, make_game


def test_a_mission_from_offer_to_reward(captain: Captain) -> None:
    assert captain.call("get_active_missions") == {
        "missions": None,
        "total_count": 0,
        "max_missions": 5,
    }
    offers = captain.call("get_missions")
    assert offers["base_id"] == "sol_base"
    wanted = offers["missions"][0]["mission_id"]
    (accepted,) = captain.do("accept_mission", mission_id=wanted)
    assert accepted["data"]["template_id"] == wanted
    mission_id = accepted["data"]["mission_id"]
    assert wanted not in json.dumps(captain.call("get_missions"))
    refusal = captain.refused("complete_mission", mission_id=mission_id)
    assert refusal.code == "mission_incomplete"
    captain.go_mining()
    while captain.player.missions[0].current < 10:
        captain.do("mine")
        captain.player.ship.cargo.clear()
    (active,) = captain.call("get_active_missions")["missions"]
    assert (active["current"], active["percent_complete"]) == (10, 100)
    captain.do("travel", target_poi="sol_station")
    captain.do("dock")
    credits = captain.player.credits
    (done,) = captain.do("complete_mission", mission_id=mission_id)
    assert captain.player.credits == credits + done["data"]["credits_earned"]
    player = captain.call("get_status")["player"]
    assert list(player["completed_missions"]) == [wanted]
    assert captain.call("get_active_missions")["missions"] is None


def test_missions_are_given_up_and_run_out(captain: Captain) -> None:
    first, second = [
        one["mission_id"] for one in captain.call("get_missions")["missions"]
    ][:2]
    captain.do("accept_mission", mission_id=first)
    captain.do("abandon_mission", mission_id=first)
    assert captain.player.missions == []
    assert (
        captain.refused("abandon_mission", mission_id=first).code == "invalid_mission"
    )
    captain.do("accept_mission", mission_id=second)
    captain.player.missions[0].expire_tick = captain.game.tick + 1
    captain.game.step()
    assert captain.player.missions == []


def test_goods_and_credits_in_storage(captain: Captain) -> None:
    captain.player.ship.load("ore_iron", 10)
    captain.do("deposit_items", item_id="ore_iron", quantity=8)
    captain.do("deposit_credits", amount=60)
    store = captain.call("view_storage")
    assert store["credits"] == 60
    assert store["items"] == [
        {"item_id": "ore_iron", "name": "Iron Ore", "quantity": 8, "size": 1}
    ]
    assert captain.call("get_cargo")["used"] == 2
    captain.do("withdraw_items", item_id="ore_iron", quantity=8)
    captain.do("withdraw_credits", amount=60)
    assert captain.call("view_storage")["items"] == []
    assert (captain.player.credits, captain.player.ship.cargo_used) == (100, 10)
    refusal = captain.refused("withdraw_items", item_id="ore_iron", quantity=1)
    assert refusal.code == "insufficient_items"
    assert captain.refused("deposit_credits", amount=0).code == "invalid_quantity"
    assert captain.refused("deposit_credits", amount=101).code == "insufficient_credits"


def test_what_is_thrown_away_can_be_picked_up(game: Game, captain: Captain) -> None:
    captain.player.ship.load("ore_iron", 10)
    captain.do("undock")
    (thrown,) = captain.do("jettison", item_id="ore_iron", quantity=6)
    assert thrown["data"]["cargo_used"] == 4
    (wreck,) = captain.call("get_wrecks")["wrecks"]
    assert wreck["type"] == "jettison"
    assert wreck["cargo"] == [{"item_id": "ore_iron", "quantity": 6}]
    loot = {"wreck_id": wreck["id"], "item_id": "ore_iron", "quantity": 4}
    captain.do("loot_wreck", **loot)
    captain.do("loot_wreck", **loot)
    assert captain.player.ship.cargo == {"ore_iron": 10}
    assert captain.call("get_wrecks") == {"count": 0, "wrecks": []}
    assert captain.refused("loot_wreck", **loot).code == "invalid_wreck"
    captain.do("jettison", item_id="ore_iron", quantity=1)
    for _ in range(LASTS_TICKS):
        game.step()
    assert captain.call("get_wrecks")["count"] == 0


def test_a_trade_between_two(game: Game, captain: Captain) -> None:
    other = Captain(game, "Other")
    captain.player.ship.load("ore_iron", 5)
    offer = {
        "target_id": other.player.id,
        "offer_items": [{"item_id": "ore_iron", "quantity": 5}],
        "request_credits": 40,
    }
    (made,) = captain.do("trade_offer", **offer)
    (heard,) = other.news()
    assert heard["msg_type"] == "trade_offer_received"
    (open_,) = other.call("get_trades")["incoming"]
    assert open_ == heard["data"]
    assert captain.call("get_trades")["outgoing"] == [open_]
    (done,) = other.do("trade_accept", trade_id=made["data"]["trade_id"])
    assert done["msg_type"] == "trade_complete"
    assert done["data"]["your_credits"] == other.player.credits == 60
    (told,) = captain.news()
    assert told["data"]["your_credits"] == captain.player.credits == 140
    assert other.player.ship.cargo == {"ore_iron": 5}
    assert other.call("get_trades") == {"incoming": [], "outgoing": []}


def test_trades_that_come_to_nothing(game: Game, captain: Captain) -> None:
    other = Captain(game, "Other")
    offer = {"target_id": other.player.id, "offer_credits": 100}
    (made,) = captain.do("trade_offer", **offer)
    trade = {"trade_id": made["data"]["trade_id"]}
    captain.player.credits = 10
    assert other.refused("trade_accept", **trade).code == "insufficient_credits"
    assert other.refused("trade_cancel", **trade).code == "invalid_trade"
    other.do("trade_decline", **trade)
    assert [one["msg_type"] for one in captain.news()] == ["trade_declined"]
    (made,) = captain.do("trade_offer", **offer)
    captain.do("trade_cancel", trade_id=made["data"]["trade_id"])
    assert other.news()[-1]["msg_type"] == "trade_cancelled"
    wrong = {**offer, "offer_items": [{"item_id": "nothing", "quantity": 1}]}
    assert captain.refused("trade_offer", **wrong).code == "invalid_item"
    captain.do("undock")
    assert captain.refused("trade_offer", **offer).code == "not_docked"


def test_what_is_said_is_heard_where_it_should_be(game: Game, captain: Captain) -> None:
    near, far = Captain(game, "Near"), Captain(game, "Far", "crimson")
    captain.call("chat", channel="local", content="Hello, Sol.")
    captain.call("chat", channel="system", content="Hello, all.")
    captain.call("chat", channel="private", content="Psst.", target_id=near.player.id)
    said = [one["data"]["content"] for one in near.news()]
    assert said == ["Hello, Sol.", "Hello, all.", "Psst."]
    (heard,) = far.news()
    assert (heard["type"], heard["msg_type"]) == ("chat", "chat_message")
    assert captain.news() == []
    assert far.call("get_chat_history", channel="private")["messages"] == []
    assert near.call("get_chat_history", channel="private")["count"] == 1
    assert far.call("get_chat_history", channel="local")["count"] == 0
    refusal = captain.refused("chat", channel="loud", content="x")
    assert refusal.code == "invalid_channel"


def prices(captain: Captain) -> dict[str, tuple[int, int]]:
    items = captain.call("view_market")["items"]
    return {one["item_id"]: (one["buy_price"], one["sell_price"]) for one in items}


def test_prices_move_with_time_and_by_seed() -> None:
    one, same = Captain(make_game()), Captain(make_game())
    first = prices(one)
    assert prices(same) == first
    seen = [first]
    for _ in range(3):
        for _ in range(PRICE_TICKS):
            one.game.step()
            same.game.step()
        seen.append(prices(one))
        assert prices(same) == seen[-1]
    assert len({json.dumps(each) for each in seen}) == 4


def test_stocks_move_without_the_captain(captain: Captain) -> None:
    before = captain.call("view_market")
    for _ in range(20):
        captain.game.step()
    assert captain.call("view_market") != before


def test_what_was_begun_is_kept_in_the_state_file(captain: Captain) -> None:
    captain.player.ship.load("ore_iron", 10)
    captain.do("deposit_items", item_id="ore_iron", quantity=5)
    wanted = captain.call("get_missions")["missions"][0]["mission_id"]
    captain.do("accept_mission", mission_id=wanted)
    captain.do("undock")
    captain.do("jettison", item_id="ore_iron", quantity=5)
    again = make_game()
    restore_game(again, dump_game(captain.game))
    assert dump_game(again) == dump_game(captain.game)
    assert len(again.state.wrecks) == 1
