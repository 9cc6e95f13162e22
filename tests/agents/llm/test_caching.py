"""Anthropic's prompt cache: where it may end, and that it is read again."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic_ai.messages import ToolCallPart

from agents.llm.complete import clean_tool_name
from agents.llm.wires.anthropic import mark_cache, messages_of
from bench.providers.anthropic import MOST_MARKS, FakeAnthropic, check_messages
from memory.context.assemble import assemble
from memory.context.types import AssemblyRequest, Budget, Message, ToolCall
from tests.agents.llm.test_anthropic import ask
from tests.context.histories import Log, histories

Json = dict[str, Any]
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


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
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
        sent = mark_cache(messages_of(view.messages))
        # Tools and system text have a mark each.
        assert len(check_messages(sent)) <= MOST_MARKS - 2
