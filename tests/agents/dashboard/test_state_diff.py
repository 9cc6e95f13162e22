"""The state blocks of two requests, compared fact by fact."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from agents.dashboard.state_diff import compare_states, find_block, read_block
from memory.gamestate.render import Rendered, render_block
from memory.gamestate.types import Stale
from tests.gamestate.builders import snapshot, state

CARGO = [
    {"item_id": "iron_ore", "name": "Iron Ore", "quantity": 26},
    {"item_id": "gold_ore", "name": "Gold Ore", "quantity": 2},
]


def draw(
    *, fuel: int = 86, cargo: list[dict[str, Any]] = CARGO, **status: Any
) -> Rendered:
    ship = {"name": "Prospector", "fuel": fuel, "max_fuel": 100, "hull": 100}
    known = {
        "player": {"username": "Ada", "credits": 1976, "current_system": "sol"},
        "ship": ship,
    }
    hold = {"used": 28, "capacity": 50, "items": cargo}
    return render_block(
        state(
            snapshot("get_status", known, **status),
            snapshot("get_cargo", hold, tick=90),
            username="Ada",
            current_tick=100,
        )
    )


def wrap(block: Rendered) -> list[Mapping[str, Any]]:
    """A request as a provider's format may have it, with more behind the block."""
    text = f"Go on.\n\n{block.text}\n\n- Fuel: not a fact"
    return [
        {"role": "system", "content": "## Current Game State is a heading."},
        {"role": "user", "content": [{"type": "text", "text": text}]},
        {"role": "assistant", "content": None},
    ]


def compare(old: Rendered, new: Rendered) -> set[tuple[str, str, str, str]]:
    found = compare_states(wrap(old), wrap(new))
    assert found is not None
    return {(one.kind, one.label, one.before, one.after) for one in found.facts}


def test_a_block_is_read_as_it_was_drawn():
    drawn = draw(tick=98, stale=Stale("mine", 99, ("ship.fuel",)))
    block = find_block(wrap(drawn))
    assert block is not None
    sections = read_block(block)
    read = {
        f"{call}/{label.replace(': ', '/')}": fact.value
        for call, section in sections.items()
        for label, fact in section.facts.items()
    }
    told = {key: value for key, value in drawn.facts.items() if "/" in key}
    assert told.items() <= read.items()
    assert sections["get_status"].facts["Fuel"].doubt.startswith("before mine at tick")
    assert sections["get_status"].age_number == 2
    assert "Fuel: not a fact" not in str(sections)


def test_what_changed_came_went_and_aged_is_told_apart():
    old = draw(tick=98)
    assert compare(old, old) == set()
    burnt = draw(tick=98, fuel=80)
    assert compare(old, burnt) == {("changed", "Fuel", "86/100", "80/100")}
    doubted = draw(tick=98, stale=Stale("travel", 99, ("ship.fuel",)))
    [aged] = compare(old, doubted)
    assert aged[:2] == ("aged", "Fuel")
    assert aged[3] == "before travel at tick 99"
    [renewed] = compare(doubted, old)
    assert renewed[:2] == ("renewed", "Fuel")
    sold = draw(tick=98, cargo=CARGO[:1])
    gone = {change for change in compare(old, sold) if "Gold" in change[1]}
    assert [change[0] for change in gone] == ["went"]
    assert [c[0] for c in compare(sold, old) if "Gold" in c[1]] == ["came"]


def test_a_section_ages_as_a_whole_and_is_renewed_as_one():
    old, asked_again = draw(tick=60), draw(tick=99)
    ages = {"40 ticks ago", "1 tick ago", "1 ticks ago"}
    [renewed] = compare(old, asked_again)
    assert renewed[0] == "renewed"
    assert {renewed[2], renewed[3]} <= ages
    assert next(iter(compare(asked_again, old)))[0] == "aged"


@pytest.mark.parametrize("content", [None, "", "Mine.", [{"type": "image"}]])
def test_a_request_without_a_block_has_nothing_to_compare(content: Any):
    without = [{"role": "user", "content": content}]
    assert find_block(without) is None
    assert compare_states(without, wrap(draw(tick=98))) is None
