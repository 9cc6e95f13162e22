"""Anthropic's Messages API, with its prompt cache.

A mark costs a quarter more for what it adds to the cache, and a hit needs the same
bytes up to a mark of an earlier call. The texts that end the last message change with
every call (the state block, a nudge: CONTEXT.md A26), so a mark there never pays. Two go
into the messages, beside those of the tools and the system text: four, the most allowed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from anthropic import AsyncAnthropic
from pydantic_ai.messages import ModelMessage
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.providers.anthropic import AnthropicProvider

from agents.llm.model_types import (
    ANTHROPIC_ANSWER,
    ChatMessage,
    Completion,
    CompletionRequest,
)
from agents.llm.wires import http
from agents.llm.wires.model_request import request_completion, split_reasoning

MARK: Mapping[str, str] = {"type": "ephemeral"}
_MARKABLE = ("text", "tool_use", "tool_result")
OFFICIAL = "https://api.anthropic.com"
DEFAULTS = {"max_tokens": ANTHROPIC_ANSWER, "anthropic_cache_tool_definitions": True}
Json = dict[str, Any]


async def send(request: CompletionRequest) -> Completion:
    """Request one message; a system message among the others joins the system text."""
    endpoint, messages = request.endpoint, request.messages
    said = [str(m["content"]) for m in messages if m["role"] == "system"]
    system = "\n\n".join(text for text in (request.system, *said) if text)
    chat = mark_cache(unseal_reasoning(m for m in messages if m["role"] != "system"))
    async with http.open_client() as client:
        keyed = KeyedClient(
            api_key=endpoint.key or "none",
            base_url=endpoint.base_url or OFFICIAL,
            http_client=client,
        )
        provider = AnthropicProvider(anthropic_client=keyed)
        model = VerbatimMessagesModel(endpoint.model, provider, system, chat)
        wanted = replace(request, settings={**DEFAULTS, **request.settings})
        return await request_completion(wanted, model)


class KeyedClient(AsyncAnthropic):
    """Sends the key as Anthropic documents it; the SDK's own way is a bearer token.

    Servers that only speak its format often know no other header.
    """

    @property
    def auth_headers(self) -> dict[str, str]:
        return {"X-Api-Key": self.api_key or ""}


class VerbatimMessagesModel(AnthropicModel):
    """Sends given messages as they are, like the chat model of `openai`."""

    def __init__(
        self, name: str, provider: AnthropicProvider, system: str, chat: list[Json]
    ) -> None:
        super().__init__(name, provider=provider)
        # A block that ends a cached prefix: tools and system.
        block = {"type": "text", "text": system, "cache_control": dict(MARK)}
        self._given_system = [block] if system else ""
        self._chat = chat

    async def _map_message(
        self,
        messages: list[ModelMessage],
        model_request_parameters: ModelRequestParameters,
        model_settings: Any,
    ) -> Any:
        return self._given_system, self._chat


def unseal_reasoning(messages: Iterable[ChatMessage]) -> list[Json]:
    """The messages with every sealed reasoning as the blocks that were signed."""
    return [
        {"role": message["role"], "content": _unseal_content(message["content"])}
        for message in messages
    ]


def _unseal_content(content: object) -> object:
    if not isinstance(content, list):
        return content
    return [
        part
        for block in content
        for part in (
            split_reasoning(block["thinking"], block["signature"])
            if block.get("type") == "thinking"
            else [block]
        )
    ]


def mark_cache(messages: Sequence[Json]) -> list[Json]:
    """The messages with their cache marks; what was given is not changed."""
    out = list(messages)
    for index, kinds in _ends(messages):
        blocks = out[index]["content"]
        place = _last_of(kinds, blocks)
        if place is not None:
            copy = {**blocks[place], "cache_control": dict(MARK)}
            content = [*blocks[:place], copy, *blocks[place + 1 :]]
            out[index] = {**out[index], "content": content}
    return out


def _ends(messages: Sequence[Json]) -> Iterator[tuple[int, Sequence[str]]]:
    """The messages that get a mark, and on which blocks it may stand.

    The first is the end of what is stable. The second stands in the user's message
    before, where the last call had its first: a hit is looked for at most 20 blocks
    before a mark, and one answer with its results may be longer than that.
    """
    last = len(messages) - 1
    if last >= 0 and _last_of(("tool_result",), messages[last]["content"]) is not None:
        yield last, ("tool_result",)
    elif last >= 1:
        yield last - 1, _MARKABLE
    if last >= 2:
        yield last - 2, _MARKABLE


def _last_of(kinds: Sequence[str], blocks: object) -> int | None:
    if not isinstance(blocks, list):
        return None
    places = (i for i in range(len(blocks) - 1, -1, -1) if blocks[i]["type"] in kinds)
    return next(places, None)
