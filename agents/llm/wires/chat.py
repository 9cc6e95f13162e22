"""OpenAI's Chat Completions, which most servers speak."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pydantic_ai.messages import ModelMessage
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.ollama import OllamaProvider
from pydantic_ai.providers.openai import OpenAIProvider

from agents.llm.types import ChatMessage, Completion, Endpoint, Tool
from agents.llm.wires import http
from agents.llm.wires.mending import mend_calls, raise_hidden_error
from agents.llm.wires.request import ask

if TYPE_CHECKING:
    import httpx2
    from openai.types.chat import ChatCompletion

OFFICIAL = "https://api.openai.com/v1"
# The client wants a key even where the server wants none.
NO_KEY = "none"


class VerbatimChatModel(OpenAIChatModel):
    """Sends given chat messages letter for letter.

    pydantic-ai would write them anew from its own kind of message: arguments in
    other white space, marks inside special tokens. What a page shows as sent must
    be what was sent, and a prompt cache reads bytes.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        provider: OpenAIProvider | OllamaProvider,
        chat: list[dict[str, Any]],
    ) -> None:
        super().__init__(endpoint.model, provider=provider)
        self._chat = chat

    async def _map_messages(
        self,
        messages: Sequence[ModelMessage],
        model_request_parameters: ModelRequestParameters,
        *,
        model_settings: Any = None,
    ) -> Any:
        return self._chat

    def _validate_completion(self, response: ChatCompletion) -> Any:
        raise_hidden_error(response, self.model_name)
        mend_calls(response)
        return super()._validate_completion(response)


async def send(
    endpoint: Endpoint,
    messages: Sequence[ChatMessage],
    system: str | None,
    tools: Sequence[Tool],
    settings: Mapping[str, Any],
) -> Completion:
    """One chat completion; ``system`` comes first where it is no message yet."""
    chat = [dict(message) for message in messages]
    if system:
        chat.insert(0, {"role": "system", "content": system})
    async with http.client() as client:
        model = VerbatimChatModel(endpoint, _provider(endpoint, client), chat)
        return await ask(endpoint, model, [], tools, settings)


def _provider(
    endpoint: Endpoint, client: httpx2.AsyncClient
) -> OpenAIProvider | OllamaProvider:
    key = endpoint.key or NO_KEY
    url = endpoint.base_url or OFFICIAL
    if endpoint.kind == "ollama":
        return OllamaProvider(base_url=url, api_key=key, http_client=client)
    return OpenAIProvider(base_url=url, api_key=key, http_client=client)
