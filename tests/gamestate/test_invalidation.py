"""What each action makes untrue, and the life of a mark (G6, API.md section 3)."""

from __future__ import annotations

import csv

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.gamestate.effects import ACTIONS
from memory.gamestate.extract import Result, read_result
from memory.gamestate.invalidation import (
    EVERYTHING,
    Circumstances,
    Invalidation,
    carry_mark,
    find_invalidations,
    is_mutation,
    read_action_name,
)
from memory.gamestate.types import Stale
from tests.gamestate.builders import GOLDEN, add_mark, inherit_marks, payload

COLUMNS = {
    "St": "get_status", "Sh": "get_ship", "Cg": "get_cargo", "Sy": "get_system",
    "Po": "get_poi", "Nb": "get_nearby", "Ba": "get_base", "Mk": "view_market",
    "Sg": "view_storage", "Sk": "get_skills", "Ms": "get_active_missions",
    "Wr": "get_wrecks", "Mp": "get_map", "Lg": "captains_log_list",
}  # fmt: skip
# What the table leaves blank although the hold's other snapshot changes.
BEYOND = {("salvage_wreck", "Sh"), ("scrap_wreck", "Sh"), ("sell_wreck", "Sh")}


def matrix():
    with (GOLDEN / "matrix.csv").open() as file:
        for row in csv.DictReader(file):
            for action in row.pop("actions").split():
                for column, sign in row.items():
                    yield action, column, sign


def hits(action, result=None, **around):
    if not isinstance(result, Result):
        result = read_result(result or {"done": 1})
    found = find_invalidations(action, {}, result, Circumstances(**around))
    return {hit.tool: hit for hit in found}


@pytest.mark.parametrize(("action", "column", "sign"), list(matrix()))
def test_the_table(action, column, sign):
    """X, x and + are touched while nothing says otherwise; a blank never is."""
    is_touched = COLUMNS[column] in hits(action)
    if (action, column) not in BEYOND:
        assert is_touched == bool(sign)


def test_the_seeds_own_examples_name_their_fields():
    travel, mine, buy = hits("travel"), hits("mine"), hits("buy")
    assert "player.current_poi" in travel["get_status"].fields
    assert "player.credits" not in travel["get_status"].fields
    assert "ship.cargo" in mine["get_ship"].fields
    assert "ship.hull" not in mine["get_ship"].fields
    assert "player.credits" in buy["get_status"].fields
    assert "ship.fuel" not in buy["get_status"].fields


@pytest.mark.parametrize(
    ("action", "result", "tool", "expected"),
    [
        ("refuel", {"source": "station", "fuel": 7}, "get_cargo", False),
        ("refuel", {"source": "fuel_cells", "cells_used": 2}, "get_cargo", True),
        ("refuel", {"queued": True}, "get_cargo", True),
        ("repair", {"repaired": 40, "cost": 80}, "get_cargo", False),
        ("repair", {"repaired": 40, "cost": 0, "kits_used": 1}, "get_cargo", True),
        ("buy", payload("buy"), "view_storage", False),
        ("buy", {"delivered_to_storage": 3}, "view_storage", True),
        ("buy", payload("buy"), "get_skills", False),
        ("sell", payload("sell"), "view_storage", True),
        ("sell", {"total_earned": 9, "level_up": False, "xp_gained": 2}, "get_skills", True),
        ("travel", payload("travel.feb_queued"), "get_skills", True),
        ("travel", payload("travel"), "get_skills", True),
        ("complete_mission", {"credits_earned": 9}, "view_storage", False),
        ("mine", {"auto_undocked": True}, "get_base", True),
        ("mine", {"kind": "yield"}, "get_base", False),
    ],
)  # fmt: skip
def test_conditions_hold_unless_the_answer_says_otherwise(
    action, result, tool, expected
):
    assert (tool in hits(action, result)) is expected


@pytest.mark.parametrize(
    "tool",
    ["get_status", "view_market", "find_route", "captains_log_list", "help",
     "get_notifications", "zoea_recall", "login", "logout", "register"],
)  # fmt: skip
def test_reads_and_the_account_itself_touch_nothing(tool):
    assert hits(tool) == {}


def test_an_unknown_mutation_touches_everything():
    assert hits("terraform") == {EVERYTHING: Invalidation(EVERYTHING)}
    assert hits("get_rich_quick", mutation=True).keys() == {EVERYTHING}
    assert hits("terraform", mutation=False) == {}
    assert Invalidation(EVERYTHING).hits("get_version")


def test_the_servers_word_does_not_free_an_action_of_the_table():
    assert is_mutation("captains_log_add", told=False)


def test_grouped_tools_are_known_by_their_action():
    assert read_action_name("spacemolt", {"action": "mine"}) == "mine"
    assert read_action_name("facility", {"action": "build"}) == "facility"
    found = find_invalidations(
        "spacemolt", {"action": "get_status"}, read_result({"ok": 1}), Circumstances()
    )
    assert found == ()


# -- queued answers --------------------------------------------------------


def test_a_queued_action_resolves_later():
    travel = find_invalidations(
        "travel", {}, read_result(payload("travel.feb_queued")), Circumstances(41_700)
    )
    assert {hit.resolve_tick for hit in travel} == {41_708}
    mine = find_invalidations(
        "mine", {}, read_result(payload("mine.feb_queued")), Circumstances(100)
    )
    assert {hit.resolve_tick for hit in mine} == {102}
    jump = find_invalidations(
        "jump", {}, read_result({"queued": True, "ticks": 2}), Circumstances(100)
    )
    assert {hit.resolve_tick for hit in jump} == {103}


def test_an_answered_action_has_happened():
    for name in ("travel", "buy", "sell", "refuel"):
        found = find_invalidations(
            name, {}, read_result(payload(name)), Circumstances(100)
        )
        assert {hit.resolve_tick for hit in found} == {None}


# -- refusals --------------------------------------------------------------


def refused(code):
    return {"error": {"code": code, "message": "no"}}


def test_a_refusal_changes_the_dock_state_at_most():
    found = hits("mine", refused("no_resources"), era="C")
    assert set(found) == {"get_status", "get_ship", "get_state"}
    assert "player.docked_at_base" in found["get_status"].fields
    assert "ship.cargo" not in found["get_ship"].fields


@pytest.mark.parametrize(("era", "doubted"), [("C", True), (None, True), ("A", False)])
def test_a_lost_answer_leaves_the_dock_state_in_doubt(era, doubted):
    found = hits("mine", Result(content=None, is_unknown=True), era=era)
    assert ("player.docked_at_base" in found["get_status"].fields) is doubted
    assert "captains_log_list" not in found


@pytest.mark.parametrize("tool", ["create_faction", "leave_faction", "faction_invite"])
def test_a_faction_is_listed_anew(tool):
    assert {"faction_list", "faction_info"} <= set(hits(tool, {"action": tool}))


@pytest.mark.parametrize(
    ("tool", "code", "era"),
    [
        ("mine", "no_resources", "A"),
        ("mine", "session_invalid", "C"),
        ("travel", "invalid_payload", None),
        ("captains_log_add", "internal", "C"),
        ("get_base", "not_docked", "C"),
    ],
)
def test_a_refusal_before_anything_was_tried_changes_nothing(tool, code, era):
    assert hits(tool, refused(code), era=era) == {}


# -- marks -----------------------------------------------------------------


def show(mark):
    return mark.reason, mark.tick, mark.fields


def test_marks_add_up():
    first = add_mark(None, Invalidation("get_status", ("ship.cargo",)), "mine", 100)
    assert first == Stale("mine", 100, ("ship.cargo",))
    second = add_mark(
        first, Invalidation("get_status", ("player.credits",)), "buy", 104
    )
    assert show(second) == ("buy", 104, ("ship.cargo", "player.credits"))
    assert second.causes == (first, Stale("buy", 104, ("player.credits",)))
    third = add_mark(second, Invalidation("get_status"), "self_destruct", 105)
    assert show(third) == ("self_destruct", 105, ())
    assert third.causes == (*second.causes, Stale("self_destruct", 105))


def test_a_mark_that_takes_effect_later_keeps_its_tick():
    under_way = Stale("travel", 110, ("location",))
    found = add_mark(
        under_way, Invalidation("get_status", ("ship.cargo",)), "mine", 101
    )
    assert show(found) == ("travel, mine", 110, ("location", "ship.cargo"))
    assert [cause.reason for cause in found.causes] == ["travel", "mine"]
    again = add_mark(found, Invalidation("get_status", ("ship.cargo",)), "mine", 112)
    assert again.reason == "mine"


def test_many_actions_under_way_are_one_unknown_action():
    found = Stale("travel", 500)
    for number in range(30):
        found = add_mark(found, Invalidation("x"), f"action_{number}", 100)
    assert (found.reason, found.tick) == ("several actions", 500)
    assert inherit_marks([found], "get_version", {}, 100)


@pytest.mark.parametrize(
    ("before", "tick", "stays"),
    [
        (None, 5, False),
        (Stale("buy"), 5, False),
        (Stale("buy", 104), 104, False),
        (Stale("travel", 110), 109, True),
        (Stale("travel", 110), None, True),
        (Stale("travel", 5000), 12, False),
    ],
)
def test_a_new_snapshot_carries_a_mark_that_is_still_to_come(before, tick, stays):
    assert carry_mark(before, tick) == (before if stays else None)


def test_a_first_snapshot_inherits_what_is_under_way():
    pending = [Stale("travel", 110, ("location",)), Stale("mine", 101)]
    assert inherit_marks(pending, "get_poi", {}, 104) == (Stale("travel", 110, ()),)
    assert inherit_marks(pending, "get_cargo", {}, 104) == ()
    assert inherit_marks(pending, "get_poi", {}, 110) == ()
    assert inherit_marks([Stale("terraform", 110)], "get_version", {}, 104)


fields = st.lists(st.sampled_from(["a", "b.c", "d"]), max_size=3).map(tuple)
ticks = st.none() | st.integers(0, 300)


@given(
    st.builds(Stale, st.just("old"), ticks, fields),
    st.builds(Invalidation, st.just("get_ship"), fields, ticks),
    ticks,
)
def test_a_second_mark_never_takes_doubt_away(before, hit, tick):
    found = add_mark(before, hit, "new", tick)
    for one in (before.fields, hit.fields):
        assert not found.fields or (one and set(one) <= set(found.fields))
    for known in (before.tick, hit.resolve_tick):
        assert known is None or (found.tick is not None and found.tick >= known)


@given(st.sampled_from([*ACTIONS, "terraform", "get_x", "forum_reply"]), st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(["queued", "ticks", "arrival_tick", "source", "error", "x"]),
        inner, max_size=4,
    ),
    max_leaves=10,
))  # fmt: skip
def test_any_answer_is_judged(action, answer):
    for hit in find_invalidations(action, {}, read_result(answer), Circumstances(5)):
        assert hit.tool
        assert hit.resolve_tick is None or hit.resolve_tick > 0
