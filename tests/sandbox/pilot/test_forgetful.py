"""When the forgetful captain looks again, and what stops it."""

from __future__ import annotations

import pytest

from agents.llm.endpoints import resolve
from sandbox.pilot.forgetful import WHOLE_STATE
from tests.sandbox.pilot.views import (
    BELT,
    FORGETFUL,
    QUEUED,
    SYSTEM,
    View,
    block,
    cargo,
    status,
)

MAP = {"systems": [{"id": "sol"}]}
ANSWERS = {
    "get_status": status("sol_belt", docked=False),
    "get_ship": {"ship": {"hull": 100, "max_hull": 100}},
    "get_cargo": cargo(iron_ore=3),
    "get_system": SYSTEM,
    "get_map": MAP,
}
REST = (
    "### Ship (get_ship - 2 ticks ago)",
    "- Hull: 100/100",
    "### Cargo (get_cargo - 2 ticks ago)",
    "- Cargo: 12/50",
    "### System (get_system - 5 ticks ago)",
    "- Sol System",
    "### Map (get_map - 50 ticks ago)",
    "- 487 systems cached",
)


def after(*tools: str) -> View:
    view = View().nudge()
    for tool in tools:
        view.did(tool, ANSWERS[tool])
    return view


@pytest.mark.parametrize("seen", range(len(WHOLE_STATE)))
async def test_asks_for_its_whole_state_one_tool_at_a_time(seen: int):
    flown = await after(*WHOLE_STATE[:seen]).fly(captain=FORGETFUL)
    assert flown.calls == {WHOLE_STATE[seen]: {}}


async def test_acts_when_it_has_seen_all_and_looks_at_what_came_of_it():
    view = after(*WHOLE_STATE)
    assert set((await view.fly(captain=FORGETFUL)).calls) == {"mine"}
    view.did("mine", QUEUED)
    assert (await view.fly(captain=FORGETFUL)).calls == {"get_status": {}}
    for tool in WHOLE_STATE:
        view.did(tool, ANSWERS[tool])
    assert (await view.fly(captain=FORGETFUL)).calls == {}


async def test_asks_again_for_what_was_cut_from_the_view():
    view = after(*WHOLE_STATE[:-1])
    for _ in range(12):
        view.did("get_map", '{"systems": [{"id": "sol"\n[190,000 bytes cut]')
        assert (await view.fly(captain=FORGETFUL)).calls == {"get_map": {}}


TEXTS = {
    "get_status": "Ada [solarian] | 5cr | Sol\nFuel: 5/10 | Cargo: 0/50\n",
    "get_ship": "Ship: Prospector (starter) | Hull: 9/9\nFuel: 5/10 | Cargo: 0/50\n",
    "get_cargo": "Cargo: 0/50 | Available: 50\n",
    "get_system": "System: Sol (sol) | Security: High\n",
    "get_map": "Total count: 2\nSystems (2):\nsystem_id\tname\nsol\tSol\na\tA\n",
}


async def test_a_whole_text_of_api_v2_is_an_answer_too():
    """Else each look would be repeated until the limit of the turn."""
    view = View().nudge()
    for tool, text in TEXTS.items():
        assert (await view.fly(captain=FORGETFUL)).calls == {tool: {}}
        view.did(tool, text)
    asked = (await view.fly(captain=FORGETFUL)).calls
    assert not {"get_ship", "get_map"} & set(asked)


async def test_a_map_that_was_cut_is_none():
    view = View().nudge()
    for tool, text in TEXTS.items():
        cut = "Systems (2):\nsystem_id\tname\nsol\tSol\n[9 bytes cut]"
        view.did(tool, cut if tool == "get_map" else text)
    assert (await view.fly(captain=FORGETFUL)).calls == {"get_map": {}}


async def test_believes_a_block_that_tells_the_age():
    flown = await View().nudge().user(block(*BELT, *REST)).fly(captain=FORGETFUL)
    assert set(flown.calls) == {"mine"}


async def test_asks_the_tool_that_a_doubted_line_names_and_no_other():
    marked = "- Cargo: 12/50 (before mine at tick 104; call get_cargo)"
    doubted = [marked if "Cargo:" in line else line for line in (*BELT, *REST)]
    flown = await View().nudge().user(block(*doubted)).fly(captain=FORGETFUL)
    assert flown.calls == {"get_cargo": {}}


@pytest.mark.django_db
def test_a_provider_of_the_pilot_flies_it_by_its_name():
    assert resolve("pilot:forgetful").model == "forgetful"
    assert resolve("pilot:another").model == resolve("pilot").model == "pilot"
