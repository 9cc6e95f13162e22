"""What the pilot does for people, and what it is as a model."""

from __future__ import annotations

import json
import subprocess
import sys
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from memory.context.tokens import estimate_tokens
from tests.fakes.openai import call
from tests.sandbox.pilot.views import (
    BELT,
    QUEUED,
    STATION,
    SYSTEM,
    View,
    block,
    cargo,
    game_tools,
    status,
)

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


async def test_docks_when_told_to_and_then_goes_on() -> None:
    view = View().user("Dock!").did("get_system", SYSTEM).user(block(*BELT))
    assert (await view.fly()).calls == {"travel": {"target_poi": "sol_station"}}
    docked = View().user("Dock!").user(block(*STATION))
    flown = await docked.fly()
    assert (flown.calls, "Done: Docked at Sol Central." in flown.text) == ({}, True)
    later = View().user("Dock!").said(flown.text).nudge().user(block(*STATION))
    assert (await later.fly()).calls != {}


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
    view = View().user("Report, please").said("Done: Ada reporting...").nudge()
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
    grown = large.usage.input - small.usage.input
    assert estimate_tokens("x" * 3000) <= grown <= estimate_tokens("x" * 3000) + 10
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
        "import sys, sandbox.pilot.model\n"
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
