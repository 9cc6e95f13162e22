"""When the pilot asks, and how it gets into the game."""

from __future__ import annotations

import pytest

from sandbox.pilot.rules_account import EMPIRES
from tests.sandbox.pilot.views import (
    BELT,
    QUEUED,
    STATION,
    SYSTEM,
    View,
    block,
    cargo,
    status,
)

# -- getting in ------------------------------------------------------------


async def test_registers_under_its_own_name_without_a_password() -> None:
    flown = await View("Ada").nudge().user(block(logged_in=False)).fly()
    made = flown.calls["register"]
    assert made["username"] == "Ada"
    assert made["empire"] in EMPIRES
    assert set(made) == {"username", "empire"}


async def test_asks_where_it_is_when_nothing_tells() -> None:
    assert (await View().nudge().fly()).calls == {"get_status": {}}


async def test_registers_after_a_refusal_that_says_logged_out() -> None:
    refusal = "Error: session_required: You must provide a session_id."
    flown = await View().nudge().did("get_status", refusal).fly()
    assert set(flown.calls) == {"register"}


async def test_takes_another_name_where_its_own_is_taken() -> None:
    view = View("Ada").nudge()
    view.did("register", "Error: username_taken: Username already taken")
    made = (await view.user(block(logged_in=False)).fly()).calls["register"]
    assert made["username"] == "Ada-2"


async def test_logs_in_to_the_account_that_the_prompt_names() -> None:
    view = View("Ada", account="VoidWanderer").nudge().user(block(logged_in=False))
    assert (await view.fly()).calls == {"login": {"username": "VoidWanderer"}}


async def test_logs_in_where_registering_says_so() -> None:
    said = (
        "Error: already_registered: You own the account Old Ada already. "
        'Call login with {"username": "Old Ada"}.'
    )
    view = View("Ada").nudge().did("register", said, username="Ada")
    flown = await view.user(block(logged_in=False)).fly()
    assert flown.calls == {"login": {"username": "Old Ada"}}


async def test_gives_up_for_this_turn_after_three_refusals() -> None:
    view = View("Ada").nudge()
    for _ in range(3):
        view.did("register", "Error: server_full: This server takes no more players.")
    flown = await view.user(block(logged_in=False)).fly()
    assert flown.calls == {}
    assert "takes no more players" in flown.text


# -- the rule of asking again ----------------------------------------------


async def test_acts_on_a_fresh_block_without_asking() -> None:
    flown = await View().nudge().user(block(*STATION)).fly()
    assert flown.calls == {"sell": {"item_id": "Iron Ore", "quantity": 7}}


async def test_asks_the_tool_that_a_mark_names() -> None:
    marked = [
        "- Cargo: 12/50 (before sell at tick 104; call get_ship)"
        if line.startswith("- Cargo")
        else line
        for line in STATION
    ]
    assert (await View().nudge().user(block(*marked)).fly()).calls == {"get_ship": {}}


async def test_asks_where_a_stale_line_names_the_snapshot() -> None:
    stale = "**Stale data:** get_status is 25 ticks old - call get_status."
    flown = await View().nudge().user(block(*STATION, stale)).fly()
    assert flown.calls == {"get_status": {}}


@pytest.mark.parametrize(("age", "asks"), [(30, False), (31, True)])
async def test_asks_when_a_fact_is_over_its_limit(age: int, asks: bool) -> None:
    old = STATION[0].replace("2 ticks", f"{age} ticks")
    flown = await View().nudge().user(block(old, *STATION[1:])).fly()
    assert ("get_status" in flown.calls) == asks


@pytest.mark.parametrize(
    ("age", "asks"),
    [("just now", False), ("40 seconds ago", False), ("2 h 3 min ago", True)],
)
async def test_ages_by_the_clock_count_too(age: str, asks: bool) -> None:
    old = STATION[0].replace("2 ticks ago", age)
    flown = await View().nudge().user(block(old, *STATION[1:])).fly()
    assert ("get_status" in flown.calls) == asks


async def test_an_answer_in_view_is_as_good_as_a_block() -> None:
    view = (
        View().nudge().did("get_status", status()).did("get_cargo", cargo(ore_iron=7))
    )
    assert (await view.fly()).calls == {"sell": {"item_id": "ore_iron", "quantity": 7}}


async def test_an_answer_is_not_known_any_more_after_an_action_that_changes_it() -> (
    None
):
    view = View().nudge().did("get_cargo", cargo(ore_iron=7)).did("mine", QUEUED)
    view.said().nudge().did("dock", QUEUED).said().nudge()
    assert (await view.fly()).calls == {"get_cargo": {}}


async def test_an_answer_gets_too_old_by_own_actions() -> None:
    view = View().nudge().did("get_status", status("sol_belt", docked=False))
    for _ in range(31):
        view.did("mine", QUEUED).said().nudge()
    assert (await view.fly()).calls == {"get_status": {}}


async def test_an_answer_gets_too_old_by_ticks() -> None:
    view = View().nudge().did("get_notifications", {"current_tick": 100})
    view.did("get_status", status()).said().nudge()
    view.did("get_notifications", {"current_tick": 131})
    assert (await view.fly()).calls == {"get_status": {}}


async def test_expects_what_its_own_action_leads_to() -> None:
    view = View().nudge().did("get_status", status("sol_station", docked=False))
    view.did("get_system", SYSTEM)
    view.did("travel", {**QUEUED, "arrival_tick": 9}, target_poi="sol_belt")
    view.said().nudge()
    assert set((await view.fly()).calls) == {"mine"}


async def test_a_block_without_doubt_counts_more_than_an_expectation() -> None:
    view = View().nudge().did("get_system", SYSTEM)
    view.did("travel", QUEUED, target_poi="sol_belt").said().nudge()
    hold = ["- Cargo: 50/50" if "Cargo" in line else line for line in STATION[:-2]]
    undocked = [line.replace("Yes (Sol Central)", "No") for line in hold]
    assert set((await view.user(block(*undocked)).fly()).calls) == {"dock"}


async def test_asks_for_its_credits_beside_the_chart_where_a_block_has_none() -> None:
    untold = ["### System (get_system - 9 ticks ago)", "- Sol (Solarian Empire)"]
    view = View().nudge().did("undock", {"undocked": True})
    view.did("travel", QUEUED, target_poi="sol_sun").said().nudge()
    view.did("get_poi", {"poi": {"id": "sol_sun", "system_id": "sol"}})
    assert set((await view.fly()).calls) == {"get_system"}
    view.user(block(*untold))
    assert set((await view.fly()).calls) == {"get_system", "get_status"}
    view.did("get_status", status("sol_sun", docked=False))
    assert "get_status" not in (await view.fly()).calls


async def test_counts_its_money_once_after_a_sale() -> None:
    sold = [
        "### Status (get_status - 9 ticks ago)",
        "- Credits: 500 (before sell at tick 7; call get_status)",
        "- Docked: Yes (Sol Central)",
    ]
    view = View().nudge().did("get_cargo", cargo(ore_iron=7))
    view.did("sell", QUEUED, item_id="ore_iron", quantity=7).said().nudge()
    view.did("get_cargo", cargo()).user(block(*sold))
    names = {"captains_log_add", "get_status", "undock"}
    assert set((await view.fly()).calls) == names
    sold[1] = "- Credits: 535"
    view.user(block(*sold))
    assert set((await view.fly()).calls) == names - {"get_status"}


async def test_does_not_ask_twice_in_a_turn() -> None:
    view = View().nudge().did("get_status", "a dashboard without any JSON")
    flown = await view.fly()
    assert "get_status" not in flown.calls


async def test_a_stub_is_no_answer() -> None:
    view = View().nudge().did("get_status", "[superseded, see ctx://Ada/12]").said()
    assert (await view.nudge().fly()).calls == {"get_status": {}}


async def test_a_refusal_of_this_turn_counts_more_than_the_block() -> None:
    view = View().nudge().did("get_system", SYSTEM)
    view.did("sell", "Error: not_docked: Not docked", item_id="x", quantity=1)
    assert set((await view.user(block(*STATION)).fly()).calls) == {"travel"}


async def test_comfort_needs_no_fresh_value() -> None:
    doubt = " (before travel at tick 104; call get_status)"
    lines = [line + doubt if "Fuel" in line else line for line in BELT]
    view = View().nudge().did("get_system", SYSTEM).said().nudge()
    assert set((await view.user(block(*lines)).fly()).calls) == {"mine"}
