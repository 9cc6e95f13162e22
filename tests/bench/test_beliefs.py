"""Which of the facts that are shown as good are wrong."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from bench.loop.flight import find_state, find_wrong_beliefs
from memory.context.types import CRITICAL_REMINDERS, NUDGE_TEXT, OPEN_ORDERS_LEAD
from memory.gamestate.types import AccountState, Moment, Snapshot, Stale

NOW = datetime(2026, 2, 5, tzinfo=UTC)
SHIP = {"ship": {"hull": 90, "max_hull": 100, "fuel": 50, "max_fuel": 60}}


def state(content: object, stale: Stale | None = None) -> AccountState:
    snapshot = Snapshot("get_ship", {}, content, 100, NOW, stale)
    return AccountState("Ada", (snapshot,), Moment(100, NOW))


def test_what_is_shown_as_good_and_true_is_right():
    assert find_wrong_beliefs(state(SHIP), {"get_ship": SHIP}) == (2, [])


def test_a_value_that_is_not_true_any_more_is_wrong():
    now = {"ship": {**SHIP["ship"], "hull": 10}}
    good, (belief,) = find_wrong_beliefs(state(SHIP), {"get_ship": now})
    assert good == 2
    assert belief == ("get_ship", "Hull", "90/100", "10/100")


def test_what_is_marked_is_no_belief():
    now = {"ship": {**SHIP["ship"], "hull": 10}}
    marked = Stale("attack", 100, ("ship.hull",))
    assert find_wrong_beliefs(state(SHIP, marked), {"get_ship": now}) == (1, [])
    assert find_wrong_beliefs(
        state(SHIP, Stale("attack", 100, ())), {"get_ship": now}
    ) == (0, [])


def test_what_the_game_would_refuse_now_is_not_counted():
    error = {"error": {"code": "in_transit", "message": "You are flying."}}
    assert find_wrong_beliefs(state(SHIP), {"get_ship": error}) == (0, [])
    gone = {"ship": {"hull": 90, "max_hull": 100}}
    _, (belief,) = find_wrong_beliefs(state(SHIP), {"get_ship": gone})
    assert (belief.label, belief.true) == ("Fuel", "(not told)")
    assert find_wrong_beliefs(state(SHIP), {}) == (0, [])


def test_a_text_may_tell_less_and_what_either_form_tells_is_right():
    whole = {"location": {"system_name": "Sol", "poi_name": "Belt"}}
    less = "Ada [solarian] | 5cr | Sol\nFuel: 5/10\n"
    text = Snapshot("get_status", {}, less, 100, NOW)
    told = AccountState("Ada", (text,), Moment(100, NOW))

    def wrong(place: str, system: str = "Sol") -> list[str]:
        where = {"system_name": system, "poi_name": place}
        true = {"player": {"credits": 5}, "location": where}
        true["ship"] = {"fuel": 5, "max_fuel": 10}
        said = less.replace("Sol", system)
        _, found = find_wrong_beliefs(told, {"get_status": true}, {"get_status": said})
        return [belief.true for belief in found if belief.label == "Location"]

    assert wrong("Belt") == wrong("Earth") == []
    assert wrong("Belt", "Sirius") == ["Sirius > Belt or Sirius"]
    # A place that is told has to be the place.
    placed = replace(text, content={**whole, "player": {"credits": 5}})
    told = AccountState("Ada", (placed,), Moment(100, NOW))
    assert wrong("Belt") == []
    assert wrong("Earth") == ["Sol > Earth or Sol"]


def test_the_bytes_of_a_state_block_are_without_the_reminder_behind_it():
    block = "## Current Game State\n\n**Account:** Ada\n\n### Ship\n- Fuel: 5/10"
    told = "go\n\n;     said: ## Current Game State of Sol\n\nTurns left: 3"
    orders = f"{OPEN_ORDERS_LEAD}1. Mine."
    for end in ((), (CRITICAL_REMINDERS,), (NUDGE_TEXT, orders, CRITICAL_REMINDERS)):
        text = "\n\n".join([told, block, *end])
        assert find_state(text, "coalesced") == block
    assert find_state("Turns left: 3", "coalesced") == find_state("x", "nudge") == ""
    assert find_state(block, "state") == block
