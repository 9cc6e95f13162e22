"""Repair: A17, A31, I6 to I8, I10, and the logs on which other programs fail."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

import pytest

from memory.context import registry
from memory.context.call_ids import make_call_id
from memory.context.result_types import Assembly
from memory.context.types import NO_RESPONSE_TEXT, Budget, Summary
from tests.context.histories import Log
from tests.context.views import fate, kinds, line, sent, text_of, view

#: All there are.
any_strategy = pytest.mark.parametrize("strategy", registry.list_names())
#: All that send stored messages one by one.
every_strategy = pytest.mark.parametrize(
    "strategy", [name for name in registry.list_names() if name != "coalesced"]
)


@every_strategy
def test_a17_a_missing_result_is_filled_where_it_is_missing(strategy: str) -> None:
    """mistral-vibe fills by position: a second result for the answered call."""
    log = Log()
    log.user("go")
    log.calls(("a", "mine", "{}"), ("b", "scan", "{}"))
    log.result("b", "seen")
    result = view(log, strategy)
    a, b = (call["id"] for call in result.messages[1]["tool_calls"])
    assert [(m["tool_call_id"], m["content"]) for m in result.messages[2:]] == [
        (b, "seen"),
        (a, NO_RESPONSE_TEXT),
    ]
    assert kinds(result) == ["filler"]
    assert result.stats["fillers"] == 1


@every_strategy
def test_i10_a_broadcast_between_parallel_results_moves_behind_them(
    strategy: str,
) -> None:
    """LangChain sends an orphan result for this."""
    log = Log()
    log.user("go")
    log.calls(("a", "mine", "{}"), ("b", "scan", "{}"))
    log.result("a", "ore")
    log.user("Enemy spotted!", "broadcast")
    log.result("b", "seen")
    log.says("On it.")
    result = view(log, strategy)
    assert sent(result) == [1, 2, 3, 5, 4, 6]
    assert (fate(result, 4), line(result, 4).by) == ("displaced", 2)
    assert result.stats["displaced"] == 1


@every_strategy
def test_a_result_before_its_call_is_no_result_of_it(strategy: str) -> None:
    log = Log()
    log.user("go")
    log.result("a", "early")
    log.calls(("a", "mine", "{}"))
    result = view(log, strategy)
    assert fate(result, 2) == "orphan"
    assert result.messages[-1]["content"] == NO_RESPONSE_TEXT


@every_strategy
def test_i7_the_same_id_twice_is_two_calls(strategy: str) -> None:
    """pydantic-ai-harness blanks the newest result, OpenHands removes it."""
    log = Log()
    log.user("go")
    for text in ("first", "second"):
        log.calls(("call_1", "mine", "{}"))
        log.result("call_1", text)
    result = view(log, strategy)
    tools = [m for m in result.messages if m["role"] == "tool"]
    assert [tool["content"] for tool in tools] == ["first", "second"]
    calls = [m["tool_calls"][0]["id"] for m in result.messages if m.get("tool_calls")]
    assert [tool["tool_call_id"] for tool in tools] == calls
    assert len(set(calls)) == 2


@every_strategy
def test_i7_equal_ids_within_one_message_are_answered_in_order(strategy: str) -> None:
    log = Log()
    log.user("go")
    log.calls(("x", "mine", '{"n": 1}'), ("x", "mine", '{"n": 2}'))
    log.result("x", "one")
    log.result("x", "two")
    result = view(log, strategy)
    calls = {
        c["id"]: c["function"]["arguments"] for c in result.messages[1]["tool_calls"]
    }
    answers = {m["tool_call_id"]: m["content"] for m in result.messages[2:]}
    assert {calls[key]: answers[key] for key in calls} == {
        '{"n": 1}': "one",
        '{"n": 2}': "two",
    }


def list_ids(result: Assembly) -> list[str]:
    return [m["tool_call_id"] for m in result.messages if m["role"] == "tool"]


@pytest.mark.parametrize("dialect", ["openai", "anthropic"])
def test_i7_each_id_is_nine_letters_and_digits_and_the_same_in_every_view(
    dialect: Any,
) -> None:
    """Mistral's API takes no others, OpenAI's none of more than 40 characters."""
    log = Log()
    log.user("go")
    for call_id in ("x", "x", "x_2", "", "", "y" * 64, "abcdefgh1", "abcdefgh1"):
        log.calls((call_id, "mine", "{}"))
        log.result(call_id, "ore")
    ids = list_ids(view(log, "full"))
    assert len(set(ids)) == 8
    assert all(len(each) == 9 and each.isascii() and each.isalnum() for each in ids)
    assert list_ids(view(log, "window", window=6)) == ids[-3:]
    log.turn("mine", "more")
    assert list_ids(view(log, "full"))[:-1] == ids
    found = json.dumps(view(log, "full", dialect=dialect).messages)
    assert all(found.count(f'"{each}"') == 2 for each in ids)


def test_i3_an_id_that_was_made_stays_in_whatever_row_it_comes_back() -> None:
    made = make_call_id("call_1", 4, 0)
    assert make_call_id(made, 17, 3) == made
    assert make_call_id("abcdefgh1", 4, 0) == made
    assert make_call_id("call_1", 4, 1) != made


@any_strategy
@pytest.mark.parametrize("tokens", [10**6, 120])
def test_a31_the_interim_result_is_superseded_whatever_becomes_of_its_call(
    strategy: str, tokens: int
) -> None:
    """Also where its unit is told in a summary, coalesced or dropped."""
    log = Log()
    log.calls(("a", "travel", "{}"))
    log.result("a", "queued", pending=True)
    log.result("a", "arrived")
    for _ in range(3):
        log.user("Go on, please.")
        log.says("I go on.")
    known = Summary(3, "Told.", 1) if strategy == "summary" else None
    budget = Budget(tokens, 0)
    result = view(log, strategy, budget=budget, counter="chars", summary=known)
    assert (fate(result, 2), line(result, 2).by) == ("superseded", 3)
    assert line(result, 2).handle == "ctx://self/2"


@every_strategy
def test_a31_the_final_result_replaces_the_interim_one(strategy: str) -> None:
    log = Log()
    log.user("go")
    log.calls(("a", "travel", "{}"))
    log.result("a", "queued", pending=True)
    log.user("hurry", "broadcast")
    log.result("a", "arrived")
    result = view(log, strategy)
    assert sent(result) == [1, 2, 5, 4]
    assert (fate(result, 3), line(result, 3).by) == ("superseded", 5)


@every_strategy
def test_a31_a_late_final_result_finds_its_interim_one(strategy: str) -> None:
    """ADK folds the call away and cannot go on."""
    log = Log()
    log.user("go")
    log.calls(("a", "travel", "{}"))
    log.result("a", "queued", pending=True)
    log.calls(("a", "mine", "{}"))
    log.result("a", "ore")
    log.says("Waiting.")
    log.result("a", "arrived")
    result = view(log, strategy)
    assert text_of(result, 7) == "arrived"
    assert sent(result) == [1, 2, 7, 4, 5, 6]


@every_strategy
def test_a31_a_second_result_stays_in_its_own_block(strategy: str) -> None:
    """Ids such as call_0 repeat in every turn; an old unanswered one gets nothing."""
    log = Log()
    log.user("go")
    log.calls(("a", "travel", "{}"))
    log.calls(("a", "mine", "{}"))
    log.result("a", "one ore")
    log.result("a", "two ore")
    result = view(log, strategy)
    assert [m["content"] for m in result.messages if m["role"] == "tool"] == [
        NO_RESPONSE_TEXT,
        "two ore",
    ]
    assert line(result, 4).by == 5


@every_strategy
def test_a31_an_interim_result_without_a_final_one_is_sent(strategy: str) -> None:
    log = Log()
    log.user("go")
    log.calls(("a", "get_ship", "{}"))
    log.result("a", "queued", pending=True)
    log.turn("get_ship", "{}")
    result = view(log, strategy)
    assert sent(result)[:3] == [1, 2, 3]
    assert fate(result, 3) == "kept"


@every_strategy
def test_a31_a_stored_filler_gives_way_to_a_real_result(strategy: str) -> None:
    log = Log()
    log.user("go")
    log.calls(("a", "travel", "{}"))
    log.result("a", "arrived")
    log.result("a", NO_RESPONSE_TEXT, origin="filler")
    result = view(log, strategy)
    assert sent(result) == [1, 2, 3]
    assert (fate(result, 4), line(result, 4).by) == ("superseded", 3)


@every_strategy
@pytest.mark.parametrize(
    ("arguments", "sent_as", "disposition"),
    [
        ("", "{}", "kept"),
        ("null", "{}", "kept"),
        ("not json", "{}", "truncated"),
        ("[1]", "{}", "truncated"),
        ('{"n": NaN}', "{}", "truncated"),
        ("[" * 100_000, "{}", "truncated"),
        ('{"n": 1.50}', '{"n": 1.50}', "kept"),
        ('{"x": "\\ud800!"}', '{"x":"\ufffd!"}', "kept"),
        ('{"x": "\\ud83d\\ude80"}', '{"x": "\\ud83d\\ude80"}', "kept"),
    ],
)
def test_i8_arguments_are_an_object(
    strategy: str, arguments: str, sent_as: str, disposition: str
) -> None:
    log = Log()
    log.user("go")
    log.calls(("a", "mine", arguments))
    log.result("a", "ore")
    result = view(log, strategy)
    call = result.messages[1]["tool_calls"][0]
    assert call["function"]["arguments"] == sent_as
    assert fate(result, 2) == disposition


@any_strategy
def test_i8_what_is_empty_is_not_sent(strategy: str) -> None:
    log = Log()
    log.user("\x00")
    log.says("")
    log.user("go")
    result = view(log, strategy)
    assert [message["content"] for message in result.messages] == ["go"]
    assert [fate(result, number) for number in (1, 2)] == ["empty", "empty"]


@every_strategy
def test_an_empty_assistant_message_does_not_end_a_tool_block(strategy: str) -> None:
    log = Log()
    log.user("go")
    log.calls(("a", "mine", "{}"))
    log.says("")
    log.result("a", "ore")
    result = view(log, strategy)
    assert sent(result) == [1, 2, 4]
    assert fate(result, 4) == "kept"


@any_strategy
@pytest.mark.parametrize("dialect", ["openai", "anthropic"])
def test_nothing_to_send(strategy: str, dialect: Any) -> None:
    log = Log()
    log.prompt("You are Ada.")
    log.result("nobody", "stray")
    result = view(log, strategy, dialect=dialect)
    assert (result.status, result.messages) == ("nothing_to_send", [])
    assert [entry.disposition for entry in result.ledger] == ["kept", "orphan"]
    nudged = view(log, strategy, nudge="Begin.", dialect=dialect)
    assert nudged.messages[-1]["role"] == "user"
    assert "Begin." in json.dumps(nudged.messages)


@every_strategy
def test_one_unanswered_call_freezes_nothing(strategy: str) -> None:
    """OpenHands cuts nothing any more after one unanswered call."""
    log = Log()
    log.user("go")
    log.calls(("lost", "get_ship", "{}"))
    for _ in range(12):
        log.turn("get_ship", "{}")
    takes = {each.name for each in fields(registry.find_strategy(strategy).params)}
    result = view(log, strategy, **({"window": 30} if "window" in takes else {}))
    if strategy == "snapshot-window":
        assert sent(result) == [1, 2, 25, 26]
