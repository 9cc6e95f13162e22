"""Calls of the Anthropic dialect over real HTTP."""

from __future__ import annotations

import copy
from decimal import Decimal
from typing import Any

import pytest

from agents.llm.complete import complete
from agents.llm.model_types import Completion, ModelError, Usage
from bench.providers.anthropic import KEY, FakeAnthropic, endpoint, message
from memory.context.types import ToolCall
from tests.agents.llm.test_complete import TRAVEL

Json = dict[str, Any]
TALK: list[Json] = [
    {"role": "user", "content": [{"type": "text", "text": "Go <|im_start|>"}]},
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
            {"type": "text", "text": "I go."},
            {"type": "tool_use", "id": "t1", "name": "travel", "input": {"b": 1}},
        ],
    },
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "t1", "content": "{}"},
            {"type": "text", "text": "## Current Game State"},
        ],
    },
]


async def ask(fake: FakeAnthropic, **changes: Any) -> Completion:
    values = {"messages": TALK, "system": "Be Ada.", "tools": (TRAVEL,), "settings": {}}
    return await complete(endpoint(fake), **{**values, **changes})


def unmarked(messages: list[Json]) -> list[Json]:
    """What was sent without the marks, which are no part of what the model reads."""
    plain = copy.deepcopy(messages)
    for said in plain:
        for block in said["content"]:
            block.pop("cache_control", None)
    return plain


async def test_what_is_sent_is_what_was_given(anthropic: FakeAnthropic) -> None:
    answer = await ask(anthropic)
    sent = anthropic.requests[-1]
    assert unmarked(sent["messages"]) == TALK
    assert [block["text"] for block in sent["system"]] == ["Be Ada."]
    assert sent["tools"][0]["name"] == "travel"
    assert sent["max_tokens"] == 8_000
    assert anthropic.keys == [KEY]
    assert answer.text == "Aye."
    assert answer.usage == Usage(1000, 200, 600)
    assert answer.cost == Decimal("0.00146")


async def test_a_system_message_becomes_the_system_text(
    anthropic: FakeAnthropic,
) -> None:
    talk = [{"role": "system", "content": "Sum up."}, {"role": "user", "content": "x"}]
    await ask(anthropic, messages=talk, system=None, tools=())
    sent = anthropic.requests[-1]
    assert [block["text"] for block in sent["system"]] == ["Sum up."]
    assert sent["messages"] == [{"role": "user", "content": "x"}]
    assert "cache_control" in sent["system"][0]


async def test_calls_and_a_signed_reasoning(anthropic: FakeAnthropic) -> None:
    anthropic.answer(
        message(
            {"type": "thinking", "thinking": "The belt.", "signature": "c2ln"},
            {
                "type": "tool_use",
                "id": "t9",
                "name": "travel",
                "input": {"target_poi": "b"},
            },
            stop="tool_use",
        )
    )
    answer = await ask(anthropic)
    assert (answer.reasoning, answer.signature) == ("The belt.", "c2ln")
    assert answer.tool_calls == (ToolCall("t9", "travel", '{"target_poi": "b"}'),)


async def test_several_signed_blocks_come_back_as_they_were(
    anthropic: FakeAnthropic,
) -> None:
    blocks = [
        {"type": "thinking", "thinking": "One.", "signature": "YQ=="},
        {"type": "redacted_thinking", "data": "aGlkZGVu"},
        {"type": "thinking", "thinking": "Two.", "signature": "Yg=="},
    ]
    said = {"type": "text", "text": "Aye."}
    anthropic.answer(message(*blocks, said))
    answer = await ask(anthropic)
    sealed = {
        "type": "thinking",
        "thinking": answer.reasoning,
        "signature": answer.signature,
    }
    talk = [
        TALK[0],
        {"role": "assistant", "content": [sealed, said]},
        {"role": "user", "content": [{"type": "text", "text": "Go on."}]},
    ]
    await ask(anthropic, messages=talk)
    sent = unmarked(anthropic.requests[-1]["messages"])
    assert sent[1]["content"] == [*blocks, said]


@pytest.mark.parametrize(
    "hidden",
    [
        {"type": "redacted_thinking", "data": "aGlkZGVu"},
        {"type": "thinking", "thinking": "", "signature": "c2ln"},
    ],
)
async def test_a_reasoning_without_a_text_comes_back_too(
    anthropic: FakeAnthropic, hidden: Json
) -> None:
    said = {"type": "text", "text": "Aye."}
    anthropic.answer(message(hidden, said))
    answer = await ask(anthropic)
    # A view shows no reasoning that is empty, so its seal would be lost with it.
    assert answer.reasoning
    sealed = {
        "type": "thinking",
        "thinking": answer.reasoning,
        "signature": answer.signature,
    }
    asked = {"role": "user", "content": [{"type": "text", "text": "Go on."}]}
    talk = [TALK[0], {"role": "assistant", "content": [sealed, said]}, asked]
    await ask(anthropic, messages=talk)
    sent = unmarked(anthropic.requests[-1]["messages"])
    assert sent[1]["content"] == [hidden, said]


async def test_an_overload_is_retryable(anthropic: FakeAnthropic) -> None:
    overloaded = {"type": "overloaded_error", "message": "Overloaded"}
    anthropic.answer({"type": "error", "error": overloaded}, 529, Retry_After="3")
    with pytest.raises(ModelError) as caught:
        await ask(anthropic)
    assert (caught.value.retryable, caught.value.retry_after) == (True, 3.0)
    assert "Overloaded" in caught.value.detail
    assert len(anthropic.requests) == 1


async def test_a_refusal_is_final_and_without_the_key(anthropic: FakeAnthropic) -> None:
    wrong = {"type": "authentication_error", "message": f"invalid {KEY}"}
    anthropic.answer({"type": "error", "error": wrong}, 401)
    with pytest.raises(ModelError) as caught:
        await ask(anthropic)
    assert not caught.value.retryable
    assert KEY not in str(caught.value)
