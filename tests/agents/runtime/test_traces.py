"""A flown turn as traces tell it, at a real collector."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.test import Client
from opentelemetry.propagate import inject

from agents import actions, tasks
from agents.alerts.outbox import fill_outbox
from agents.events import Kind, append
from agents.models import AlertTarget, ModelCall, Mysis, Turn
from agents.telemetry import open_span
from sandbox.game.testing import SandboxServer
from tests.agents.alerts.receiver import Receiver, make_target
from tests.agents.runtime.conftest import GOOD, fly
from tests.agents.runtime.logs import log
from tests.fakes.openai import FakeProvider, Reply, call, completion
from tests.otlp import Collector, collector, read_attributes
from tests.zoea.documents import ROOT, read_section, read_table

__all__ = ["collector"]
DOCUMENT, HEADING = "docs/operations.md", "## Traces"
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


# --- What the table in the documents says


def read_spans() -> dict[str, set[str]]:
    """The attributes that it names, by the first word of the span."""
    spans: dict[str, set[str]] = {}
    for name, _, tells in read_table(DOCUMENT, HEADING):
        names: list[str] = []
        for written in re.findall(r"`([^`]+)`", tells):
            begin = names[-1].rpartition(".")[0] if written.startswith(".") else ""
            names.append(begin + written)
        spans[name.strip("`").partition(" ")[0]] = set(names)
    return spans


def list_job_attributes() -> Iterator[str]:
    """Those that the tasks of the queue open their spans with."""
    for node in ast.walk(ast.parse((ROOT / "agents" / "tasks.py").read_text())):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "open_span":
            written = node.args[1]
            assert isinstance(written, ast.Dict)
            yield from (
                str(key.value) for key in written.keys if isinstance(key, ast.Constant)
            )


def owe_alert(url: str) -> AlertTarget:
    """A target that is to be told of an alert."""
    target = make_target(url)
    append(Kind.ALERT_RAISED, mysis_id=1, data={"rule": "hull", "text": "Hull 20."})
    fill_outbox()
    return target


async def test_the_documents_name_every_attribute_of_a_turn_and_of_a_request(
    collector: Collector,
    ada: Mysis,
    worn: Mysis,
    provider: FakeProvider,
    sandbox: SandboxServer,
) -> None:
    await fly(ada)
    provider.answers += [
        Reply(body=completion(GOOD)),
        Reply(body=completion("Aye.")),
    ]
    await fly(worn)
    await sync_to_async(Client().get)("/sign-in/")
    await wait_for(collector, "invoke_agent Eve")
    await wait_for(collector, "GET /sign-in/")
    chats = [read_attributes(span) for span in collector.named("chat gpt-5-nano")]
    assert [told["zoea.call.summary"] for told in chats] == [True, False]
    seen: dict[str, set[str]] = {}
    for span in collector.spans:
        word = span.name.partition(" ")[0].replace("GET", "<method>")
        seen.setdefault(word, set()).update(read_attributes(span))
    documented = read_spans()
    del documented["job"]
    # A first turn looks around, and none of its answers names a tick.
    documented["execute_tool"].remove("zoea.tick")
    assert seen == documented
    for resource in collector.resources:
        assert f"`{resource['zoea.process']}`" in read_section(DOCUMENT, HEADING)


async def test_the_documents_name_every_attribute_of_a_job(
    collector: Collector, transactional_db: None
) -> None:
    assert set(list_job_attributes()) == read_spans()["job"]
    with Receiver() as receiver:
        target = await sync_to_async(owe_alert)(receiver.url)
        await tasks.deliver_alerts(target_id=target.pk)
    await tasks.run_rewind(rewind_id=7)
    [sent] = await wait_for(collector, "job deliver_alerts")
    [rewind] = await wait_for(collector, "job run_rewind")
    assert read_attributes(sent) == {"zoea.target.id": target.pk}
    assert read_attributes(rewind) == {"zoea.rewind.id": 7}
