"""What the pilot reports of the orders that a nudge names."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agents.llm.model_types import OfferedTool
from agents.llm.prompts import choose_nudge, name_open_orders
from memory.context.sections import write_notes
from memory.context.types import AssemblyRequest, Note, split_nudge
from sandbox.pilot.reports import QUIET_TURNS, read_open_orders
from tests.sandbox.pilot.views import (
    BELT,
    QUEUED,
    STATION,
    SYSTEM,
    Flown,
    View,
    block,
    game_tools,
    status,
)

REPORT = OfferedTool(
    "zoea_report_order",
    "Report.",
    {
        "type": "object",
        "properties": {
            "order": {"type": "integer"},
            "status": {"type": "string"},
            "note": {"type": "string"},
        },
        "required": ["status"],
    },
)
OWN = [REPORT, *(OfferedTool(name, "", {}) for name in ("zoea_note", "zoea_forget"))]
FULL = tuple(line.replace("12/50", "50/50") for line in BELT)
LONG = "Dock at the nearest base, refuel, and report your credits."
NOTED = f"{LONG}\n+ Docked at Sol Central.\n= fuel 90/100"


def nudge(*named: tuple[int, str]) -> str:
    return choose_nudge(1, name_open_orders(len(named), named))


def noted(text: str) -> View:
    """A view whose system message quotes what the pilot noted of its order."""
    view = View()
    section = write_notes(
        AssemblyRequest((), notes=(Note("order", text),)), str, lambda text: len(text)
    )
    view.messages[0]["content"] += f"\n\n{section.text}"
    return view


async def fly(view: View, *named: tuple[int, str], state: Any = STATION) -> Flown:
    """The next answer, at the beginning of a turn."""
    view.user(nudge(*named)).user(block(*state))
    return await view.fly(tools=[*game_tools(), *OWN])


async def reports(view: View, *named: tuple[int, str], state: Any = STATION) -> Any:
    """Number, status and note of what is reported in the next answer."""
    flown = await fly(view, *named, state=state)
    made = [each for each in flown.answer.tool_calls if each.name == REPORT.name]
    return [tuple(json.loads(each.arguments).values()) for each in made]


@pytest.mark.parametrize(
    ("order", "state", "told"),
    [
        ("Dock!", STATION, ("done", "Docked at Sol Central.")),
        ("Dock!", BELT, None),
        ("Dock at Sol Central.", STATION, ("done", "Docked at Sol Central.")),
        ("Dock at Sol Star.", STATION, None),
        ("Go to Sol Star", BELT, None),
        ("Go to the Main Belt", BELT, ("done", "I am at Main Belt.")),
        ("Stop mining.", BELT, ("done", "I hold.")),
        ("Mine until you are full.", FULL, ("done", "The hold is full.")),
        ("Mine until you are full.", BELT, None),
        ("Carry on.", BELT, None),
        ("Report.", STATION, ("done", "Ada reporting: docked at Sol Central, cargo")),
        ("Dock, and report.", STATION, ("done", "Docked at Sol Central. Ada repor")),
        ("Tell me a joke.", BELT, ("not_done", "I do not understand this order: ")),
        (
            "Dock, sing me a song and report.",
            STATION,
            (
                "not_done",
                'Docked at Sol Central. I do not understand "sing me a song".',
            ),
        ),
        (
            "Dock, refuel if below 50 % and report.",
            STATION,
            (
                "not_done",
                'Docked at Sol Central. I do not understand "refuel if below 50 %".',
            ),
        ),
        ("Sell at Sol.", BELT, ("not_done", "I do not understand this order: ")),
        (LONG, STATION, None),
    ],
)
async def test_it_reports_what_is_so(order: str, state: Any, told: Any) -> None:
    view = View().user(order).did("get_system", SYSTEM).said("Understood.")
    found = await reports(view, (7, order), state=state)
    if told is None:
        assert found == []
    else:
        [(number, status, note)] = found
        assert (number, status) == (7, told[0])
        assert note.startswith(told[1])


async def test_each_part_of_an_order_is_done_and_told() -> None:
    view = View().user(LONG).did("get_system", SYSTEM).said("Docking.")
    flown = await fly(view, (7, LONG))
    wanted = {"zoea_note": {"name": "order", "text": NOTED}, "refuel": {}}
    assert flown.calls == wanted
    view = noted(NOTED).user(LONG).did("refuel", QUEUED).said("Refuelling.")
    filled = [line.replace("90/100", "100/100") for line in STATION]
    view.user(nudge((7, LONG))).user(block(*filled))
    assert (await view.fly(tools=[*game_tools(), *OWN])).calls == {"get_status": {}}
    view.did("get_status", status(fuel=100))
    calls = (await view.fly(tools=[*game_tools(), *OWN])).calls
    assert calls["zoea_forget"] == {"name": "order"}
    assert calls[REPORT.name]["status"] == "done"
    assert calls[REPORT.name]["note"] == (
        "Docked at Sol Central. Refuelled: fuel 90/100 -> 100/100. Ada reporting: "
        "docked at Sol Central, cargo 12/50, fuel 100/100, 500 credits."
    )


async def test_what_an_action_came_to_is_not_said_in_its_own_tick() -> None:
    view = noted(NOTED).user(LONG).said("Docking.").user(nudge((7, LONG)))
    view.did("get_status", status(fuel=90)).did("refuel", QUEUED)
    flown = await view.user(block(*STATION)).fly(tools=[*game_tools(), *OWN])
    assert flown.calls == {}
    assert flown.text == "Refuelling. I wait for the next tick."


async def test_an_order_that_takes_long_is_said_to_be_under_way() -> None:
    view = View().user("Mine until you are full.").did("get_system", SYSTEM)
    for _ in range(QUIET_TURNS):
        view.did("mine", QUEUED).said("Mining.")
    told = await reports(view, (7, "Mine until you are full."), state=BELT)
    assert told == [(7, "working", "Now: Mine until you are full.")]
    view.did(REPORT.name, {"order": 7}, order=7, status="working").said("Mining.")
    assert await reports(view, (7, "Mine until you are full."), state=BELT) == []


async def test_a_part_that_was_done_is_never_done_again() -> None:
    text = "Dock, then go to Sol Star and dock."
    view = noted(f"{text}\n+ Docked at Sol Central.").user(text)
    flown = await fly(view.did("get_system", SYSTEM).said("On."), (7, text), state=BELT)
    assert flown.calls == {"travel": {"target_poi": "sol_sun"}}


async def test_it_undocks_for_no_place_that_nobody_knows() -> None:
    view = View().user("Go to Nowhere Land").did("get_system", SYSTEM).said("Hm.")
    flown = await fly(view, (7, "Go to Nowhere Land"))
    assert flown.calls == {"search_systems": {"query": "Nowhere Land"}}
    view = View().user("Go to Nowhere Land").did("get_system", SYSTEM)
    view.did("search_systems", {"systems": [], "total_found": 0}, query="Nowhere Land")
    calls = (await view.user(block(*STATION)).fly([*game_tools(), *OWN])).calls
    assert list(calls) == [REPORT.name]
    assert calls[REPORT.name]["note"] == (
        'I cannot do "Go to Nowhere Land": I find no place called Nowhere Land.'
    )


@pytest.mark.parametrize(
    ("order", "goes_on"), [(LONG, True), ("Report", True), ("Hold.", False)]
)
async def test_what_is_over_leaves_the_mission(order: str, goes_on: bool) -> None:
    # The tool to report with is offered as long as an order is open.
    view = View().user(order).said("Done.").nudge().user(block(*BELT))
    flown = await view.fly(tools=[*game_tools("zoea_recall")])
    assert flown.calls == ({"mine": {}} if goes_on else {})


async def test_an_order_in_whose_way_another_came_is_not_done() -> None:
    view = View().user("Refuel.").said("Aye.").user("Stop.").said("Aye.")
    found = await reports(view, (1, "Refuel."), (2, "Stop."), state=BELT)
    assert [each[:2] for each in found] == [(1, "not_done"), (2, "done")]


async def test_an_order_that_the_game_refuses_is_not_done() -> None:
    refused = "Error: no_route: There is no way to Nowhere."
    known = {"systems": [{"id": "nowhere", "name": "Nowhere"}], "total_found": 1}
    view = View().user("Go to Nowhere").did("get_system", SYSTEM)
    view.did("search_systems", known, query="Nowhere")
    view.did("find_route", refused, target_system="nowhere").user(block(*BELT))
    calls = (await view.fly(tools=[*game_tools(), *OWN])).calls
    assert calls[REPORT.name]["status"] == "not_done"
    assert calls[REPORT.name]["note"] == (
        'I cannot do "Go to Nowhere": find_route is refused: There is no way to Nowhere.'
    )


async def test_without_the_tool_nothing_is_reported() -> None:
    view = (
        View().user("Stop.").said("Aye.").user(nudge((1, "Stop."))).user(block(*BELT))
    )
    assert (await view.fly()).calls == {}


def test_what_a_nudge_names_is_read() -> None:
    named = [(1, 'Say "go".'), (22, "Mine."), (3, "a" * 200)]
    line = name_open_orders(9, named)
    assert read_open_orders(line)[:2] == tuple(named[:2])
    assert read_open_orders(line)[2][1] == f"{'a' * 79}…"
    assert read_open_orders(name_open_orders(3, named)) == read_open_orders(line)
    assert name_open_orders(0, []) == ""
    text = f"Before.\n\n{choose_nudge(2, line)}"
    before, words, orders = split_nudge(text)
    assert (before.strip(), orders) == ("Before.", line)
    assert words
    assert split_nudge("No nudge.") == ("No nudge.", "", "")


async def test_an_order_that_it_cannot_read_is_not_reported_as_the_one_before() -> None:
    """Which was reported long ago, outside of what is in view."""
    view = View().user("Dock!").did("get_system", SYSTEM).said("Docked.")
    view.user("Sing me a song").user(block(*STATION))
    assert REPORT.name not in (await view.fly(tools=[*game_tools(), *OWN])).calls
    view.did("get_system", SYSTEM).said("On.")
    [(number, status, note)] = await reports(view, (8, "Sing me a song"))
    assert (number, status) == (8, "not_done")
    assert "Sing me a song" in note
