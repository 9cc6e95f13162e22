"""Events merged into snapshots: the table of API.md section 5, once and in any order."""

from __future__ import annotations

import copy
import json
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.gamestate.confidence import Confidence, Moment, confidence
from memory.gamestate.merge import When, known, merge, relation
from memory.gamestate.notices import Notice, read_notices
from memory.gamestate.paths import lookup
from memory.gamestate.render import render
from memory.gamestate.types import Snapshot, Stale
from tests.gamestate.builders import NOW, PACE, TICK, payload, snapshot, state

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


def merged(tool, *notices, content=None, tick=TICK, **kwargs):
    """One snapshot of tick 105 after these events."""
    rows = [snapshot(name, each) for name, each in CONTENTS.items()]
    own = snapshot(tool, CONTENTS[tool] if content is None else content, **kwargs)
    return merge(own, notices, known(ME, [*rows, own]), tick)


def value(found, path):
    return lookup(found.current, path)


def believed(found, path):
    return confidence(found, Moment(TICK, NOW, PACE), path)


# -- row by row ----------------------------------------------------------------

YIELD = {"resource_id": "ore_iron", "quantity": 5, "remaining": 895}


@pytest.mark.parametrize(
    ("tool", "kind", "data", "path", "expected"),
    [
        ("get_cargo", "mining_yield", YIELD, "used", 17),
        ("get_cargo", "mining_yield", YIELD, "available", 33),
        ("get_ship", "mining_yield", YIELD, "ship.cargo_used", 17),
        ("get_status", "mining_yield", YIELD, "ship.cargo_used", 17),
        ("get_status", "mining_yield", YIELD, "player.stats.ore_mined", 15),
        ("get_status", "ok", {"action": "arrived", "poi": "Mars", "poi_id": "mars"},
         "player.current_poi", "mars"),
        ("get_status", "ok", {"action": "jumped", "system_id": "sirius", "poi_id": "a"},
         "player.current_system", "sirius"),
        ("get_status", "ok", {"action": "dock", "base_id": "b"},
         "player.docked_at_base", "b"),
        ("get_status", "action_result", {"command": "travel", "result":
         {"action": "arrived", "poi_id": "mars"}}, "player.current_poi", "mars"),
        ("get_status", "action_result", {"command": "sell", "result": {"action": "sell",
         "item_id": "ore_iron", "quantity_sold": 6, "total_earned": 90}},
         "player.credits", 590),
        ("get_cargo", "action_result", {"command": "sell", "result": {"action": "sell",
         "item_id": "ore_iron", "quantity_sold": 12, "total_earned": 90}}, "cargo", []),
        ("get_status", "ok", {"action": "buy", "item_id": "ore_iron", "quantity": 2,
         "total_cost": 10, "delivered_to_cargo": 2}, "player.credits", 490),
        ("get_status", "ok", {"action": "refuel", "source": "station", "fuel": 60,
         "cost": 60, "fuel_now": 100}, "ship.fuel", 100),
        ("get_ship", "ok", {"action": "repair", "cost": 20, "hull": 100}, "ship.hull", 100),
        ("get_status", "skill_level_up", {"skill_id": "mining_basic", "new_level": 2},
         "player.skills.mining_basic", 2),
        ("get_status", "skill_level_up", {"skill_id": "new", "new_level": 1},
         "player.skills.new", 1),
        ("get_ship", "combat_update", {"target": ME, "shield_hit": 25, "hull_hit": 4},
         "ship.shield", 0),
        ("get_ship", "combat_update", {"target": ME, "shield_hit": 25, "hull_hit": 4},
         "ship.hull", 86),
        ("get_status", "battle_damage", {"target_id": "p1", "shield_hit": 5,
         "hull_hit": 0}, "ship.shield", 15),
        ("get_ship", "combat_update", {"target": "Ben", "shield_hit": 25, "hull_hit": 4},
         "ship.hull", 90),
        ("get_ship", "pirate_combat", {"player_hull": 33, "player_shield": 0},
         "ship.hull", 33),
        ("get_ship", "pirate_combat", {"your_hull": 33, "your_shield": 7},
         "ship.shield", 7),
        ("get_status", "pirate_destroyed", {"pirate_id": "x", "credits_reward": 40},
         "player.credits", 540),
        ("get_status", "pirate_destroyed", {"pirate_id": "x", "credits_earned": 40},
         "player.credits", 540),
        ("get_nearby", "pirate_warning", {"pirate_id": "x", "pirate_name": "Rex"},
         "pirate_count", 1),
        ("get_nearby", "poi_arrival", {"username": "Cleo", "poi_id": "sol_belt"},
         "count", 2),
        ("get_nearby", "poi_arrival", {"username": "Cleo", "poi_id": "mars"}, "count", 1),
        ("get_nearby", "poi_departure", {"username": "Ben", "poi_id": "sol_belt"},
         "nearby", []),
        ("get_status", "trade_complete", {"your_credits": 77}, "player.credits", 77),
        ("get_poi", "mining_yield", YIELD, "resources",
         [{"resource_id": "ore_iron", "remaining": 895}]),
    ],
)  # fmt: skip
def test_what_an_event_says_is_written(tool, kind, data, path, expected):
    found = merged(tool, notice(kind, **data))
    assert value(found, path) == expected
    assert found.content == CONTENTS[tool], "the recorded answer stays"


@pytest.mark.parametrize(
    ("kind", "data", "stale"),
    [
        ("player_died", {"respawn_base": "b"}, set(CONTENTS)),
        ("market_update", {"base_id": "b", "items": []}, {"view_market"}),
        ("trade_offer_received", {"trade_id": "t"}, {"get_trades"}),
        ("trade_complete", {"your_credits": 1}, {"get_trades", "get_cargo"}),
        ("pirate_destroyed", {"pirate_id": "x", "credits_reward": 1}, {"get_wrecks"}),
        ("battle_joined", {}, {"get_nearby"}),
        ("ok", {"action": "undock"}, {"get_nearby", "view_market"}),
        ("ok", {"type": "auto_undock", "message": "m"}, {"get_nearby", "view_market"}),
        ("ok", {"action": "arrived", "poi_id": "mars"},
         {"get_nearby", "view_market", "get_wrecks", "get_skills", "get_poi"}),
        ("chat_message", {"content": "hi"}, set()),
        ("gameplay_tip", {}, set()),
        ("scan_result", {"success": True}, set()),
        ("action_error", {"command": "mine", "code": "no_resources"}, set()),
        ("some_new_type", {"credits": 5}, set()),
        ("police_spawn", {"num_drones": 2}, set()),
    ],
)  # fmt: skip
def test_what_cannot_be_merged_is_stale(kind, data, stale):
    whole = {
        t
        for t in CONTENTS
        if (s := merged(t, notice(kind, **data)).stale) and not s.fields
    }
    assert whole == stale


def test_police_fire_makes_the_ship_doubtful():
    found = merged("get_ship", notice("police_combat", damage=5))
    assert believed(found, "ship.hull") is Confidence.INVALIDATED
    assert believed(found, "ship.fuel") is Confidence.FRESH
    other = merged("get_ship", notice("police_combat", damage=5, target_id="p2"))
    assert other.stale is None


def test_a_departure_drops_the_dock():
    docked = copy.deepcopy(STATUS)
    docked["player"]["docked_at_base"] = "b"
    found = merged("get_status", notice("ok", action="undock"), content=docked)
    assert value(found, "player.docked_at_base") is None
    assert believed(found, "player.docked_at_base") is Confidence.MERGED


def test_a_text_cannot_be_merged_into():
    text = payload("_v2.mcp_get_status_text")["result"]["content"][0]["text"]
    hurt = notice("pirate_combat", player_hull=3, player_shield=0)
    assert merged("get_status", hurt, content=text).stale == Stale("pirate_combat", 106)
    talk = notice("chat_message", content="hi")
    assert merged("get_status", talk, content=text).stale is None


@pytest.mark.parametrize("amount", ["500", None, {"n": 1}, True])
def test_a_number_of_another_form_is_doubted_not_guessed(amount):
    odd = copy.deepcopy(STATUS)
    odd["player"]["credits"] = amount
    won = notice("pirate_destroyed", pirate_id="x", credits_reward=40)
    found = merged("get_status", won, content=odd)
    assert value(found, "player.credits") == amount
    if amount is not None:
        assert believed(found, "player.credits") is Confidence.INVALIDATED


def test_an_item_of_unknown_size_leaves_the_space_in_doubt():
    gem = notice("mining_yield", resource_id="gem", quantity=2, remaining=1)
    found = merged("get_status", gem)
    assert {"item_id": "gem", "quantity": 2} in value(found, "ship.cargo")
    assert believed(found, "ship.cargo") is Confidence.MERGED
    assert believed(found, "ship.cargo_used") is Confidence.INVALIDATED


# -- which events count --------------------------------------------------------


def test_a_count_applies_only_to_what_is_older():
    for tick in (90, 104, 105):
        found = merged("get_cargo", notice("mining_yield", tick, **YIELD))
        assert found.shown is None
        assert found.field_ticks == {}
    late = merged("get_cargo", notice("mining_yield", 107, **YIELD))
    assert late.field_ticks == {
        "cargo": 107,
        "used": 107,
        "available": 107,
    } | dict.fromkeys(late.field_ticks, 107)


def test_an_event_told_while_a_snapshot_was_taken_is_a_doubt():
    """Its tick is one later, yet the answer may hold it: neither is sure."""
    asked = NOW - timedelta(seconds=3)
    event = Notice("a", "mining_yield", YIELD, tick=106, exact=True,
                   at=NOW - timedelta(seconds=1))  # fmt: skip
    row = Snapshot("get_cargo", {}, CARGO, 105, NOW, asked_at=asked)
    found = merge(row, [event], known(ME, [row]), 107)
    assert value(found, "used") == 12
    assert believed(found, "used") is Confidence.INVALIDATED
    before = Notice(
        "b", "mining_yield", YIELD, tick=106, at=asked - timedelta(seconds=1)
    )
    assert merge(row, [before], known(ME, [row]), 107).stale is None


def test_an_outcome_answers_the_mark_of_its_action():
    """Mined twice and told twice: what is shown is right, and no longer in doubt."""
    early, later = NOW - timedelta(seconds=15), NOW - timedelta(seconds=5)
    whole = [Stale("mine", 107, (), early), Stale("mine", 108, (), later)]
    first = Notice("1", "mining_yield", YIELD, tick=106, at=NOW - timedelta(seconds=9))
    second = Notice("2", "mining_yield", YIELD, tick=107, at=NOW - timedelta(seconds=1))
    one = merged("get_cargo", first, marks=tuple(whole), stale=whole[-1])
    assert (value(one, "used"), one.stale) == (17, whole[-1])
    assert believed(one, "used") is Confidence.INVALIDATED
    both = merged("get_cargo", second, first, marks=tuple(whole), stale=whole[-1])
    assert (value(both, "used"), both.stale) == (22, None)
    assert believed(both, "used") is Confidence.MERGED


def test_a_yield_that_is_told_twice_counts_once():
    """Era C tells it by itself and as the action's result, under two ids."""
    told = [notice("mining_yield", tick, **YIELD) for tick in (106, 107)] + [
        notice("action_result", tick, command="mine", result=YIELD)
        for tick in (106, 107)
    ]
    assert value(merged("get_cargo", *told), "used") == 22
    assert value(merged("get_cargo", *told[::-1]), "used") == 22
    assert value(merged("get_cargo", *told[1:]), "used") == 22
    assert value(merged("get_cargo", *told[:2]), "used") == 22


def test_a_count_never_lifts_the_doubt_of_another_action():
    bought = Stale("buy", 103, ("ship.cargo", "ship.cargo_used", "player.credits"))
    found = merged("get_status", notice("mining_yield", **YIELD), marks=(bought,))
    assert believed(found, "ship.cargo_used") is Confidence.INVALIDATED
    assert believed(found, "player.credits") is Confidence.INVALIDATED
    paid = merged(
        "get_status", notice("trade_complete", your_credits=9), marks=(bought,)
    )
    assert believed(paid, "player.credits") is Confidence.MERGED


def test_the_block_says_where_a_value_comes_from():
    text = render(state(merged("get_cargo", notice("mining_yield", **YIELD)))).text
    assert "- Cargo: 17/50 (from an event at tick 106)\n  - Iron Ore x17\n" in text


def test_a_count_is_no_younger_than_what_it_began_with():
    """The others at a place are known no better because one more came."""
    came = notice("poi_arrival", username="Cleo", poi_id="sol_belt")
    found = merged("get_nearby", came, age=9)
    assert found.counted == ("nearby", "count")
    assert believed(found, "nearby") is Confidence.STALE
    told = merged("get_ship", notice("pirate_combat", player_hull=3), age=60)
    assert believed(told, "ship.hull") is Confidence.MERGED
    assert believed(told, "ship.fuel") is Confidence.STALE


# -- properties ----------------------------------------------------------------

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


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(sorted(CONTENTS)), notices(), st.randoms(use_true_random=False))
def test_order_and_repetition_make_no_difference(tool, events, chance):
    mark = Stale("mine", 107, ("ship.cargo",), NOW - timedelta(seconds=16))
    row = snapshot(tool, CONTENTS[tool], marks=(mark,), stale=mark)
    around = known(ME, [snapshot(name, each) for name, each in CONTENTS.items()])
    whole = merge(row, events, around, TICK)
    shuffled = [*events, *events[:2]]
    chance.shuffle(shuffled)
    assert merge(row, shuffled, around, TICK) == whole
    cut = chance.randint(0, len(events))
    step = merge(row, shuffled[:cut], around, TICK)
    assert merge(step, shuffled, around, TICK) == whole
    assert row.content == CONTENTS[tool]


@settings(max_examples=100, deadline=None)
@given(notices())
def test_what_is_merged_is_never_called_fresh(events):
    around = known(ME, [snapshot(name, each) for name, each in CONTENTS.items()])
    for tool, content in CONTENTS.items():
        found = merge(snapshot(tool, content), events, around, TICK)
        for path in found.field_ticks:
            assert found.field_ticks[path] >= 105
            assert believed(found, path) in (Confidence.MERGED, Confidence.AGEING)
        if found.shown is not None and found.shown != content:
            assert confidence(found, Moment(TICK, NOW, PACE)) is not Confidence.FRESH


# -- reading the answer --------------------------------------------------------


def test_the_recorded_answers_are_read():
    with_events = payload("get_notifications.with_events")
    found = read_notices(with_events, NOW, PACE, 500)
    assert [each.kind for each in found] == ["poi_arrival", "ok"]
    assert found[0].id == with_events["notifications"][0]["id"]
    assert found[0].category == "system"
    for name in ("get_notifications", "get_notifications.pre_v0_44_4_empty"):
        assert read_notices(payload(name), NOW) == ()
    [flown] = read_notices(payload("travel.feb19_ws_action_result"), NOW)
    assert (flown.kind, flown.tick, flown.exact) == ("action_result", 109050, True)


def test_an_event_without_a_tick_gets_it_by_the_answers_clock():
    sent = NOW + timedelta(hours=3)
    answer = {
        "current_tick": 200,
        "timestamp": int(sent.timestamp()),
        "notifications": [
            {"id": "a", "msg_type": "mining_yield", "data": {},
             "timestamp": (sent - timedelta(seconds=25)).isoformat()},
            {"id": "a", "msg_type": "ok", "data": {}},
            {"msg_type": "ok", "data": {"action": "dock"}},
        ],
    }  # fmt: skip
    first, other = read_notices(answer, NOW, PACE)
    assert (first.tick, first.exact, first.kind) == (198, False, "mining_yield")
    assert first.at == NOW - timedelta(seconds=25)
    assert first.slack > 0
    assert other.id.startswith("sha:")
    assert read_notices(answer, NOW, PACE)[1].id == other.id


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(["notifications", "data", "id", "type", "msg_type", "timestamp",
                         "tick", "current_tick", "result", "action", "ship", "player"])
        | st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(junk, junk, st.sampled_from(sorted(CONTENTS)))
def test_nothing_a_server_sends_raises(answer, content, tool):
    items = [
        {"id": "a", "msg_type": k, "data": answer} for k in (*DATA, "action_result")
    ]
    whole = {
        "notifications": [*items, answer],
        "current_tick": 106,
        "timestamp": answer,
    }
    for found in (read_notices(answer, NOW), read_notices(whole, NOW)):
        for body in (content, CONTENTS[tool]):
            row = snapshot(tool, {} if body is None else body)
            render(state(merge(row, found, known(ME, [row]), TICK)))


@pytest.mark.parametrize(
    ("apart", "waited", "slack"),
    [(0.0, 0.0, 0.0), (0.9, 0.0, 0.0), (3.0, 2.5, 0.0), (-1.0, 0.5, 2.5),
     (2.0, 0.0, 3.0), (9.0, 0.0, 2.5), (9.0, 4.0, 5.0)],
)  # fmt: skip
def test_moments_are_as_sure_as_two_clocks_agree(apart, waited, slack):
    sent = NOW - timedelta(seconds=apart)
    answer = {"timestamp": int(sent.timestamp()), "notifications": [
        {"msg_type": "ok", "data": {}, "timestamp": sent.isoformat()}]}  # fmt: skip
    asked = NOW - timedelta(seconds=waited)
    [found] = read_notices(answer, NOW, PACE, asked_at=asked)
    assert found.slack == pytest.approx(slack, abs=0.2)


@pytest.mark.parametrize(
    ("ahead", "seconds", "expected"),
    [(5, -30, When.UNSURE), (-5, 30, When.UNSURE), (5, 30, When.AFTER),
     (-5, -30, When.BEFORE), (5, None, When.AFTER)],
)  # fmt: skip
def test_a_tick_by_the_clock_never_stands_against_the_clock(ahead, seconds, expected):
    own = snapshot("get_cargo", CARGO)
    at = None if seconds is None else own.captured_at + timedelta(seconds=seconds)
    event = Notice("x", "ok", tick=own.tick + ahead, exact=True, at=at)
    assert relation(own, event) is expected
    sure = When.AFTER if ahead > 0 else When.BEFORE
    assert relation(own, event, own_tick=True) is sure
