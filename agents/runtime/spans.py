"""What a turn tells traces, in the names of OpenTelemetry's conventions for gen_ai.

Names, numbers and states alone; what was said stands on the page of the turn, whose
number every trace has.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry.trace import Span, SpanKind, get_current_span

from agents.llm.model_types import Completion, CompletionRequest
from agents.models import Turn
from agents.runtime.finish import Ending
from agents.runtime.turn_rows import TurnHandle
from agents.telemetry import Attributes, log_place, mark_failed, open_span
from agents.tools.request import Outcome
from agents.usage import CallPlace
from memory.context.result_types import Assembly

# A model may call a tool by any name.
LONGEST_NAME = 100


@contextmanager
def trace_turn(handle: TurnHandle) -> Iterator[None]:
    """The root of a turn's trace, and the place of its log lines."""
    attributes: Attributes = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.id": str(handle.mysis_id),
        "gen_ai.agent.name": handle.name,
        "gen_ai.conversation.id": str(handle.mysis_id),
        "gen_ai.request.model": handle.model,
        "zoea.turn.id": handle.turn_id,
        "zoea.turn.number": handle.number,
        "zoea.turn.trigger": handle.trigger,
    }
    with (
        log_place(mysis=handle.mysis_id, turn=handle.turn_id),
        open_span(f"invoke_agent {handle.name}", attributes),
    ):
        yield


def tell_ending(ending: Ending) -> None:
    """Say how the turn ended, in the span that is open: its root."""
    span = get_current_span()
    span.set_attribute("zoea.turn.outcome", str(ending.outcome))
    if ending.outcome == Turn.Outcome.ERRORED:
        mark_failed(span, ending.code or "internal")


def tell_assembly(span: Span, assembly: Assembly) -> None:
    """Say how large the view is, by our own count, and whether a fallback made it."""
    by_category = assembly.stats["tokens_by_category"]
    span.set_attribute("zoea.context.status", assembly.status)
    span.set_attribute("zoea.context.messages", len(assembly.messages))
    span.set_attribute("zoea.context.tokens", sum(by_category.values()))


@contextmanager
def trace_model_call(request: CompletionRequest, place: CallPlace) -> Iterator[Span]:
    """Around one request to a model, for a turn or for a summary."""
    endpoint = request.endpoint
    attributes: Attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": endpoint.kind,
        "gen_ai.request.model": endpoint.model,
        "zoea.model": endpoint.name,
        "zoea.call.id": place.call_id,
        "zoea.call.summary": place.summary,
    }
    with open_span(f"chat {endpoint.model}", attributes, SpanKind.CLIENT) as span:
        yield span


def tell_answer(span: Span, answer: Completion) -> None:
    """Say which model answered, what that used, and why it stopped."""
    span.set_attribute("gen_ai.usage.input_tokens", answer.usage.input)
    span.set_attribute("gen_ai.usage.output_tokens", answer.usage.output)
    span.set_attribute("gen_ai.usage.cache_read.input_tokens", answer.usage.cached)
    span.set_attribute("zoea.cost", float(answer.cost))
    if answer.model:
        span.set_attribute("gen_ai.response.model", answer.model)
    if answer.finish_reason:
        span.set_attribute("gen_ai.response.finish_reasons", [answer.finish_reason])


@contextmanager
def trace_tool(name: str, call_id: str, memory_id: int) -> Iterator[Span]:
    """Around one tool call of a model; ``call_id`` is the one that the model gave it."""
    name = name[:LONGEST_NAME]
    attributes: Attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": name,
        "gen_ai.tool.call.id": call_id,
        "gen_ai.tool.type": "function",
        "zoea.memory.id": memory_id,
    }
    with open_span(f"execute_tool {name}", attributes) as span:
        yield span


def tell_result(span: Span, result: Outcome) -> None:
    """Say whether the call was refused, or whether nobody knows."""
    if result.is_error:
        mark_failed(span, "unknown_outcome" if result.unknown else "tool_error")
    if result.tick is not None:
        span.set_attribute("zoea.tick", result.tick)
