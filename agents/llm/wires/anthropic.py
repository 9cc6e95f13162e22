"""Anthropic's Messages API."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic_ai.messages import ModelMessage
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.providers.anthropic import AnthropicProvider

from agents.llm.replies import unseal
from agents.llm.types import (
    ANTHROPIC_ANSWER,
    ChatMessage,
    Completion,
    Endpoint,
    Tool,
)
from agents.llm.wires import http
from agents.llm.wires.caching import MARK, marked
from agents.llm.wires.request import ask

OFFICIAL = "https://api.anthropic.com"
DEFAULTS = {"max_tokens": ANTHROPIC_ANSWER, "anthropic_cache_tool_definitions": True}
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
    """One message; a system message among the others joins the system text."""
    said = [str(m["content"]) for m in messages if m["role"] == "system"]
    texts = [text for text in (system, *said) if text]
    chat = marked(messages_of([m for m in messages if m["role"] != "system"]))
    async with http.client() as client:
        provider = AnthropicProvider(
            api_key=endpoint.key or "none",
            base_url=endpoint.base_url or OFFICIAL,
            http_client=client,
        )
        model = VerbatimMessagesModel(
            endpoint, provider, "\n\n".join(texts) or None, chat
        )
        wanted = {**DEFAULTS, **settings}
        return await ask(endpoint, model, [], tools, wanted)


def _cached(system: str) -> list[Json]:
    """The system text as a block that ends a cached prefix: tools and system."""
    return [{"type": "text", "text": system, "cache_control": dict(MARK)}]


def messages_of(messages: Sequence[ChatMessage]) -> list[Json]:
    """The messages with every sealed reasoning as the blocks that were signed."""
    return [
        {"role": message["role"], "content": _content(message["content"])}
        for message in messages
    ]


def _content(content: object) -> object:
    if not isinstance(content, list):
        return content
    return [part for block in content for part in _opened(block)]


def _opened(block: Json) -> Iterator[Json]:
    if block.get("type") != "thinking":
        yield block
        return
    yield from unseal(block["thinking"], block["signature"])
