"""What the pilot does in hand-made views."""

from __future__ import annotations

import json
import subprocess
import sys
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.llm.pilot.rules.account import EMPIRES
from tests.agents.llm.fake_provider import call
from tests.agents.llm.views import (
    SYSTEM,
    View,
    block,
    cargo,
    game_tools,
    status,
)

STATION = (
    "### Status (get_status - 2 ticks ago)",
    "- Credits: 500",
    "- Location: Sol > Sol Central",
    "- Docked: Yes (Sol Central)",
    "- Hull: 100/100",
    "- Fuel: 90/100",
    "- Cargo: 12/50",
    "  - Iron Ore x7",
    "  - Fuel Cell x5",
)
BELT = (
    "### Status (get_status - 2 ticks ago)",
    "- Location: Sol > Main Belt",
    "- Docked: No",
    "- Fuel: 90/100",
    "- Cargo: 12/50",
)
QUEUED = {"queued": True}


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


# -- people ----------------------------------------------------------------


async def test_stops_when_told_to_and_says_so() -> None:
    flown = await View().user("Ada, stop mining.").user(block(*BELT)).fly()
    assert flown.calls == {}
    assert flown.text.startswith("Understood")


async def test_an_order_stands_in_later_turns() -> None:
    view = View().user("Stop mining.").said().nudge().user(block(*BELT))
    assert (await view.fly()).calls == {}


async def test_the_newest_order_counts_and_a_nudge_is_none() -> None:
    view = View().user("Stop mining.").said().user("Mine again, please.").said()
    assert set((await view.nudge().user(block(*BELT)).fly()).calls) == {"mine"}


async def test_docks_when_told_to_and_stays() -> None:
    view = View().user("Dock!").did("get_system", SYSTEM).user(block(*BELT))
    assert (await view.fly()).calls == {"travel": {"target_poi": "sol_station"}}
    docked = View().user("Dock!").said().nudge().user(block(*STATION))
    assert (await docked.fly()).calls == {}


async def test_answers_and_acts_in_one_message() -> None:
    view = View().user("Hi.").did("get_system", SYSTEM).said()
    flown = await view.user("Go to Sol Star").user(block(*BELT)).fly()
    assert flown.calls == {"travel": {"target_poi": "sol_sun"}}
    assert flown.text == "Understood: I go to Sol Star."


async def test_goes_to_another_system() -> None:
    view = View().user("Hi.").did("get_system", SYSTEM).said()
    flown = await view.user("Jump to sirius").user(block(*BELT)).fly()
    assert flown.calls == {"jump": {"target_system": "sirius"}}


async def test_is_there_already() -> None:
    view = View().user("Hi.").did("get_system", SYSTEM).said()
    flown = await view.user("Go to the Main Belt").user(block(*BELT)).fly()
    assert flown.calls == {}
    assert "Main Belt" in flown.text


async def test_reports_what_it_knows() -> None:
    flown = await View().user("Report, please").user(block(*STATION)).fly()
    assert flown.calls == {}
    for wanted in ("docked", "Sol Central", "12/50", "90/100", "500 credits"):
        assert wanted in flown.text


async def test_a_report_is_given_once() -> None:
    view = View().user("Report, please").said("Ada reporting...").nudge()
    assert set((await view.user(block(*BELT)).fly()).calls) == {"mine"}


async def test_sells_when_told_to_then_goes_on() -> None:
    view = View().user("Sell your cargo.").did("get_system", SYSTEM)
    view.did("get_cargo", cargo(ore_iron=9))
    assert (await view.user(block(*BELT)).fly()).calls == {
        "travel": {"target_poi": "sol_station"}
    }


async def test_searches_its_memory_when_asked_and_offered() -> None:
    tools = game_tools("zoea_search_messages")
    view = View().user("Search your memory for iron prices").user(block(*BELT))
    flown = await view.fly(tools)
    assert flown.calls == {"zoea_search_messages": {"query": "iron prices"}}
    found = {"count": 1, "matches": [{"content": "Iron sells at 5."}]}
    told = View().user("Search your memory for iron prices")
    told.did("zoea_search_messages", found, query="iron prices")
    assert "Iron sells at 5." in (await told.user(block(*BELT)).fly(tools)).text
    assert "no tool" in (await view.fly()).text


async def test_a_broadcast_in_the_prompt_is_an_order() -> None:
    view = View().nudge().user(block(*BELT))
    prompt = view.messages[0]["content"]
    view.messages[0]["content"] = prompt.replace(
        "commander: none", "commander: All ships hold."
    )
    assert (await view.fly()).calls == {}


async def test_takes_the_chart_from_the_cache_where_it_is() -> None:
    lines = [
        *BELT,
        "### System (get_system - 9 ticks ago)",
        "- Sol",
        "- POIs: Main Belt",
    ]
    full = [line.replace("12/50", "50/50") for line in lines]
    tools = game_tools("zoea_recall")
    view = View().nudge().user(block(*full))
    wanted = {"zoea_recall": {"handle": "state://get_system"}}
    assert (await view.fly(tools)).calls == wanted
    found = View().nudge().did("zoea_recall", SYSTEM, handle="state://get_system")
    flown = await found.user(block(*full)).fly(tools)
    assert flown.calls == {"travel": {"target_poi": "sol_station"}}


# -- being a model ---------------------------------------------------------


async def test_the_same_view_gives_the_same_answer() -> None:
    view = View().nudge().user(block(*STATION))
    assert (await view.fly()).answer == (await view.fly()).answer


async def test_usage_grows_with_the_view_and_costs_nothing() -> None:
    small = (await View().nudge().user(block(*STATION)).fly()).answer
    view = View().user("x" * 3000).said().nudge().user(block(*STATION))
    large = (await view.fly()).answer
    assert 999 <= large.usage.input - small.usage.input <= 1010
    assert small.usage.output > 0
    assert (small.cost, small.model) == (Decimal(0), "pilot")
    assert small.reasoning


async def test_call_ids_differ_within_an_answer() -> None:
    view = (
        View().nudge().did("get_status", status()).did("get_cargo", cargo(ore_iron=7))
    )
    view.did("sell", QUEUED, item_id="ore_iron", quantity=7).said().nudge()
    ids = [made.id for made in (await view.fly()).answer.tool_calls]
    assert len(ids) == len(set(ids)) == 3


def test_it_can_see_neither_database_nor_game() -> None:
    program = (
        "import sys, agents.llm.pilot.model\n"
        "seen = [m for m in sys.modules if m.split('.')[0] == 'django'\n"
        "        or m.startswith(('agents.game', 'agents.models', 'memory.models'))]\n"
        "sys.exit(str(seen) if seen else 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


RESULTS = st.one_of(
    st.text(max_size=80),
    st.sampled_from(["Error: no_fuel: Empty", "Error: wrong_system: No", "null", "{}"]),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "player",
                        "ship",
                        "pois",
                        "system",
                        "notifications",
                        "data",
                        "cargo",
                    ]
                ),
                inner,
                max_size=3,
            )
        ),
        max_leaves=8,
    ).map(json.dumps),
)
TOOL_NAMES = st.sampled_from([tool.name for tool in game_tools("zoea_recall")])


@settings(max_examples=150, deadline=None)
@given(
    steps=st.lists(st.tuples(TOOL_NAMES, RESULTS, st.booleans()), max_size=8),
    said=st.text(max_size=60),
    state=st.sampled_from(["", block(*BELT), block(*STATION), block(logged_in=False)]),
)
async def test_whatever_it_is_sent_it_answers_something_that_can_be_done(
    steps: list[tuple[str, str, bool]], said: str, state: str
) -> None:
    view = View().user(said or "?")
    for tool, result, ends in steps:
        view.did(tool, result)
        if ends:
            view.said().nudge()
    if state:
        view.user(state)
    flown = await view.fly(game_tools("zoea_recall"))
    offered = {tool.name for tool in game_tools("zoea_recall")}
    assert flown.text or flown.answer.tool_calls
    assert {made.name for made in flown.answer.tool_calls} <= offered
    view.messages.append(
        {
            "role": "assistant",
            "content": flown.text or None,
            "tool_calls": [
                call(made.name, made.arguments, made.id)
                for made in flown.answer.tool_calls
            ],
        }
    )
