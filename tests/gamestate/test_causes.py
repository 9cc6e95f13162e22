"""A doubted fact names the action that touches it, and nothing else is in doubt."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.gamestate.confidence import (
    Confidence,
    find_cause,
    find_stale_paths,
    judge_confidence,
    list_causes,
)
from memory.gamestate.effects import ACTIONS
from memory.gamestate.facts import View
from memory.gamestate.invalidation import MOST_CAUSES, SEVERAL, join_marks
from memory.gamestate.render import render_block
from memory.gamestate.rows import build_rows
from memory.gamestate.sections import read_facts
from memory.gamestate.types import Moment, Stale
from memory.gamestate.values import applies_to, paths_overlap, unwrap_content
from tests.gamestate.builders import NOW, TICK, payload, snapshot, state

TOOLS = ("get_status", "get_ship", "get_cargo", "get_system", "get_skills")
STATUS = {
    "player": {"credits": 500, "current_system": "sol", "current_poi": "sol_belt"},
    "ship": {"hull": 90, "max_hull": 100, "fuel": 60, "max_fuel": 100, "cargo_used": 4},
}
actions = st.lists(st.sampled_from(sorted(ACTIONS)), max_size=8)


def act(names, tool, content=None):
    """A snapshot of a tool after these actions, one a tick."""
    marks = [
        Stale(name, TICK - len(names) + place, effects[tool].fields)
        for place, name in enumerate(names)
        if tool in (effects := ACTIONS[name])
    ]
    found = snapshot(tool, content, age=len(names) + 1)
    return replace(found, stale=join_marks(marks, TICK), marks=tuple(marks))


def list_facts(found):
    content = unwrap_content(found.content)
    assert isinstance(content, dict)
    return read_facts(found.tool, View(content, {}), content)


def touches(action, found, path):
    effect = ACTIONS[action].get(found.tool)
    if effect is None:
        return False
    if not effect.fields:
        return True
    content = unwrap_content(found.content)
    named = [each for each in effect.fields if applies_to(content, each)]
    return any(paths_overlap(path, each) for each in named)


@given(actions, st.sampled_from(TOOLS))
def test_a_cause_is_in_its_row_of_the_effects_table(names, tool):
    found = act(names, tool)
    for fact in list_facts(found):
        cause = find_cause(found, fact.paths, find_stale_paths(found))
        touched = [n for n in names if any(touches(n, found, p) for p in fact.paths)]
        assert (cause.reason if cause else None) == (touched[-1] if touched else None)


@given(actions, st.sampled_from(TOOLS))
def test_what_no_later_action_touches_keeps_its_freshness(names, tool):
    found, moment = act(names, tool), Moment(TICK, NOW)
    before = replace(found, stale=None, marks=())
    for fact in list_facts(found):
        for path in fact.paths:
            if not any(touches(name, found, path) for name in names):
                assert judge_confidence(found, moment, path) is judge_confidence(
                    before, moment, path
                )
            else:
                assert judge_confidence(found, moment, path) is Confidence.INVALIDATED


@given(st.lists(st.builds(Stale, st.text(max_size=3), st.none() | st.integers(0, 9))))
def test_joined_step_by_step_the_causes_are_the_same(marks):
    found = None
    for mark in marks:
        found = join_marks([*([found] if found else []), mark], 5)
    assert found == join_marks(marks, 5)
    assert found is None or len(found.causes) <= MOST_CAUSES


def test_the_block_names_the_action_that_touched_each_fact():
    found = act(["travel", "mine", "mine"], "get_status", STATUS)
    lines = render_block(state(found)).text.splitlines()
    assert "- Credits: 500" in lines
    assert "- Hull: 90/100" in lines
    assert (
        "- Location: sol > sol_belt (before travel at tick 104; call get_status)"
        in (lines)
    )
    assert "- Fuel: 60/100 (before travel at tick 104; call get_status)" in lines
    assert "- Cargo: 4 (before mine at tick 106; call get_status)" in lines
    assert lines[-1] == (
        "**Stale data:** parts of get_status are from before mine at tick 106 - "
        "call get_status."
    )


def test_a_row_names_the_cause_of_each_field():
    [row] = build_rows(state(act(["travel", "mine"], "get_status", STATUS)))
    assert row.reason == "mine"
    assert [cause.reason for cause in row.causes] == ["mine", "travel"]
    assert row.field_causes["ship.fuel"].reason == "travel"
    assert row.field_causes["ship.cargo_used"].tick == 106
    assert "ship.hull" not in row.field_causes


@pytest.mark.parametrize("told", [None, 50])
def test_an_event_after_an_action_settles_only_what_it_told(told):
    marks = Stale("travel", 40, ("ship.fuel",)), Stale("mine", 60, ("ship.cargo_used",))
    ticks = {"ship.fuel": told} if told else {}
    found = snapshot(
        "get_status", STATUS, stale=join_marks(marks, TICK), field_ticks=ticks
    )
    assert (find_cause(found, ["ship.fuel"], find_stale_paths(found)) is None) == bool(
        told
    )
    assert find_cause(found, ["ship.cargo_used"], find_stale_paths(found)) is not None


def test_a_text_that_nobody_can_read_is_doubted_by_whatever_came_last():
    found = act(["travel", "mine"], "get_status", "Ada is in Sol and has 5 credits.")
    cause = find_cause(found, ["player.credits"], find_stale_paths(found))
    assert cause is not None
    assert cause.reason == "mine"


def test_a_text_of_a_known_form_is_doubted_by_its_facts():
    found = act(["travel", "mine"], "get_status", "Ada [solarian] | 5cr | Sol")
    marked = find_stale_paths(found)
    assert find_cause(found, ["player.credits"], marked) is None
    cause = find_cause(found, ["location.system_name"], marked)
    assert cause is not None
    assert cause.reason == "travel"


def test_marks_that_do_not_apply_are_no_causes():
    mark = Stale("trade_offer", 4, ("ship.hold.items",))
    found = snapshot("get_status", payload("get_status"), stale=mark)
    assert list_causes(found, find_stale_paths(found)) == ()


# --- Of very many actions


def touches_part(part, found, paths):
    """Whether what a cause says it touched is in the content and leads to a path."""
    content = unwrap_content(found.content)
    named = [each for each in part.fields if applies_to(content, each)]
    return not part.fields or any(paths_overlap(p, n) for p in paths for n in named)


@settings(deadline=None)
@given(st.permutations(sorted(ACTIONS)), st.sampled_from(TOOLS))
def test_of_very_many_actions_each_fact_names_the_newest_that_touched_it(names, tool):
    found = act(names, tool)
    assert found.stale is None or len(found.stale.causes) <= MOST_CAUSES
    for fact in list_facts(found):
        cause = find_cause(found, fact.paths, find_stale_paths(found))
        touched = [n for n in names if any(touches(n, found, p) for p in fact.paths)]
        assert (cause.reason if cause else None) == (touched[-1] if touched else None)


PATHS = ("ship", "player.stats", *(f"player.note_{n}" for n in range(30)))
very_many = st.lists(
    st.tuples(
        st.none() | st.integers(0, 9),
        st.lists(st.sampled_from(PATHS), min_size=1, max_size=2, unique=True).map(tuple)
        | st.sampled_from([(), ("player",), ("trade.offers.id",)]),
    ),
    min_size=MOST_CAUSES + 1,
    max_size=2 * MOST_CAUSES,
)


@settings(deadline=None)
@given(very_many, st.integers(0, 9))
def test_no_cause_is_wrong_however_many_marks_there_are(made, told):
    """What is dropped leaves no fact with another's cause, and none without one."""
    marks = [Stale(f"act_{n}", *each) for n, each in enumerate(made)]
    bounded = snapshot("get_status", STATUS, stale=join_marks(marks, TICK))
    assert bounded.stale is not None
    assert len(bounded.stale.parts) <= MOST_CAUSES
    for ticks in ({}, dict.fromkeys(PATHS[::2], told)):
        found = replace(bounded, field_ticks=ticks)
        marked = find_stale_paths(found)
        for path in PATHS:
            since = ticks.get(path, -1)
            doubting = [
                mark.reason
                for mark in marks
                if touches_part(mark, found, [path])
                and (mark.tick is None or mark.tick > since)
            ]
            cause = find_cause(found, [path], marked)
            assert (cause is None) == (not doubting)
            assert cause is None or cause.reason in (doubting[-1], SEVERAL)


def test_what_is_dropped_for_room_names_no_other_action():
    marks = [Stale(f"note_{n}", n, (f"player.note_{n}",)) for n in range(MOST_CAUSES)]
    found = snapshot(
        "get_status",
        STATUS,
        stale=join_marks(
            [
                Stale("travel", 0, ("ship.fuel",)),
                Stale("buy", 0, ("player.stats",)),
                *marks,
            ],
            99,
        ),
    )
    assert found.stale is not None
    assert len(found.stale.causes) == MOST_CAUSES
    marked = find_stale_paths(found)
    fuel = find_cause(found, ["ship.fuel"], marked)
    assert fuel is not None
    assert fuel.reason == SEVERAL
    newest = find_cause(found, [marks[-1].fields[0]], marked)
    assert newest is not None
    assert newest.reason == marks[-1].reason


def test_a_row_that_kept_no_cause_of_a_field_names_no_other_action():
    """As older versions stored it, of more than twenty actions."""
    causes = tuple(Stale("mine", n, ("ship.cargo_used",)) for n in range(2))
    mark = Stale("mine", 9, ("ship.fuel", "ship.cargo_used"), causes=causes)
    found = snapshot("get_status", STATUS, stale=mark)
    cause = find_cause(found, ["ship.fuel"], find_stale_paths(found))
    assert cause == Stale(SEVERAL, 9, mark.fields)
    assert (
        f"Fuel: 60/100 (before {SEVERAL} at tick 9" in render_block(state(found)).text
    )


@given(actions, st.sampled_from(TOOLS))
def test_a_row_lists_only_what_touches_something_in_it(names, tool):
    found = act(names, tool)
    listed = list_causes(found, find_stale_paths(found))
    content = unwrap_content(found.content)
    for cause in listed:
        assert not cause.fields or any(applies_to(content, f) for f in cause.fields)
    doubted = [
        find_cause(found, fact.paths, find_stale_paths(found))
        for fact in list_facts(found)
    ]
    assert all(cause in listed for cause in doubted if cause)


def test_an_action_that_touches_nothing_in_a_row_is_not_listed():
    marks = (
        Stale("travel", 4, ("ship.fuel",)),
        Stale("trade_x", 6, ("trade.offers.id",)),
    )
    found = snapshot("get_status", STATUS, stale=join_marks(marks, TICK))
    [cause] = list_causes(found, find_stale_paths(found))
    assert cause.reason == "travel"
    told = replace(found, field_ticks={"ship.fuel": 5})
    assert list_causes(told, find_stale_paths(told)) == ()
    [row] = build_rows(state(found))
    assert [each.reason for each in row.causes] == ["travel"]
