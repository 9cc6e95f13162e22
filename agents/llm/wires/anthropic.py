"""Anthropic's Messages API."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic_ai.messages import ModelMessage
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.providers.anthropic import AnthropicProvider

from agents.llm.replies import unseal
from agents.llm.types import ChatMessage, Completion, Endpoint, Tool
from agents.llm.wires import http
from agents.llm.wires.request import ask

DEFAULT_MAX_TOKENS = 8_000
"""This API wants a limit; it is the output reserve of a context budget."""

Json = dict[str, Any]


class VerbatimMessagesModel(AnthropicModel):
    """Sends given messages as they are, like the chat model beside it."""

    def __init__(
        self,
        endpoint: Endpoint,
        provider: AnthropicProvider,
        system: str | None,
        chat: list[Json],
    ) -> None:
        super().__init__(endpoint.model, provider=provider)
        self._given_system = _cached(system) if system else ""
        self._chat = chat

    async def _map_message(
        self,
        messages: list[ModelMessage],
        model_request_parameters: ModelRequestParameters,
        model_settings: Any,
    ) -> Any:
        return self._given_system, self._chat


async def send(
    endpoint: Endpoint,
    messages: Sequence[ChatMessage],
    system: str | None,
    tools: Sequence[Tool],
    settings: Mapping[str, Any],
) -> Completion:
    """One message; chat-form messages are put into this API's form."""
    said = [str(m["content"]) for m in messages if m["role"] == "system"]
    texts = [text for text in (system, *said) if text]
    chat = messages_of([m for m in messages if m["role"] != "system"])
    async with http.client() as client:
        provider = AnthropicProvider(
            api_key=endpoint.key or "none",
            base_url=endpoint.base_url or None,
            http_client=client,
        )
        model = VerbatimMessagesModel(
            endpoint, provider, "\n\n".join(texts) or None, chat
        )
        wanted = {"max_tokens": DEFAULT_MAX_TOKENS, **settings}
        return await ask(endpoint, model, [], tools, wanted)


def _cached(system: str) -> list[Json]:
    """The system text as a block that ends the cached prefix: tools and system."""
    return [{"type": "text", "text": system, "cache_control": {"type": "ephemeral"}}]


def messages_of(messages: Sequence[ChatMessage]) -> list[Json]:
    """Messages in Anthropic's form; those that have it already stay as they are.

    Neighbours of one role become one message, as the API wants results together.
    """
    joined: list[Json] = []
    for message in messages:
        role = "user" if message["role"] == "tool" else str(message["role"])
        changed = message["role"] == "tool" or "tool_calls" in message
        content = list(_blocks(message)) if changed else message.get("content") or []
        if joined and joined[-1]["role"] == role:
            joined[-1]["content"] = [*_listed(joined[-1]["content"]), *_listed(content)]
        else:
            joined.append({"role": role, "content": content})
    return joined


def _listed(content: object) -> list[Any]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return list(content) if isinstance(content, list) else []


def _blocks(message: ChatMessage) -> Iterator[Json]:
    """A chat message as blocks: thoughts, text, calls, or one result."""
    content = message.get("content") or ""
    if message["role"] == "tool":
        yield {
            "type": "tool_result",
            "tool_use_id": message["tool_call_id"],
            "content": content,
        }
        return
    if message.get("signature"):
        yield from _thoughts(str(message.get("reasoning") or ""), message["signature"])
    yield from _listed(content)
    for call in message.get("tool_calls") or ():
        yield {
            "type": "tool_use",
            "id": call["id"],
            "name": call["function"]["name"],
            "input": json.loads(call["function"]["arguments"] or "{}"),
        }


def _thoughts(reasoning: str, signature: str) -> Iterator[Json]:
    for text, signed in unseal(reasoning, signature):
        if text:
            yield {"type": "thinking", "thinking": text, "signature": signed}
        else:
            yield {"type": "redacted_thinking", "data": signed}
