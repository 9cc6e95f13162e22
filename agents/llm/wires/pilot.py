"""The scripted pilot, called like any other model."""

from __future__ import annotations

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

from agents.llm.model_types import ChatMessage, Completion, CompletionRequest
from agents.llm.wires.model_request import request_completion
from sandbox.pilot.model import make_pilot


async def send(request: CompletionRequest) -> Completion:
    """Let the pilot answer; it is given nothing but messages and tools."""
    names: dict[str, str] = {}
    history = [_convert(message, names) for message in request.messages]
    if request.system:
        history.insert(0, ModelRequest([SystemPromptPart(request.system)]))
    return await request_completion(
        request, make_pilot(request.endpoint.model), history
    )


def _convert(message: ChatMessage, names: dict[str, str]) -> ModelMessage:
    """A chat message as pydantic-ai's own; ``names`` are of the calls so far, by id."""
    content = _join_text(message.get("content"))
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


def _join_text(content: object) -> str:
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    texts = [block["text"] for block in blocks if block.get("type") == "text"]
    return "\n\n".join(texts)
