"""Superseding snapshots: W5 to W8, P1 to P3, P8, A1, A3, A6, A7, I11, I12, I19."""

from __future__ import annotations

import json

import pytest

from memory.context.types import Message
from tests.context.histories import Log
from tests.context.views import fate, line, sent, text_of, view

SEED_TOOLS = (
    "get_ship",
    "get_system",
    "get_poi",
    "get_nearby",
    "get_cargo",
    "zoea_swarm_status",
    "zoea_list_myses",
)
modes = pytest.mark.parametrize("prune", ["prune", "stub"])
LONG = '{"hull": 85, "shield": 40, "fuel": 60, "cargo": [], "modules": []}'


@pytest.mark.parametrize("name", SEED_TOOLS)
def test_w5_p1_the_seeds_tools_are_snapshots_by_default(name: str) -> None:
    log = Log()
    log.user("go")
    log.turn(name, "{}")
    log.turn(name, "{}")
    assert sent(view(log)) == [1, 4, 5]


def test_w5_the_set_is_configurable() -> None:
    log = Log()
    log.user("go")
    for _ in range(2):
        log.turn("get_ship", "{}")
        log.turn("scan", "{}")
    policy = {"get_ship": "query", "scan": "snapshot"}
    assert sent(view(log, tool_policy=policy)) == [1, 2, 3, 6, 7, 8, 9]


def test_w6_p2_the_newest_result_of_each_tool_stays() -> None:
    log = Log()
    log.user("go")
    for _ in range(3):
        log.turn("get_ship", "{}")
        log.turn("get_cargo", "{}")
    result = view(log)
    assert sent(result) == [1, 10, 11, 12, 13]
    assert result.stats["superseded"] == 4
    assert line(result, 3).by == 11
    assert line(result, 2).by == 11, "the emptied assistant message too"
    assert fate(result, 2) == "superseded"


def test_w7_p3_other_messages_stay_in_order() -> None:
    log = Log()
    log.user("go")
    log.turn("get_ship", "{}")
    log.turn("mine", "ore")
    log.says("Good.")
    log.turn("get_notifications", "one")
    log.turn("get_ship", "{}")
    log.turn("get_notifications", "two")
    log.turn("find_route", "far")
    assert sent(view(log)) == [1, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14]


def test_w8_a_tool_is_known_by_its_call_only() -> None:
    log = Log()
    log.user("go")
    log.turn("scan", '{"ship": {"hull": 1}}')
    log.result("nobody", '{"ship": {"hull": 2}}')
    log.turn("get_ship", '{"ship": {"hull": 3}}')
    result = view(log)
    assert sent(result) == [1, 2, 3, 5, 6]
    assert fate(result, 4) == "orphan"


def test_p8_fifteen_ships_leave_the_latest() -> None:
    log = Log()
    log.prompt("You are Ada.")
    log.user("go")
    log.says("Off I go.")
    for hull in range(15):
        log.turn("get_ship", json.dumps({"hull": hull}))
    result = view(log, window=40)
    assert sent(result) == [1, 2, 3, 32, 33]
    assert text_of(result, 33) == '{"hull": 14}'


def test_a1_a_drain_is_never_superseded() -> None:
    log = Log()
    log.user("go")
    log.turn("get_notifications", '{"notifications": [1]}')
    log.turn("get_notifications", '{"notifications": []}')
    for prune in ("prune", "stub"):
        assert sent(view(log, prune=prune)) == [1, 2, 3, 4, 5]


def test_a3_prune_takes_call_and_result_together() -> None:
    log = Log()
    log.user("go")
    log.calls("get_ship", "mine", content="Looking.")
    log.result("c2.0", "{}")
    log.result("c2.1", "ore")
    log.turn("get_ship", "{}")
    result = view(log)
    assert sent(result) == [1, 2, 4, 5, 6]
    assert (fate(result, 2), fate(result, 3)) == ("truncated", "superseded")
    calls = result.messages[1]["tool_calls"]
    assert [call["function"]["name"] for call in calls] == ["mine"]


def test_a3_text_stays_when_all_calls_go() -> None:
    log = Log()
    log.user("go")
    log.turn("get_ship", "{}", call={"content": "Looking at my ship."})
    log.turn("get_ship", "{}")
    result = view(log)
    assert sent(result) == [1, 2, 4, 5]
    assert fate(result, 2) == "truncated"
    assert "tool_calls" not in result.messages[1]


def test_a3_stub_keeps_both_with_one_line_and_a_handle() -> None:
    log = Log()
    log.user("go")
    log.turn("get_ship", LONG)
    log.turn("get_ship", LONG)
    result = view(log, prune="stub")
    assert sent(result) == [1, 2, 3, 4, 5]
    stub = text_of(result, 3)
    assert "\n" not in stub
    assert "ctx://self/3" in stub
    assert text_of(result, 5) == LONG
    assert (fate(result, 3), line(result, 3).by) == ("superseded", 5)
    assert result.stats["superseded"] == 1


def test_i14_a_stub_is_not_put_where_it_would_be_longer() -> None:
    log = Log()
    log.user("go")
    log.turn("get_ship", "{}")
    log.turn("get_ship", "{}")
    result = view(log, prune="stub")
    assert text_of(result, 3) == "{}"
    assert fate(result, 3) == "kept"


@pytest.mark.parametrize("mark", [{"signed": True}, {"signature": "c2ln"}])
def test_a3_i12_signed_reasoning_forces_a_stub(mark: dict[str, object]) -> None:
    log = Log()
    log.user("go")
    log.turn("get_ship", LONG, call={"content": "Hm.", "reasoning": "r", **mark})
    log.turn("get_ship", LONG)
    result = view(log)
    assert sent(result) == [1, 2, 3, 4, 5]
    assert fate(result, 2) == "kept"
    assert text_of(result, 3) != LONG


@modes
def test_a6_other_arguments_are_another_snapshot(prune: str) -> None:
    log = Log()
    log.user("go")
    for number, arguments in enumerate(
        ['{"id": "sol"}', '{"id": "alpha"}', '{ "id":"sol"}', "{}", "", "null"]
    ):
        log.calls((f"i{number}", "get_system", arguments))
        log.result(f"i{number}", LONG)
    result = view(log, prune=prune)
    gone = [entry.id for entry in result.ledger if entry.disposition == "superseded"]
    results = [number for number in gone if number % 2]
    assert results == [3, 9, 11]


@modes
@pytest.mark.parametrize(
    "bad",
    [
        {"content": "x" * 90, "is_error": True},
        {"content": json.dumps({"error": "not_docked: Not docked", "pad": "x" * 80})},
        {"content": json.dumps({"throttled": True, "retry_after": 9, "pad": "x" * 80})},
        {"content": "Error: rate_limited: Try again in a few seconds " + "x" * 80},
        {"content": "x" * 90, "pending": True},
    ],
)
def test_a7_an_error_supersedes_nothing(prune: str, bad: dict[str, object]) -> None:
    log = Log()
    log.user("go")
    log.turn("get_ship", LONG)
    content = str(bad["content"])
    log.turn("get_ship", **bad)  # type: ignore[arg-type]
    result = view(log, prune=prune)
    assert sent(result) == [1, 2, 3, 4, 5]
    assert text_of(result, 3) == LONG
    assert text_of(result, 5) == content


def test_a7_an_older_error_goes_when_a_good_result_comes() -> None:
    log = Log()
    log.user("go")
    log.turn("get_ship", "timeout", is_error=True)
    log.turn("get_ship", "")
    result = view(log)
    assert sent(result) == [1, 4, 5], "an empty result is good"
    assert line(result, 3).by == 5


def test_i11_the_siblings_of_a_pruned_call_keep_every_byte() -> None:
    log = Log()
    log.user("go")
    odd = '{"b": 1,   "a": "\\u00e9"}'
    log.calls(("x", "mine", odd), ("y", "get_ship", "{}"), ("z", "travel", odd))
    log.result("z", "  gone \n")
    log.result("y", "{}")
    log.result("x", "ore")
    log.turn("get_ship", "{}")
    result = view(log)
    calls = result.messages[1]["tool_calls"]
    whole = view(log, "full").messages[1]["tool_calls"]
    assert calls == [whole[0], whole[2]]
    assert calls[0]["function"]["arguments"] == odd
    assert [m["content"] for m in result.messages[2:4]] == ["  gone \n", "ore"]


def test_i30_the_order_of_parallel_results_does_not_matter() -> None:
    kept = []
    for order in ((0, 1), (1, 0)):
        log = Log()
        log.user("go")
        log.calls("get_ship", "get_ship")
        for index in order:
            log.result(f"c2.{index}", json.dumps({"from": index}))
        result = view(log)
        kept.append([m["content"] for m in result.messages if m["role"] == "tool"])
    assert kept == [['{"from": 1}']] * 2


def test_i19_every_old_snapshot_has_a_handle() -> None:
    log = Log()
    log.user("go")
    for _ in range(4):
        log.turn("get_ship", LONG)
    for prune in ("prune", "stub"):
        result = view(log, prune=prune)
        for message in log.done()[:-2]:
            check_handle(message, result.ledger[message.id - 1].handle, prune)


def check_handle(message: Message, handle: str | None, prune: str) -> None:
    if message.role == "tool" or (prune == "prune" and message.role == "assistant"):
        assert handle == f"ctx://self/{message.id}"
