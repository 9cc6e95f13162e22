"""A flown turn as traces tell it, at a real collector."""

from __future__ import annotations

from typing import Any

import pytest
from asgiref.sync import sync_to_async
from opentelemetry.propagate import inject

from agents import actions
from agents.models import ModelCall, Mysis, Turn
from agents.telemetry import open_span
from bench.providers.openai import FakeProvider, Reply, call, completion
from sandbox.game.testing import SandboxServer
from tests.agents.runtime.conftest import fly
from tests.agents.runtime.logs import log
from tests.otlp import Collector, collector, read_attributes

__all__ = ["collector"]
ERROR = 2


async def wait_for(collector: Collector, name: str, **more: Any) -> Any:
    return await sync_to_async(collector.wait_for, thread_sensitive=False)(name, **more)


async def test_a_turn_of_the_pilot_is_one_trace(
    collector: Collector, ada: Mysis, sandbox: SandboxServer
) -> None:
    await fly(ada)
    [root] = await wait_for(collector, "invoke_agent Ada")
    turn = await Turn.objects.aget(mysis=ada)
    told = read_attributes(root)
    assert told["gen_ai.operation.name"] == "invoke_agent"
    assert (told["gen_ai.agent.id"], told["gen_ai.agent.name"]) == (str(ada.pk), "Ada")
    assert (told["zoea.turn.id"], told["zoea.turn.number"]) == (turn.pk, 1)
    assert (told["zoea.turn.trigger"], told["zoea.turn.outcome"]) == ("nudge", "done")
    assert not root.parent_span_id
    children = [span for span in collector.spans if span is not root]
    assert {span.trace_id for span in collector.spans} == {root.trace_id}
    assert {span.parent_span_id for span in children} == {root.span_id}
    assert len(collector.named("assemble_context")) == turn.iterations
    assert collector.paths[0] == "/v1/traces"
    assert collector.resources[0]["service.name"] == "fleet-of-ann"
    assert collector.resources[0]["zoea.process"] == "worker"


async def test_calls_of_models_and_tools_have_the_names_of_the_conventions(
    collector: Collector, ada: Mysis, sandbox: SandboxServer
) -> None:
    await fly(ada)
    await wait_for(collector, "invoke_agent Ada")
    calls = [call async for call in ModelCall.objects.order_by("pk")]
    chats = [read_attributes(span) for span in collector.named("chat pilot")]
    for row, told in zip(calls, chats, strict=True):
        assert told["gen_ai.operation.name"] == "chat"
        assert told["gen_ai.provider.name"] == "pilot"
        assert told["gen_ai.request.model"] == "pilot"
        assert told["gen_ai.usage.input_tokens"] == row.input_tokens
        assert told["gen_ai.usage.output_tokens"] == row.output_tokens
        assert told["gen_ai.usage.cache_read.input_tokens"] == row.cached_tokens
        assert told["gen_ai.response.finish_reasons"] == [row.finish_reason]
        assert told["zoea.call.id"] == row.pk
    results = [row for row in await sync_to_async(log)(ada) if row.role == "tool"]
    tools = [read_attributes(span) for span in collector.starting("execute_tool ")]
    assert results
    assert [
        (told["gen_ai.tool.name"], told["gen_ai.tool.call.id"]) for told in tools
    ] == [(row.tool_name, row.tool_call_id) for row in results]


async def test_what_was_said_is_in_no_span(
    collector: Collector,
    eve: Mysis,
    provider: FakeProvider,
    sandbox: SandboxServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true")
    order = "Sell the grey ore."
    await sync_to_async(actions.send_message)(mysis=eve, text=order, by="t")
    calls = [call("zoea_note", '{"name": "plan", "text": "Hide the gold."}', "c1")]
    provider.answers += [
        Reply(body=completion(None, tool_calls=calls)),
        Reply(body=completion("The ore is sold.")),
    ]
    await fly(eve)
    await wait_for(collector, "invoke_agent Eve")
    [tool] = collector.starting("execute_tool ")
    assert tool.name == "execute_tool zoea_note"
    assert read_attributes(tool)["gen_ai.tool.call.id"] == "c1"
    told = read_attributes(collector.named("chat gpt-5-nano")[0])
    assert told["gen_ai.response.model"]
    assert told["zoea.model"] == "strict:gpt-5-nano"
    for words in ("grey ore", "Hide the gold", "is sold", sandbox.url, "Bearer"):
        assert words.encode() not in collector.raw


async def test_a_refusal_is_told_by_its_status(
    collector: Collector, eve: Mysis, provider: FakeProvider, sandbox: SandboxServer
) -> None:
    provider.answers += [Reply(status=429, body={"error": {"message": "a slow word"}})]
    await fly(eve)
    [root] = await wait_for(collector, "invoke_agent Eve")
    [chat] = collector.named("chat gpt-5-nano")
    assert (chat.status.code, read_attributes(chat)["error.type"]) == (ERROR, "429")
    told = read_attributes(root)
    assert (told["zoea.turn.outcome"], told["error.type"]) == ("errored", "provider")
    assert root.status.code == ERROR
    assert b"a slow word" not in collector.raw


async def test_the_game_is_told_of_no_trace(
    collector: Collector, ada: Mysis, sandbox: SandboxServer
) -> None:
    """The MCP client would put the ids of our spans into every request."""
    carrier: dict[str, str] = {}
    with open_span("any", {}):
        inject(carrier)
    assert carrier == {}
