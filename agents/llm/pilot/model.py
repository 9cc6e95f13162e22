"""The pilot as a pydantic-ai model."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    ModelResponsePart,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.usage import RequestUsage

from agents.llm.pilot import answers, summary
from agents.llm.pilot.plan import decide
from agents.llm.pilot.situation import Decision
from agents.llm.pilot.transcript import (
    Called,
    Entry,
    Heard,
    Said,
    Transcript,
    split_state,
)
from memory.context.tokens import estimate

_NAME = re.compile(r"\bYou are ([^,.;:\n]{1,80})|\b[Yy]our name is ([^,.;:\n]{1,80})")


@cache
def pilot_model() -> FunctionModel:
    """The one pilot; it has no state."""
    return FunctionModel(answer, model_name="pilot")


async def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Decide on the next message from what a model would be sent."""
    transcript = transcript_of(messages)
    tools = {tool.name: _arguments(tool) for tool in info.function_tools}
    if summary.is_asked_for(transcript):
        decision = Decision(text=summary.write(transcript))
    else:
        decision = decide(name_in(transcript.system), transcript, tools)
    parts = list(_parts(decision, len(messages)))
    return ModelResponse(
        parts,
        usage=_usage(messages, info.function_tools, parts),
        finish_reason="tool_call" if decision.calls else "stop",
    )


def _arguments(tool: ToolDefinition) -> frozenset[str]:
    return frozenset(tool.parameters_json_schema.get("properties") or ())


def _parts(decision: Decision, position: int) -> Iterator[ModelResponsePart]:
    """A call's id is its place in the view, so that the same view gives the same."""
    if decision.thought:
        yield ThinkingPart(decision.thought)
    if decision.text:
        yield TextPart(decision.text)
    for index, call in enumerate(decision.calls):
        arguments = json.dumps(dict(call.arguments), ensure_ascii=False)
        yield ToolCallPart(call.name, arguments, f"pilot_{position}_{index}")


def name_in(system: str) -> str:
    """The captain's name in a system prompt."""
    found = _NAME.search(system)
    name = (found[1] or found[2]).strip() if found else ""
    return name or "Captain"


def transcript_of(messages: Sequence[ModelMessage]) -> Transcript:
    """The messages as the pilot reads them; the newest state block counts."""
    system: list[str] = []
    entries: list[Entry] = []
    pending: dict[str, int] = {}
    state = ""
    for step, message in enumerate(messages):
        if isinstance(message, ModelResponse):
            entries += _own(message, step, pending, len(entries))
            continue
        for part in message.parts:
            if isinstance(part, SystemPromptPart):
                said, block = split_state(part.content)
                system.append(said)
            elif isinstance(part, UserPromptPart):
                said, block = split_state(str(part.content))
                entries += [Heard(said)] if said else []
            else:
                block = ""
                if isinstance(part, ToolReturnPart):
                    _answered(entries, pending, part)
            state = block or state
    return Transcript("\n\n".join(system), entries, state)


def _own(
    message: ModelResponse, step: int, pending: dict[str, int], start: int
) -> list[Entry]:
    calls = [part for part in message.parts if isinstance(part, ToolCallPart)]
    if not calls:
        said = [part.content for part in message.parts if isinstance(part, TextPart)]
        return [Said("\n".join(said))]
    for index, call in enumerate(calls):
        pending[call.tool_call_id] = start + index
    return [
        Called(
            call.tool_name, _object(call.args), answers.Answer("", unsure=True), step
        )
        for call in calls
    ]


def _object(arguments: str | Mapping[str, Any] | None) -> Mapping[str, Any]:
    if isinstance(arguments, str):
        return answers.object_in(arguments)
    return arguments or {}


def _answered(
    entries: list[Entry], pending: dict[str, int], part: ToolReturnPart
) -> None:
    """Put a result to its call; the last of several counts (A31)."""
    index = pending.get(part.tool_call_id)
    call = entries[index] if index is not None else None
    if index is not None and isinstance(call, Called):
        read = answers.read(part.model_response_str(wrap_if_error=False))
        entries[index] = Called(call.name, call.arguments, read, call.step)


def _usage(
    messages: Sequence[ModelMessage],
    tools: Sequence[ToolDefinition],
    parts: Sequence[ModelResponsePart],
) -> RequestUsage:
    """Tokens by the estimate: nobody else counts them for a script."""
    sent = sum(_tokens(part) for message in messages for part in message.parts)
    offered = [
        {
            "name": tool.name,
            "description": tool.description or "",
            "parameters": tool.parameters_json_schema,
        }
        for tool in tools
    ]
    return RequestUsage(
        input_tokens=sent + (estimate(json.dumps(offered)) if offered else 0),
        output_tokens=sum(map(_tokens, parts)),
    )


def _tokens(part: object) -> int:
    if isinstance(part, ToolCallPart):
        return estimate(part.tool_name) + estimate(part.args_as_json_str())
    content = getattr(part, "content", "")
    return estimate(content if isinstance(content, str) else str(content))
