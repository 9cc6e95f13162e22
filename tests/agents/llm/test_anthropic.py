"""Calls of the Anthropic dialect over real HTTP."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai.messages import ToolCallPart

from agents.llm.complete import complete
from agents.llm.endpoints import ask_window
from agents.llm.model_types import Completion, CompletionRequest, ModelError, Usage
from agents.llm.wires.anthropic import mark_cache, unseal_reasoning
from agents.llm.wires.model_request import clean_tool_name
from memory.context.assemble import assemble
from memory.context.types import AssemblyRequest, Budget, Message, ToolCall
from tests.agents.llm.anthropic import make_endpoint
from tests.agents.llm.test_complete import TRAVEL
from tests.context.histories import Log, histories
from tests.fakes.anthropic import (
    KEY,
    MOST_MARKS,
    WINDOW,
    FakeAnthropic,
    check_messages,
    message,
)

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
    return await complete(
        CompletionRequest(make_endpoint(fake), **{**values, **changes})
    )


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
    assert (anthropic.keys, anthropic.refused) == ([KEY], [])
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


# --- Anthropic's prompt cache: where it may end, and that it is read again.

STATE = {"type": "text", "text": "## Current Game State"}


def text(words: str) -> Json:
    return {"type": "text", "text": words}


def user(*blocks: Json) -> Json:
    return {"role": "user", "content": list(blocks)}


def calling(*ids: str) -> Json:
    uses = [{"type": "tool_use", "id": i, "name": "mine", "input": {}} for i in ids]
    return {"role": "assistant", "content": uses}


def results(*ids: str) -> list[Json]:
    return [
        {"type": "tool_result", "tool_use_id": i, "content": f"ore {i}"} for i in ids
    ]


def marks(messages: list[Json]) -> list[tuple[int, int]]:
    """Where the marks stand: (message, block)."""
    return [
        (index, place)
        for index, said in enumerate(messages)
        for place, block in enumerate(said["content"])
        if "cache_control" in block
    ]


def prefixes(messages: list[Json]) -> set[str]:
    """What each mark puts into the cache: all that is before it, without marks."""
    plain = copy.deepcopy(messages)
    for said in plain:
        for block in said["content"]:
            block.pop("cache_control", None)
    found = set()
    for index, place in marks(messages):
        end = {**plain[index], "content": plain[index]["content"][: place + 1]}
        found.add(json.dumps([*plain[:index], end]))
    return found


async def test_tools_system_and_two_stable_ends(anthropic: FakeAnthropic) -> None:
    talk = [
        user(text("Mine.")),
        calling("a", "b"),
        user(*results("a", "b")),
        calling("c"),
        user(*results("c"), STATE),
    ]
    before = copy.deepcopy(talk)
    await ask(anthropic, messages=talk)
    sent = anthropic.requests[-1]
    assert sent["tools"][-1]["cache_control"]["type"] == "ephemeral"
    assert sent["system"][-1]["cache_control"]["type"] == "ephemeral"
    assert marks(sent["messages"]) == [(2, 1), (4, 0)]
    assert talk == before


def test_what_changes_with_every_call_is_never_marked() -> None:
    assert marks(mark_cache([user(text("Mine."), STATE)])) == []
    asked = [user(text("Mine.")), calling("a"), user(*results("a"), STATE)]
    assert marks(mark_cache(asked)) == [(0, 0), (2, 0)]
    told = [*asked[:2], user(*results("a")), calling("b"), user(*results("b"))]
    spoken = [*told, {"role": "assistant", "content": [text("Done.")]}, user(STATE)]
    assert marks(mark_cache(spoken)) == [(4, 0), (5, 0)]


def test_an_answer_of_nothing_but_thoughts_cannot_be_marked() -> None:
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
    talk = [user(text("a")), {"role": "assistant", "content": [thought]}, user(STATE)]
    assert marks(mark_cache(talk)) == [(0, 0)]
    assert marks(mark_cache([{"role": "user", "content": "plain"}])) == []


@given(sizes=st.lists(st.integers(1, 40), min_size=2, max_size=5))
def test_every_call_reads_what_an_earlier_one_put_there(sizes: list[int]) -> None:
    """One more answer with all its results, however many: a mark of before is met."""
    talk: list[Json] = [user(text("Mine."))]
    known: set[str] = set()
    for turn, size in enumerate(sizes):
        ids = [f"t{turn}_{index}" for index in range(size)]
        talk = [*talk, calling(*ids), user(*results(*ids))]
        shown = [*talk[:-1], user(*talk[-1]["content"], STATE)]
        put = prefixes(mark_cache(shown))
        assert not known or put & known
        known |= put


def nameable(log: Log) -> tuple[Message, ...]:
    """The log with names as an answer is recorded with (`replies.name_of`)."""
    return tuple(
        replace(said, tool_calls=tuple(_nameable(call) for call in said.tool_calls))
        for said in log.done()
    )


def _nameable(call: ToolCall) -> ToolCall:
    return replace(call, name=clean_tool_name(ToolCallPart(call.name)))


@given(log=histories(), strategy=st.sampled_from(["full", "window", "mask", "tiered"]))
def test_any_view_is_taken_by_the_strict_server(log: Log, strategy: str) -> None:
    """Roles, pairs, ids, texts, seals and marks of views of whatever was stored."""
    view = assemble(
        AssemblyRequest(
            nameable(log),
            system="Be Ada.",
            strategy=strategy,
            dialect="anthropic",
            budget=Budget(1_000_000, 0),
        )
    )
    if view.messages:
        sent = mark_cache(unseal_reasoning(view.messages))
        # Tools and system text have a mark each.
        assert len(check_messages(sent)) <= MOST_MARKS - 2


@pytest.mark.django_db
async def test_the_key_goes_out_as_documented_to_an_address_of_ones_own(
    anthropic: FakeAnthropic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the SDK would find another credential in the environment."""
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "somebody-else")
    found = make_endpoint(anthropic)
    await ask(anthropic)
    assert await ask_window(found) == (WINDOW, "max_input_tokens")
    assert anthropic.refused == []
