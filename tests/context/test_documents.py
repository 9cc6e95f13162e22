"""The JSON form: strict, with one line that names the key and the remedy."""

from __future__ import annotations

import json
from typing import Any

import pytest

from memory.context.assemble import assemble
from memory.context.documents import build_result_document, parse_request
from memory.context.json_fields import DocumentError
from memory.context.message_documents import parse_messages
from memory.context.types import DEFAULT_STRATEGY, Budget, Summary

USER = {"role": "user", "content": "go"}
CALL = {"id": "a", "type": "function", "function": {"name": "mine", "arguments": "{}"}}
CALLS = {"role": "assistant", "content": None, "tool_calls": [CALL]}
RESULT = {"role": "tool", "tool_call_id": "a", "content": "ore"}


def message(**more: Any) -> dict[str, Any]:
    return {"messages": [{**USER, **more}]}


def tools(**schema: Any) -> dict[str, Any]:
    return {"messages": [], "tools": [{"name": "spacemolt", "parameters": schema}]}


def test_only_messages_are_required() -> None:
    request = parse_request({"messages": [USER, CALLS, RESULT]})
    assert [row.id for row in request.messages] == [1, 2, 3]
    assert [row.origin for row in request.messages] == ["human", "agent", "tool"]
    assert request.strategy == DEFAULT_STRATEGY
    assert request.budget == Budget(128_000, 8_000)
    assert (request.dialect, request.counter, request.mysis) == (
        "openai",
        "estimate",
        "self",
    )
    assert request.messages[1].tool_calls[0].name == "mine"


def test_every_key_is_read() -> None:
    request = parse_request(
        {
            "system": "You are Ada.",
            "messages": [
                {
                    "id": 17,
                    "role": "user",
                    "origin": "broadcast",
                    "content": [
                        {"type": "text", "text": "a"},
                        {"type": "text", "text": "b"},
                    ],
                    "name": "captain",
                    "created_at": "2026-02-05T00:00:00Z",
                    "tick": 100,
                    "pinned": True,
                }
            ],
            "pins": ["never attack miners"],
            "summary": {"through_id": 12, "text": "t", "generation": 2},
            "tool_policy": {"get_ship": "query"},
            "strategy": "window",
            "options": {"window": 3},
            "budget": {"tokens": 9_000},
            "dialect": "anthropic",
            "counter": "chars",
            "mysis": "ada",
            "previous": [USER],
            "mission": "m",
            "turns_left": 0,
            "max_turns": 3,
            "data": {"d": 1},
            "tools": {"t": {}},
            "definitions": None,
            "signature": "s",
            "results": True,
            "usage": True,
        }
    )
    assert (request.signature, request.show_results, request.usage) == ("s", True, True)
    row = request.messages[0]
    assert (row.id, row.content, row.origin, row.pinned) == (
        17,
        "ab",
        "broadcast",
        True,
    )
    assert request.summary == Summary(12, "t", 2)
    assert request.budget == Budget(9_000, 8_000)
    assert request.options == {"window": 3}
    assert request.turns_left == 0


@pytest.mark.parametrize(
    ("document", "key"),
    [
        (None, "the document"),
        ({}, "messages"),
        ({"messages": ["go"]}, "messages[0]"),
        ({"messages": [], "mesages": []}, "mesages"),
        (message(colour="red"), "messages[0].colour"),
        (message(role="robot"), "messages[0].role"),
        (message(origin="me"), "messages[0].origin"),
        (message(content=7), "messages[0].content"),
        (message(content=[{"type": "image_url"}]), "messages[0].content[0]"),
        (message(id=-1), "messages[0].id"),
        (message(tool_calls=[CALL]), "messages[0].tool_calls"),
        (message(tool_call_id="a"), "messages[0].tool_call_id"),
        (message(function_call={"name": "x"}), "messages[0].function_call"),
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].tool_call_id"),
        (
            {"messages": [{**CALLS, "tool_calls": [{**CALL, "type": "custom"}]}]},
            "messages[0].tool_calls[0].type",
        ),
        (
            {
                "messages": [
                    {
                        **CALLS,
                        "tool_calls": [
                            {"id": "a", "function": {"name": "x", "arguments": {}}}
                        ],
                    }
                ]
            },
            "messages[0].tool_calls[0].function.arguments",
        ),
        ({"messages": [{**USER, "id": 1}, USER]}, "messages"),
        ({"messages": [{**USER, "id": 2}, {**USER, "id": 2}]}, "messages"),
        ({"messages": [], "system": 1}, "system"),
        ({"messages": [], "pins": [1]}, "pins"),
        ({"messages": [], "summary": {"text": "t"}}, "summary.through_id"),
        (
            {"messages": [], "summary": {"through_id": 1, "text": "t", "x": 1}},
            "summary.x",
        ),
        ({"messages": [], "tool_policy": {"mine": "fun"}}, "tool_policy.mine"),
        ({"messages": [], "strategy": "magic"}, "strategy"),
        ({"messages": [], "strategy": "window", "options": {"n": 1}}, "options.n"),
        (
            {"messages": [], "strategy": "window", "options": {"window": 0}},
            "options.window",
        ),
        (
            {"messages": [], "strategy": "snapshot-window", "options": {"prune": "x"}},
            "options.prune",
        ),
        ({"messages": [], "options": {"result_cap": -1}}, "options.result_cap"),
        ({"messages": [], "budget": {"tokens": -1}}, "budget.tokens"),
        ({"messages": [], "budget": {"limit": 9}}, "budget.limit"),
        ({"messages": [], "dialect": "gemini"}, "dialect"),
        ({"messages": [], "mysis": ""}, "mysis"),
        ({"messages": [], "previous": ["x"]}, "previous[0]"),
        ({"messages": [], "turns_left": -1}, "turns_left"),
        ({"messages": [], "state": []}, "state"),
        (tools(required=[{}]), "tools[0].parameters.required[0]"),
        (tools(properties={"a": 5}), "tools[0].parameters.properties.a"),
        (
            tools(properties={"action": {"enum": 5}}),
            "tools[0].parameters.properties.action.enum",
        ),
        ({"messages": [], "odd\ud800\nkey": 1}, "odd"),
        ({"messages": [], "": 1}, '"": unknown key'),
        ({"messages": [{"role": "user", "content": "", " ": 1}]}, 'messages[0]." "'),
    ],
)
def test_an_error_names_the_key(document: object, key: str) -> None:
    with pytest.raises(DocumentError) as caught:
        parse_request(document)
    text = str(caught.value)
    assert text.startswith(key)
    assert "\n" not in text
    text.encode("utf-8")
    assert len(text) > len(key) + 5, "it says what to do"


def test_the_state_is_rendered_by_whoever_knows_how() -> None:
    def renderer(state: Any) -> Any:
        if "username" not in state:
            raise ValueError("username: missing")
        return lambda max_bytes: f"state of {state['username']}"

    document = {"messages": [USER], "state": {"username": "Void"}}
    result = assemble(parse_request(document, renderer))
    assert result.messages[-1]["content"] == "go\n\nstate of Void"
    with pytest.raises(DocumentError, match=r"^state: username: missing"):
        parse_request({"messages": [USER], "state": {}}, renderer)
    with pytest.raises(DocumentError, match=r"^state"):
        parse_request(document)


def test_the_result_has_the_contracts_keys_in_both_dialects() -> None:
    keys = {
        "status",
        "reason",
        "messages",
        "sources",
        "synthetic",
        "ledger",
        "stats",
        "warnings",
        "summary_wanted",
    }
    document = {"system": "S", "messages": [USER]}
    result = build_result_document(assemble(parse_request(document)))
    assert set(result) == keys
    assert result["synthetic"] == [{"position": 0, "kind": "prompt"}]
    assert set(result["ledger"][0]) == {
        "id",
        "disposition",
        "by",
        "reason",
        "tokens_in",
        "tokens_out",
        "handle",
    }
    anthropic = parse_request({**document, "dialect": "anthropic"})
    assert set(build_result_document(assemble(anthropic))) == keys | {"system"}
    impossible = parse_request({**document, "budget": {"tokens": 9, "reserve": 9}})
    refused = build_result_document(assemble(impossible))
    assert set(refused) == keys | {"impossible"}
    assert refused["impossible"] == {"component": "system", "need": 1, "have": 0}
    json.dumps(refused)


def test_a_view_fed_back_is_known_as_made_up() -> None:
    """What this program put in is not taken for somebody's intent (A14)."""
    said = {"role": "assistant", "content": "hi"}
    first = assemble(parse_request({"messages": [said]}))
    again = parse_request({"messages": first.messages})
    assert [row.origin for row in again.messages] == ["filler", "agent", "nudge"]


def test_previous_may_be_a_view_or_a_result() -> None:
    first = build_result_document(assemble(parse_request({"messages": [USER]})))
    for previous in (first["messages"], first):
        document = {"messages": [USER, CALLS, RESULT], "previous": previous}
        result = assemble(parse_request(document))
        expected = len(json.dumps(USER, separators=(",", ":")))
        assert result.stats["prefix_shared_bytes"] == expected


def test_the_statistics_come_as_a_box_where_asked_for() -> None:
    """C6: `usage: true`."""
    document = {"messages": [USER], "strategy": "coalesced", "usage": True}
    result = build_result_document(assemble(parse_request(document)))
    assert result["usage"]["compression"] == result["stats"]["compression"]
    assert "|   Turns:        0 compressed\n" in result["usage"]["box"]
    plain = build_result_document(assemble(parse_request({"messages": [USER]})))
    assert "usage" not in plain


@pytest.mark.parametrize("via", ["", "game"])
def test_a_stored_call_says_by_way_of_which_tool_it_was_made(via: str) -> None:
    made = {"id": "1", "function": {"name": "mine", "arguments": "{}"}, "via": via}
    said = {"role": "assistant", "content": "", "tool_calls": [made]}
    assert parse_messages([said])[0].tool_calls[0].via == via
    with pytest.raises(DocumentError, match="via"):
        parse_messages([said | {"tool_calls": [made | {"via": "x"}]}])
