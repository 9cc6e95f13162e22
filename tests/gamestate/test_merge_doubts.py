"""What an event changes beside what it says, and what it may not be written into."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from memory.gamestate.confidence import Confidence, judge_confidence
from memory.gamestate.merge import learn_account
from memory.gamestate.notices import Notice
from memory.gamestate.types import Moment, Stale
from tests.gamestate.builders import NOW, PACE, TICK, snapshot
from tests.gamestate.merging import (
    ME,
    STATUS,
    believed,
    merge_events,
    merged,
    notice,
    value,
)

KILL = {"pirate_id": "x", "credits_reward": 40, "xp_gained": 25}


@pytest.mark.parametrize("path", ["player.stats", "player.skills", "player.skill_xp"])
def test_a_kill_counts_for_more_than_its_reward(path):
    player = {"credits": 500, "skills": {}, "skill_xp": {}, "stats": {"kills": 0}}
    found = merged("get_status", notice("pirate_destroyed", **KILL),
                   content={"player": player})  # fmt: skip
    assert value(found, "player.credits") == 540
    assert believed(found, path) is Confidence.INVALIDATED


def test_a_kill_may_have_been_a_mission():
    missions = {"missions": [{"id": "m", "type": "kill_pirate", "progress": 1}]}
    kill = notice("pirate_destroyed", **KILL)
    found = merged("get_active_missions", kill, content=missions)
    assert believed(found, "missions.0.progress") is Confidence.INVALIDATED


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("battle_damage", {"target_id": "p", "hull_hit": 20}),
        ("combat_update", {"target": "Ben", "hull_hit": 20}),
        ("pirate_combat", {"player_hull": 33, "player_shield": 0}),
        ("pirate_destroyed", KILL),
    ],
)
def test_a_fight_changes_what_the_battle_looked_like(kind, data):
    found = merged("get_battle_status", notice(kind, **data), content={"hull": 50})
    assert believed(found, "hull") is Confidence.INVALIDATED


@pytest.mark.parametrize(
    ("content", "level", "points"),
    [
        (
            {"player_skills": [{"skill_id": "m", "level": 1, "current_xp": 90}]},
            "player_skills.*.level",
            "player_skills.*.current_xp",
        ),
        ({"skills": {"m": {"level": 1, "xp": 90}}}, "skills.m.level", "skills.m.xp"),
    ],
)
def test_a_new_level_leaves_the_points_in_doubt(content, level, points):
    risen = notice("skill_level_up", skill_id="m", new_level=2)
    found = merged("get_skills", risen, content=content)
    assert '"level": 2' in json.dumps(found.current)
    assert believed(found, level) is not Confidence.INVALIDATED
    assert believed(found, points) is Confidence.INVALIDATED


def test_the_outcome_of_an_action_asked_later_is_never_older():
    """By its tick it would be, though it is the answer to what was asked afterwards."""
    asked = NOW - timedelta(seconds=12)
    mark = Stale("mine", 108, ("ship.cargo",), at=asked)
    content = {"current_tick": 105, "ship": {"cargo": [], "cargo_used": 0}}
    outcome = Notice(
        "1", "action_result",
        {"command": "mine", "tick": 105,
         "result": {"resource_id": "ore_iron", "quantity": 5}},
        tick=105, exact=True, at=asked + timedelta(seconds=4),
    )  # fmt: skip
    found = merged("get_status", outcome, content=content, stale=mark, marks=(mark,))
    assert believed(found, "ship.cargo") is not Confidence.FRESH


def test_a_tick_of_something_else_in_an_answer_is_not_its_own():
    """The yield was in the hold already: its moment says so, the log's tick does not."""
    content = {
        "cargo": [{"item_id": "ore_iron", "quantity": 10}],
        "used": 10,
        "log": [{"tick": 97}],
    }
    told = Notice(
        "1", "mining_yield", {"resource_id": "ore_iron", "quantity": 5},
        tick=99, exact=True, at=NOW - timedelta(seconds=40),
    )  # fmt: skip
    row = snapshot("get_cargo", content, tick=97)
    found = merge_events(row, [told], learn_account(ME, [row]), TICK)
    assert value(found, "used") == 10


def test_another_ship_is_only_doubted():
    shot = notice("pirate_combat", player_hull=33, player_shield=0)
    other = merged(
        "get_ship", shot, content={"ship": STATUS["ship"]}, args={"ship_id": "other"}
    )
    assert value(other, "ship.hull") == STATUS["ship"]["hull"]
    assert believed(other, "ship.hull") is Confidence.INVALIDATED


def test_a_shield_that_grows_makes_its_snapshot_age():
    ship = {"ship": {**STATUS["ship"], "shield": 20, "max_shield": 50}}
    found = merged("get_ship", content=ship)
    moment = Moment(TICK, NOW, PACE)
    assert judge_confidence(found, moment) is Confidence.AGEING
    full = replace(found, content={"ship": {**ship["ship"], "shield": 50}})
    assert judge_confidence(full, moment) is Confidence.FRESH
