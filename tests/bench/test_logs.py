"""The made-up logs are what they say, or every figure of them is worth nothing."""

from __future__ import annotations

import json

from bench.logs import Player, make_log, message_document
from bench.payloads import TOOLS, Answers
from memory.context.assemble import assemble
from memory.context.documents import parse_request
from memory.context.types import AssemblyRequest, Budget, Message


def test_a_log_has_its_length_and_rising_ids():
    for count in (1, 20, 333):
        log = make_log(count)
        assert [message.id for message in log] == list(range(1, count + 1))


def test_the_same_seed_plays_the_same_log_and_another_another():
    assert make_log(200) == make_log(200)
    assert make_log(200) != make_log(200, seed=1)
    assert make_log(400)[:190] == make_log(200)[:190]


def test_a_log_needs_no_repair():
    log = make_log(600)
    view = assemble(AssemblyRequest(log, strategy="full", budget=Budget(9_999_999)))
    assert view.status == "unchanged"
    shown = [one if isinstance(one, list) else [one] for one in view.sources]
    ids = [number for each in shown for number in each if number is not None]
    assert ids == [message.id for message in log]
    assert {each.kind for each in view.synthetic} == {"filler"}


def test_a_log_looks_like_a_game():
    log = make_log(2_000)
    results = [message.content for message in log if message.role == "tool"]
    sizes = sorted(map(len, results))
    assert sizes[0] >= 150 and 4_000 <= sizes[-1] <= 6_500
    assert {len(message.tool_calls) for message in log} == {0, 1, 2, 3}
    assert {message.origin for message in log} == {
        *("nudge", "human", "broadcast", "agent", "tool")
    }
    assert len(set(results)) == len(results)


def test_every_answer_is_json_with_its_tick():
    answers = Answers(1)
    for tool in TOOLS:
        value = json.loads(answers.answer(tool, 7))
        assert 7 in (value.get("tick"), value.get("current_tick"))


def test_a_document_says_what_the_message_says():
    log: list[Message] = [
        Player().begin_turn(),
        *Player(newest=1).call_tools("sell", "mine"),
    ]
    document = {"messages": [message_document(message) for message in log]}
    assert list(parse_request(document).messages) == log
