"""How the pilot reads a view: results, the state block, orders."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.actions.messages import CARRY_ON
from sandbox.pilot.orders import Order
from sandbox.pilot.reading import (
    NOT_LOGGED_IN,
    Called,
    Entry,
    Heard,
    Said,
    Transcript,
    read_answer,
    read_block,
    split_state,
)
from sandbox.pilot.rules_account import EMPIRES, choose_empire, make_username
from sandbox.pilot.words import parse_order

GOLDEN = Path(__file__).parents[2] / "golden" / "gamestate"


def golden(name: str) -> str:
    return (GOLDEN / f"{name}.md").read_text().strip()


# -- results ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("Error: not_docked: Not docked", "not_docked", "Not docked"),
        ("Error: Something else", "error", "Something else"),
        ('{"error": "rate_limited", "message": "Wait."}', "rate_limited", "Wait."),
        ('{"error": {"code": "no_fuel", "message": "Empty."}}', "no_fuel", "Empty."),
    ],
)
def test_errors(text: str, code: str, message: str) -> None:
    answer = read_answer(text)
    assert (answer.code, answer.message, dict(answer.data)) == (code, message, {})


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1}',
        '\n {\n  "a": 1\n}\n',
        'Note: {"a": 1} and more',
        '{"a": 1, "error": null}',
    ],
)
def test_an_object_is_found_where_it_stands(text: str) -> None:
    assert read_answer(text).data["a"] == 1
    assert not read_answer(text).is_error


@pytest.mark.parametrize(
    "text", ["", "[1, 2]", "{broken", "(see ctx://Ada/12)", "{" * 5000, "null"]
)
def test_other_texts_say_nothing(text: str) -> None:
    answer = read_answer(text)
    assert (answer.code, dict(answer.data), answer.unsure) == ("", {}, False)


def test_an_outcome_that_nobody_knows() -> None:
    assert read_answer("interrupted, outcome unknown").unsure
    assert not read_answer("Tool no response").unsure


# -- the state block -------------------------------------------------------


def test_the_seeds_block() -> None:
    block = read_block(golden("seed"))
    assert (block.logged_in, block.account) == (True, "VoidWanderer")
    status = block.sections["get_status"]
    assert status["Location"].value == "Sol System > Asteroid Belt Alpha"
    assert (status["Location"].age, status["Location"].changed) == (2, "")
    cargo = block.find("Cargo", "get_cargo", "get_status", "get_ship")
    assert cargo is not None
    assert (cargo.value, cargo.complete) == ("45/100", True)
    assert cargo.children == ("Iron Ore x30", "Copper Ore x15")
    assert block.sections["get_system"][""].value == "Sol System (Solarian Empire)"
    assert block.sections["get_map"][""].stale
    assert not status["Credits"].stale


def test_marks_name_the_action_and_the_tool() -> None:
    credits = read_block(golden("belt_undocked")).sections["get_status"]["Credits"]
    assert (credits.value, credits.changed, credits.ask) == (
        "11,153",
        "buy",
        "get_status",
    )


def test_changes_are_not_part_of_a_value() -> None:
    ship = read_block(golden("changed")).sections["get_ship"]
    assert (ship["Fuel"].value, ship["Cargo"].value) == ("60/100", "45/100")
    assert ship["Cargo"].children == ("Iron Ore x30", "Copper Ore x15")


def test_before_logout_is_stale_and_ages_by_the_clock_are_ticks() -> None:
    status = read_block(golden("after_logout")).sections["get_status"]
    assert status["Docked"].stale
    assert status["Docked"].age == 66 * 6
    assert read_block(golden("skewed")).sections["get_status"]["Docked"].age == 0


def test_nobody_and_nothing() -> None:
    assert read_block(NOT_LOGGED_IN).logged_in is False
    assert read_block("").logged_in is None
    assert read_block(golden("empty")).sections == {}


def test_several_actions_one_merged_line_and_a_short_list() -> None:
    block = read_block(
        "## Current Game State\n\n**Account:** Ada (Nebula Empire)\n\n"
        "### Status (get_status - 13 ticks ago)\n"
        "- Docked: No (before dock, sell at tick 23; call get_status then)\n"
        "- Location: Sol > Belt (from an event at tick 9)\n"
        "- Cargo: 9/50\n  - Iron Ore x4 (was 2)\n  - and 3 more\n"
        "### Cargo (get_cargo - 9 ticks ago, before mine at tick 4; call get_cargo)\n"
        "- Cargo: 7/50\n\n"
        "**Stale data:** also get_base, view_market.\n"
    )
    status = block.sections["get_status"]
    assert status["Docked"].changed == "dock, sell"
    assert (status["Location"].value, status["Location"].age) == ("Sol > Belt", 0)
    assert (status["Cargo"].complete, status["Cargo"].children[0]) == (
        False,
        "Iron Ore x4",
    )
    assert block.sections["get_cargo"]["Cargo"].changed == "mine"


@given(st.text(max_size=400))
def test_any_text_can_be_read(text: str) -> None:
    read_block(f"## Current Game State\n### Status (get_status - just now)\n- {text}")
    read_answer(text)
    parse_order(text)
    split_state(text)


# -- who says what ---------------------------------------------------------


def test_a_block_is_split_from_what_was_said() -> None:
    block = golden("seed")
    assert split_state(block) == ("", block)
    assert split_state(f"Go on.\n\n{block}") == ("Go on.", block)
    assert split_state(f"Go on.\n\n{NOT_LOGGED_IN}") == ("Go on.", NOT_LOGGED_IN)
    assert split_state("Tell me the ## Current Game State") == (
        "Tell me the ## Current Game State",
        "",
    )


def test_a_turn_begins_with_what_was_heard_or_after_what_was_said() -> None:
    call = Called("mine", {}, read_answer("{}"))
    entries: list[Entry] = [Heard("a"), call, Said("b"), call]
    assert Transcript("", entries).turn == [call]
    assert Transcript("", [*entries, Heard("c"), call]).turn == [Heard("c"), call]
    assert Transcript("", [call]).turn == [call]


# -- orders ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("Stop mining.", "stop"),
        ("please hold position", "hold"),
        ("Dock now!", "dock"),
        ("All ships: return to base", "dock"),
        ("go to the nearest station", "dock"),
        ("Good morning! Dock at Sol Central, please.", "dock Sol Central"),
        ("Go to Alpha Centauri, then wait", "goto Alpha Centauri/hold"),
        ("Stop mining and dock", "stop/dock"),
        ("Fly to sol_belt and mine", "goto sol_belt/work"),
        ("Travel to the Main Belt.", "goto Main Belt"),
        ("Go to the nearest belt; mine until you are full", "goto belt/fill"),
        ("Ada, go and sell everything, please", "sell"),
        ("Report!", "report"),
        ("What is your status?", "report"),
        ("Report your credits, fuel and position", "report/report/report"),
        ("Mine ore", "work"),
        ("Mine some ore as usual", "work"),
        ("carry on", "work"),
        ("Go back to work: mine ore and sell it.", "work sell"),
        ("Don't stop mining", "work"),
        ("explore a bit", "explore"),
        ("refuel first", "refuel"),
        (
            "Dock at the nearest base, refuel, and report your credits.",
            "dock/refuel/report",
        ),
        ("Undock. Repair; then unload", "undock/repair/sell"),
        ("Search your memory for iron ore", "search iron ore"),
        ("What did we agree on about prices?", "search prices"),
        ("Search for iron, copper and tin", "search iron copper tin"),
        ("Log: iron sells at 5, and so on.", "note iron sells at 5, and so on."),
        ("Dock, then log: sold.", "dock/note sold."),
        ("Return to base", "dock"),
        ("Come back to the station", "dock"),
        ("Return", "dock"),
        ("come back at once", "dock"),
        ("Go home", "dock"),
        ("sell it", "sell"),
        ("Sell the cargo", "sell"),
        ("Sell everything you have", "sell"),
        ("Sell the ore at the nearest station first", "sell"),
        ("refuel now", "refuel"),
        ("Refuel your ship at the nearest base", "refuel"),
        ("hold", "hold"),
        ("Wait here until further notice", "hold"),
        ("Stop what you are doing", "stop"),
        ("stop", "stop"),
        ("wait", "hold"),
        ("Report when you are done", "report"),
        ("Tell me your position", "report"),
        ("How much fuel do you have?", "report"),
        ("Mine until your hold is full", "fill"),
        ("Carry on with your mission", "work"),
        (CARRY_ON, "work"),
        ("Get back to work", "work"),
        # What is not understood is a part without a kind, never a guess.
        ("Sell at Sol", "?"),
        ("Refuel at The Core", "?"),
        ("Repair at Sol", "?"),
        ("Explore Sol", "?"),
        ("Sell everything but the gold", "?"),
        ("Sell 10 iron ore", "?"),
        ("Refuel if below 50 %", "?"),
        ("Mine copper ore only", "?"),
        ("Mine iron until you are full", "?"),
        ("Go back to mining copper", "goto mining copper"),
        ("Go on to Sol", "?"),
        ("Hold fire", "?"),
        ("Stay away from Sol", "?"),
        ("Report your plan", "?"),
        ("How many pirates are there?", "?"),
        ("Undock if nobody is near", "?"),
        ("Stop at the station and refuel", "?/refuel"),
        ("Wait 5 ticks, then go to Sol", "?/goto Sol"),
        ("Mine ore, sell at Sol", "work/?"),
        ("Search for iron, then sell at Sol", "search iron/?"),
        ("Search the belt for gold", "search the belt for gold"),
        ("Sing me a song", "?"),
        ("Sing me a song about mining and docking", "?/?"),
        ("Tell me a joke, then dock", "?/dock"),
        ("Go to the place where we met that pirate last week", "?"),
        ("Never dock", "?"),
        ("Hello there", "?"),
        ("Hello", "?"),
        ("", ""),
        ("mine " * 200, ""),
    ],
)
def test_an_order_has_parts(text: str, parts: str) -> None:
    found = parse_order(text, "Ada")
    told = (f"{part.kind or '?'} {part.target}".strip() for part in found)
    assert "/".join(told) == parts


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("Hold", True),
        ("Stop mining and dock", True),
        ("Dock, then wait and report", True),
        ("Hold position. Sing a song.", True),
        ("Wait, then go to Sol", False),
        ("Wait 5 ticks, then go to Sol", False),
        ("Stop, refuel, then mine", False),
        ("Hold fire", False),
        ("Report", False),
    ],
)
def test_it_holds_where_that_is_what_is_left_to_do(text: str, holds: bool) -> None:
    assert Order(text, parse_order(text)).holds is holds


# -- names -----------------------------------------------------------------


@given(st.text(max_size=60), st.integers(0, 30))
def test_a_username_is_one_that_the_game_takes(name: str, taken: int) -> None:
    made = make_username(name, taken)
    assert 3 <= len(made) <= 24
    assert made == made.strip()
    assert choose_empire(name) in EMPIRES


def test_a_taken_name_gives_another() -> None:
    assert len({make_username("Ada", taken) for taken in range(5)}) == 5
    assert make_username("Ada", 0) == "Ada"
    assert {choose_empire(f"Captain {n}") for n in range(100)} == set(EMPIRES)
