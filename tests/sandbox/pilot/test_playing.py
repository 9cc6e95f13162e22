"""What the pilot does in hand-made views, and when its turn ends."""

from __future__ import annotations

import pytest

from tests.sandbox.pilot.views import (
    BELT,
    QUEUED,
    SYSTEM,
    View,
    block,
    cargo,
    game_tools,
    status,
)

# -- playing ---------------------------------------------------------------


async def test_mines_at_a_belt() -> None:
    flown = await View().nudge().user(block(*BELT)).fly()
    assert set(flown.calls) == {"mine"}


async def test_a_full_hold_goes_home() -> None:
    view = View().nudge().did("get_system", SYSTEM)
    view.did("mine", "Error: cargo_full: Cargo hold is full")
    flown = await view.user(block(*BELT)).fly()
    assert flown.calls == {"travel": {"target_poi": "sol_station"}}


async def test_nothing_to_mine_here_goes_elsewhere() -> None:
    view = View().nudge().did("get_system", SYSTEM)
    view.did("mine", "Error: no_resources: Nothing to mine here")
    lines = [line.replace("Main Belt", "Sol Star") for line in BELT]
    flown = await view.user(block(*lines)).fly()
    assert flown.calls == {"travel": {"target_poi": "sol_belt"}}


async def test_an_empty_hold_leaves_and_writes_the_log_once() -> None:
    view = (
        View().nudge().did("get_status", status()).did("get_cargo", cargo(ore_iron=7))
    )
    view.did("sell", QUEUED, item_id="ore_iron", quantity=7).said().nudge()
    flown = await view.fly()
    assert set(flown.calls) == {"captains_log_add", "undock"}
    assert flown.news
    view.did("captains_log_add", {"index": 0}).said().nudge()
    assert set((await view.fly()).calls) == {"undock"}


async def test_where_it_sells_is_noted_once() -> None:
    def sold() -> View:
        view = View().nudge().did("get_status", status())
        view.did("get_cargo", cargo(ore_iron=7))
        return view.did("sell", QUEUED, item_id="ore_iron", quantity=7).said().nudge()

    tools = game_tools("zoea_note")
    flown = await sold().fly(tools)
    said = "I sell my cargo at sol_station."
    assert flown.calls["zoea_note"] == {"name": "base", "text": said}
    assert set(flown.calls) == {"captains_log_add", "zoea_note", "undock"}
    shown = sold().user(f'note/base ; = "{said}"')
    assert "zoea_note" not in (await shown.fly(tools)).calls


async def test_refuels_and_repairs_while_docked() -> None:
    low = View().nudge().did("get_status", status(fuel=30))
    assert set((await low.fly()).calls) == {"refuel"}
    hurt = View().nudge().did("get_status", status(hull=30))
    assert set((await hurt.fly()).calls) == {"repair"}


async def test_does_not_refuel_without_money() -> None:
    view = View().nudge().did("get_status", status(fuel=30))
    view.did("refuel", "Error: insufficient_credits: Need 1 credits. You have 0.")
    assert set((await view.fly()).calls) == {"undock"}


async def test_low_fuel_goes_to_a_station() -> None:
    view = View().nudge().did("get_system", SYSTEM)
    view.did("get_status", status("sol_belt", docked=False, fuel=9))
    assert (await view.fly()).calls == {"travel": {"target_poi": "sol_station"}}


async def test_looks_for_the_way_home_from_a_system_without_a_station() -> None:
    bare = {"system": {**SYSTEM["system"], "id": "far"}, "pois": SYSTEM["pois"][2:]}
    far = status("far_belt", docked=False)
    far["player"]["current_system"] = "far"
    view = View().nudge().did("get_system", bare).did("get_status", far)
    view.did("mine", "Error: cargo_full: Cargo hold is full")
    assert (await view.fly()).calls == {"search_systems": {"query": "sol"}}
    view.did("search_systems", {"query": "sol", "systems": [{"system_id": "sol"}]})
    assert (await view.fly()).calls == {"find_route": {"target_system": "sol"}}
    steps = [{"system_id": name} for name in ("far", "sirius", "sol")]
    view.did("find_route", {"route": steps})
    assert (await view.fly()).calls == {"jump": {"target_system": "sirius"}}


async def test_keeps_its_equipment() -> None:
    view = View().nudge().did("get_status", status())
    view.did("get_cargo", cargo(fuel_cell=3, mining_laser_1=1))
    assert set((await view.fly()).calls) == {"undock"}


async def test_an_item_that_nobody_buys_is_not_offered_again() -> None:
    view = View().nudge().did("get_status", status()).did("get_cargo", cargo(junk=3))
    view.did("sell", {"quantity_sold": 0, "unsold": 3}, item_id="junk", quantity=3)
    assert set((await view.said().nudge().fly()).calls) <= {
        "undock",
        "captains_log_add",
    }


# -- the end of a turn -----------------------------------------------------


async def test_one_action_ends_the_turn_with_what_is_waited_for() -> None:
    view = View().nudge()
    answer = {**QUEUED, "destination": "Main Belt", "arrival_tick": 41708}
    flown = await view.did("travel", answer, target_poi="sol_belt").fly()
    assert flown.answer.tool_calls == ()
    assert "Main Belt" in flown.text
    assert "41708" in flown.text


@pytest.mark.parametrize("code", ["rate_limited", "in_transit", "action_pending"])
async def test_waits_where_only_time_helps(code: str) -> None:
    flown = await View().nudge().did("mine", f"Error: {code}: Later.").fly()
    assert flown.answer.tool_calls == ()
    assert "Later." in flown.text


async def test_a_refused_call_is_not_repeated_in_the_turn() -> None:
    view = View().nudge().did("mine", "Error: odd_thing: No.").user(block(*BELT))
    assert "mine" not in (await view.fly()).calls


async def test_a_call_that_was_refused_twice_is_left_alone() -> None:
    view = View().nudge()
    for _ in range(2):
        view.did("mine", "Error: odd_thing: No.").said().nudge()
    assert "mine" not in (await view.user(block(*BELT)).fly()).calls


async def test_seven_steps_are_enough() -> None:
    view = View().nudge()
    for number in range(7):
        view.did("find_route", "Error: odd_thing: No.", target_system=str(number))
    flown = await view.user(block(*BELT)).fly()
    assert flown.answer.tool_calls == ()
    assert "find_route" in flown.text


async def test_a_lost_outcome_is_looked_at_again() -> None:
    view = View().nudge().did("dock", "interrupted, outcome unknown")
    assert "do not know" in (await view.fly()).text
    assert (await view.said().nudge().fly()).calls == {"get_status": {}}


async def test_without_any_tools_it_says_so() -> None:
    flown = await View().nudge().user(block(*BELT)).fly(tools=[])
    assert flown.answer.tool_calls == ()
    assert flown.text
