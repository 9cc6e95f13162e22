"""The scripted pilot, called like any other model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from agents.llm.complete import request_completion
from agents.llm.model_types import ChatMessage, Completion, Endpoint, Tool
from sandbox.pilot.model import make_pilot


async def send(
    endpoint: Endpoint,
    messages: Sequence[ChatMessage],
    system: str | None,
    tools: Sequence[Tool],
    settings: Mapping[str, Any],
) -> Completion:
    """Let the pilot answer; it is given nothing but messages and tools."""
    history = history_of(messages, system)
    return await request_completion(endpoint, make_pilot(), history, tools, settings)


def history_of(
    messages: Sequence[ChatMessage], system: str | None
) -> list[ModelMessage]:
    """Chat messages as pydantic-ai's own."""
    history: list[ModelMessage] = []
    if system:
        history.append(ModelRequest([SystemPromptPart(system)]))
    names: dict[str, str] = {}
    for message in messages:
        history.append(_message(message, names))
    return history


def _message(message: ChatMessage, names: dict[str, str]) -> ModelMessage:
    content = text_of(message.get("content"))
    role = message["role"]
    if role == "system":
        return ModelRequest([SystemPromptPart(content)])
    if role == "user":
        return ModelRequest([UserPromptPart(content)])
    if role == "tool":
        call_id = str(message["tool_call_id"])
        name = names.get(call_id, "unknown")
        return ModelRequest([ToolReturnPart(name, content, call_id)])
    calls = [
        ToolCallPart(
            call["function"]["name"], call["function"]["arguments"], call["id"]
        )
        for call in message.get("tool_calls") or ()
    ]
    names.update((call.tool_call_id, call.tool_name) for call in calls)
    said = [TextPart(content)] if content else []
    return ModelResponse([*said, *calls])


def text_of(content: object) -> str:
    """The text of a message, also where it comes in blocks."""
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    texts = [block["text"] for block in blocks if block.get("type") == "text"]
    return "\n\n".join(texts)
