"""What became of a call, in one line: goldens of recorded answers, and any answer."""

from __future__ import annotations

import unicodedata
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.game_calls import COMMANDS, GameCall, resolve_call
from memory.gamestate.event_lines import EventLine, describe_events
from memory.gamestate.extract import Result, read_result
from memory.gamestate.notices import Notice, read_notices
from memory.gamestate.outcome_lines import LONGEST, describe_outcome
from memory.gamestate.reactions import REACTIONS, Owner
from tests.gamestate.builders import GOLDEN, payload

NOW = datetime(2026, 7, 13, tzinfo=UTC)
ADA = Owner("Ada", frozenset({"p-1"}))
TEXTS = "_v2.mutation_result_texts"
LINES = (GOLDEN / "outcome_lines.md").read_text()


def told(command: str, answer: Any, /, **arguments: Any) -> str:
    call = GameCall(command, command, arguments)
    return describe_outcome(call, read_result(answer))


def heard(*notices: Notice, era: str = "") -> list[str]:
    return [line.text for line in describe_events(notices, ADA, era)]


def notice(kind: str, **data: Any) -> Notice:
    return Notice(id="1", kind=kind, data=data)


def recorded() -> list[str]:
    """Each recorded payload with its line."""
    found = []
    for path in sorted((GOLDEN / "payloads").glob("*.json")):
        name, value = path.stem, payload(path.stem)
        if name == "_errors_recorded":
            found += [(name, _refused(one)) for one in value]
        elif name == TEXTS:
            found += [(name, _texts(one)) for one in value["entries"]]
        elif name == "_mcp_error_results":
            content = value[0]["result"]["content"]
            found.append((name, told("mine", content)))
        else:
            found.append((name, _answered(name, value)))
    return [f"- {name}: {line}" for name, line in found]


def _refused(one: dict[str, Any]) -> str:
    given = one["args"] if isinstance(one["args"], dict) else {}
    return told(one["command"], f"Error: {one['code']}: {one['message']}", **given)


def _texts(one: dict[str, Any]) -> str:
    given = {"action": one["action"], **one["params_shape"]}
    blocked = one["outcome"] != "continue" and not one["result_text"].startswith("Sold")
    result = read_result(one["result_text"], is_error=blocked)
    return describe_outcome(resolve_call("spacemolt", given), result)


def _answered(name: str, value: Any) -> str:
    command = name.removeprefix("_v2.").removeprefix("mcp_").removeprefix("http_")
    command = command.partition(".")[0].removesuffix("_text").removesuffix("_result")
    if name.startswith("_v2.mcp"):
        value = value["result"]["content"]
    result = read_result(value)
    lines = describe_events(read_notices(result.content, NOW), ADA)
    words = [line.text for line in lines] if command == "get_notifications" else []
    return describe_outcome(GameCall(command, command), result, events=words)


def test_every_recorded_answer_has_its_line() -> None:
    assert "\n".join(recorded()) + "\n" == LINES


def test_what_the_specification_names() -> None:
    answer = {"item": "Iron Ore", "quantity_sold": 20, "total_earned": 100}
    assert told("sell", {"action": "sell", **answer}) == "sold 20 Iron Ore, +100 cr"


@pytest.mark.parametrize(
    ("command", "answer", "arguments", "line"),
    [
        ("sell", {"queued": True}, {"item_id": "iron_ore", "quantity": 2}, "sell 2 Iron Ore: queued"),
        ("sell", "Error: not_docked: Not docked", {"item_id": "iron_ore", "quantity": 2}, "could not sell 2 Iron Ore: Not docked"),
        ("sell", "Error: cargo_full: ", {}, "could not sell: cargo full"),
        ("travel", "Error: outcome_unknown: The reply to travel was lost.", {"target_poi": "sol_belt"}, "travel to Sol Belt: outcome unknown, the answer was lost"),
        ("mine", "Error: interrupted: outcome unknown.", {}, "mine: outcome unknown, the answer was lost"),
        ("refuel", {"fuel": 40, "source": "fuel_cells", "cells_used": 2}, {}, "refuelled 40 from 2 fuel cells"),
        ("find_route", {"found": False, "target_system": "sol"}, {"target_system": "sol"}, "found no route to Sol"),
        ("travel", {"result": "Arrived.", "structuredContent": {"action": "arrived", "poi": "Main Belt"}}, {}, "arrived at Main Belt"),
        ("set_colors", {"message": "Colors\nset."}, {}, "set colors: Colors set."),
        ("spacemolt_x/dance", "Hop.", {}, "spacemolt x dance: Hop."),
        ("view_market", {"items": []}, {"item_id": "iron_ore"}, "looked at market (Iron Ore)"),
        ("zoea_note", {"noted": "plan", "version": 2}, {}, "noted plan"),
        ("zoea_search_messages", {"count": 3}, {"query": "iron"}, "searched “iron”: 3 found"),
    ],
)  # fmt: skip
def test_lines(command: str, answer: Any, arguments: Any, line: str) -> None:
    assert told(command, answer, **arguments) == line


def test_of_a_hidden_call_nothing_is_said_but_how_it_ended() -> None:
    call = GameCall("login", "login", {"username": "ada", "password": "deadbeef"})
    answers = [{"message": "hello deadbeef"}, "Error: auth_failed: deadbeef"]
    lines = [describe_outcome(call, read_result(a), hidden=True) for a in answers]
    assert lines == ["log in: done", "log in: refused"]


def test_an_event_tells_what_was_queued() -> None:
    sale = {"item": "Iron Ore", "quantity_sold": 20, "total_earned": 100}
    result = notice("action_result", command="sell", tick=9, result=sale)
    assert list(describe_events([result], ADA)) == [
        EventLine("sold 20 Iron Ore, +100 cr", "sell")
    ]
    failed = notice("action_error", command="mine", code="x", message="Hold is full")
    assert heard(failed) == ["could not mine: Hold is full"]


def test_one_yield_is_told_once_and_two_are_told_twice() -> None:
    ore = {"resource_id": "iron_ore", "quantity": 5, "remaining": 95}
    both = (
        notice("mining_yield", **ore),
        notice("action_result", command="mine", result=ore),
    )
    assert heard(*both) == ["mined 5 Iron Ore"]
    more = notice("mining_yield", **{**ore, "remaining": 90})
    assert len(heard(*both, more)) == 2


def test_where_answers_tell_the_outcome_events_do_not_repeat_it() -> None:
    ore = notice("mining_yield", resource_id="iron_ore", quantity=5)
    left = notice("ok", type="auto_undock", message="Automatically undocked")
    failed = notice("action_error", command="mine", message="Hold is full")
    assert heard(ore, left, failed, era="C") == ["undocked by itself"]


def test_what_happens_to_the_account_itself_is_told() -> None:
    hit = {"attacker": "Drifter", "damage": 7}
    assert heard(notice("combat_update", target="ada", **hit)) == [
        "was hit by Drifter for 7"
    ]
    assert heard(notice("battle_damage", attacker_id="p-1", target_id="x", damage=2))
    assert heard(notice("combat_update", target="Bob", **hit)) == []
    shot = {"attacker_id": "p-1", "target_id": "x", "target_name": "Drifter"}
    assert heard(notice("battle_damage", **shot, total_damage=2)) == [
        "hit Drifter for 2"
    ]
    missed = notice("battle_damage", **shot, total_damage=0)
    assert heard(missed) == ["attacked Drifter: missed"]
    assert told("attack", {"target_name": "Drifter", "hit": False}) == (
        "attacked Drifter: missed"
    )
    gone_by = notice("combat_update", target="ada", attacker="Drifter", damage=0)
    assert heard(gone_by) == ["was attacked by Drifter: missed"]
    assert heard(notice("poi_arrival", username="Ada")) == []
    died = notice("player_died", killer_name="Drifter", clone_cost=100)
    assert heard(died) == ["died, killed by Drifter, -100 cr"]


def test_many_events_make_one_bounded_line() -> None:
    words = [f"mined {n} Iron Ore" for n in range(9)]
    call = GameCall("get_notifications", "get_notifications")
    line = describe_outcome(call, read_result({}), events=words)
    assert line.endswith("mined 5 Iron Ore; and 3 more")
    assert describe_outcome(call, read_result({})) == "no news"


keys = st.sampled_from(
    [
        "item",
        "quantity",
        "quantity_sold",
        "total_earned",
        "cost",
        "poi",
        "fuel",
        "jumps",
        "result",
        "message",
        "count",
        "level_up",
        "leveled_up_skills",
        "queued",
        "error",
        "structuredContent",
        "type",
        "command",
    ]
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=300),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=5),
    max_leaves=12,
)  # fmt: skip
commands = st.sampled_from(sorted(COMMANDS)) | st.text(max_size=80)


def check_line(line: str) -> None:
    assert 0 < len(line) <= LONGEST
    assert not {unicodedata.category(sign) for sign in line} & {"Cc", "Cs", "Zl", "Zp"}


@given(commands, st.dictionaries(keys | st.just("item_id"), values, max_size=4), values)
def test_any_answer_has_one_bounded_line(
    command: str, arguments: dict[str, Any], answer: Any
) -> None:
    call = GameCall(command, command, arguments)
    check_line(describe_outcome(call, read_result(answer)))
    check_line(describe_outcome(call, Result(content=None, is_unknown=True)))
    check_line(describe_outcome(call, read_result(answer), hidden=True))


kinds = st.sampled_from([*REACTIONS, "ok", "action_result", "mining_yield", "action_error"])  # fmt: skip


@given(st.lists(st.tuples(kinds, st.dictionaries(keys, values, max_size=5)), max_size=6))  # fmt: skip
def test_any_events_have_bounded_lines(found: list[tuple[str, dict[str, Any]]]) -> None:
    notices = [Notice(id=str(n), kind=k, data=d) for n, (k, d) in enumerate(found)]
    for text in heard(*notices):
        check_line(text)
