"""What the pilot reports of the orders that a nudge names."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agents.llm.model_types import OfferedTool
from agents.llm.prompts import choose_nudge, name_open_orders
from memory.context.types import split_nudge
from sandbox.pilot.reports import read_open_orders
from tests.sandbox.pilot.views import BELT, STATION, SYSTEM, View, block, game_tools

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
FULL = tuple(line.replace("12/50", "50/50") for line in BELT)


def nudge(*named: tuple[int, str]) -> str:
    return choose_nudge(1, name_open_orders(len(named), named))


async def reports(view: View, *named: tuple[int, str], state: Any = STATION) -> Any:
    """Number, status and note of what is reported in the next answer."""
    view.user(nudge(*named)).user(block(*state))
    flown = await view.fly(tools=[*game_tools(), REPORT])
    made = [each for each in flown.answer.tool_calls if each.name == REPORT.name]
    return [tuple(json.loads(each.arguments).values()) for each in made]


@pytest.mark.parametrize(
    ("order", "state", "told"),
    [
        ("Dock!", STATION, ("done", "Docked at Sol Central.")),
        ("Dock!", BELT, None),
        ("Go to Sol Star", BELT, None),
        ("Stop mining.", BELT, ("done", "I hold.")),
        ("Mine until you are full.", FULL, ("done", "The hold is full.")),
        ("Mine until you are full.", BELT, None),
        ("Report.", BELT, ("done", "I have answered it.")),
        ("Tell me a joke.", BELT, ("not_done", "I do not understand this order: ")),
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


async def test_an_order_in_whose_way_another_came_is_not_done() -> None:
    view = View().user("Refuel.").said("Aye.").user("Stop.").said("Aye.")
    found = await reports(view, (1, "Refuel."), (2, "Stop."), state=BELT)
    assert [each[:2] for each in found] == [(1, "not_done"), (2, "done")]


async def test_an_order_that_the_game_refuses_is_not_done() -> None:
    refused = "Error: no_route: There is no way to Nowhere."
    view = View().user("Go to Nowhere").did("get_system", SYSTEM)
    view = view.did("find_route", refused, target_system="Nowhere").said("Hm.")
    [(number, status, note)] = await reports(view, (3, "Go to Nowhere"), state=BELT)
    assert (number, status) == (3, "not_done")
    assert note == "find_route is refused: There is no way to Nowhere."


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
