"""Snapshots and events for the tests of merging."""

from __future__ import annotations

import copy
import json
from datetime import timedelta

from hypothesis import strategies as st

from memory.gamestate.confidence import judge_confidence
from memory.gamestate.merge import arrange_events, learn_account, write_events
from memory.gamestate.notices import Notice
from memory.gamestate.types import Moment
from memory.gamestate.values import find_value
from tests.gamestate.builders import NOW, PACE, TICK, snapshot

ME = "Ada Nova"
STATUS = {
    "player": {
        "id": "p1", "username": ME, "credits": 500, "current_system": "sol",
        "current_poi": "sol_belt", "skills": {"mining_basic": 1},
        "stats": {"ore_mined": 10},
    },
    "ship": {
        "hull": 90, "max_hull": 100, "shield": 20, "fuel": 40, "cargo_used": 12,
        "cargo_capacity": 50, "cargo": [{"item_id": "ore_iron", "quantity": 12}],
    },
}  # fmt: skip
SHIP = {"ship": copy.deepcopy(STATUS["ship"]), "cargo_used": 12, "cargo_max": 50}
CARGO = {
    "cargo": [{"item_id": "ore_iron", "name": "Iron Ore", "quantity": 12, "size": 1}],
    "used": 12, "capacity": 50, "available": 38,
}  # fmt: skip
POI = {
    "poi": {"id": "sol_belt"},
    "resources": [{"resource_id": "ore_iron", "remaining": 900}],
}
NEARBY = {
    "nearby": [{"username": "Ben"}], "count": 1, "pirates": [], "pirate_count": 0,
    "poi_id": "sol_belt",
}  # fmt: skip
SKILLS = {"player_skills": [{"skill_id": "mining_basic", "level": 1}]}
CONTENTS = {
    "get_status": STATUS, "get_ship": SHIP, "get_cargo": CARGO, "get_poi": POI,
    "get_nearby": NEARBY, "get_skills": SKILLS, "view_market": {"items": []},
    "get_wrecks": {"wrecks": []}, "get_trades": {"incoming": []},
}  # fmt: skip


def notice(kind, tick=106, **data):
    """An event that names its tick."""
    data = {"tick": tick, **data}
    identity = json.dumps([kind, data], sort_keys=True)
    return Notice(identity, kind, data, tick=tick, exact=True)


def merge_events(row, told, account, tick=None):
    """A snapshot after events in any order, as the product writes them."""
    return write_events(row, arrange_events(told), account, tick)


def merged(tool, *notices, content=None, tick=TICK, **kwargs):
    """One snapshot of tick 105 after these events."""
    rows = [snapshot(name, each) for name, each in CONTENTS.items()]
    own = snapshot(tool, CONTENTS[tool] if content is None else content, **kwargs)
    return merge_events(own, notices, learn_account(ME, [*rows, own]), tick)


def value(found, path):
    return find_value(found.current, path)


def believed(found, path):
    return judge_confidence(found, Moment(TICK, NOW, PACE), path)


YIELD = {"resource_id": "ore_iron", "quantity": 5, "remaining": 895}

DATA = {
    "mining_yield": st.fixed_dictionaries({
        "resource_id": st.sampled_from(["ore_iron", "gem"]),
        "quantity": st.integers(0, 9), "remaining": st.integers(-1, 900)}),
    "pirate_combat": st.fixed_dictionaries({
        "player_hull": st.integers(0, 100), "player_shield": st.integers(0, 50)}),
    "combat_update": st.fixed_dictionaries({
        "target": st.sampled_from([ME, "Ben"]), "shield_hit": st.integers(0, 60),
        "hull_hit": st.integers(0, 60)}),
    "pirate_destroyed": st.fixed_dictionaries({
        "pirate_id": st.sampled_from("xy"), "credits_reward": st.integers(0, 99)}),
    "pirate_spawn": st.fixed_dictionaries({"pirate_id": st.sampled_from("xy")}),
    "trade_complete": st.fixed_dictionaries({"your_credits": st.integers(0, 999)}),
    "poi_arrival": st.fixed_dictionaries({
        "username": st.sampled_from(["Ben", "Cleo"]), "poi_id": st.just("sol_belt")}),
    "poi_departure": st.fixed_dictionaries({
        "username": st.sampled_from(["Ben", "Cleo"]), "poi_id": st.just("sol_belt")}),
    "ok": st.sampled_from([
        {"action": "arrived", "poi_id": "mars"}, {"action": "undock"},
        {"action": "dock", "base_id": "b"}, {"action": "refuel", "fuel_now": 9},
        {"action": "sell", "item_id": "ore_iron", "quantity_sold": 3, "total_earned": 6},
    ]),
    "player_died": st.just({}),
    "skill_level_up": st.fixed_dictionaries({
        "skill_id": st.just("mining_basic"), "new_level": st.integers(1, 9)}),
}  # fmt: skip


@st.composite
def notices(draw):
    """Events around the tick of the snapshot, told with and without their tick."""
    found = []
    for number in range(draw(st.integers(0, 6))):
        kind = draw(st.sampled_from(sorted(DATA)))
        tick = draw(st.integers(103, 108))
        exact = draw(st.booleans())
        told = draw(st.sampled_from([None, -25.0, -20.5, -15.0, -5.0]))
        at = None if told is None else NOW + timedelta(seconds=told)
        found.append(
            Notice(str(number), kind, draw(DATA[kind]), tick=tick, exact=exact, at=at)
        )
    return found
