"""OpenAI's Chat Completions, and the quirks of servers that call themselves compatible.

Some answer 200 with an error inside, some write a call's arguments as an object or
leave out its id. The first is a refusal like any other; of the second no call is lost.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, cast

from openai.types.chat import ChatCompletion
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ModelMessage
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.ollama import OllamaProvider
from pydantic_ai.providers.openai import OpenAIProvider

from agents.llm.model_types import Completion, CompletionRequest
from agents.llm.wires import http
from agents.llm.wires.model_request import request_completion

# The status of an error that came with 200 and names none itself.
FAULT = 500

OFFICIAL = "https://api.openai.com/v1"

# The client wants a key even where the server wants none.
NO_KEY = "none"


async def send(request: CompletionRequest) -> Completion:
    """Request one chat completion; ``system`` comes first where it is no message yet."""
    endpoint = request.endpoint
    chat = [dict(message) for message in request.messages]
    if request.system:
        chat.insert(0, {"role": "system", "content": request.system})
    make: type[OllamaProvider | OpenAIProvider]
    make = OllamaProvider if endpoint.kind == "ollama" else OpenAIProvider
    async with http.open_client() as client:
        provider = make(
            base_url=endpoint.base_url or OFFICIAL,
            api_key=endpoint.key or NO_KEY,
            http_client=client,
        )
        model = VerbatimChatModel(endpoint.model, provider, chat)
        return await request_completion(request, model)


class VerbatimChatModel(OpenAIChatModel):
    """Sends given chat messages letter for letter.

    pydantic-ai would write them anew from its own kind of message: arguments in
    other white space, marks inside special tokens. What a page shows as sent must
    be what was sent, and a prompt cache reads bytes.
    """

    def __init__(
        self,
        name: str,
        provider: OpenAIProvider | OllamaProvider,
        chat: list[dict[str, Any]],
    ) -> None:
        super().__init__(name, provider=provider)
        self._chat = chat

    async def _map_messages(
        self,
        messages: Sequence[ModelMessage],
        model_request_parameters: ModelRequestParameters,
        *,
        model_settings: Any = None,
    ) -> Any:
        return []

    def _thinking_false_extra_body(
        self,
        model_settings: Any,
        model_request_parameters: ModelRequestParameters,
    ) -> dict[str, Any]:
        # Added to the body as they are: the client would match every message against
        # all of its types, which takes longer than the rest of a request.
        more = super()._thinking_false_extra_body(
            model_settings, model_request_parameters
        )
        return {"messages": self._chat, **cast(Mapping[str, Any], more or {})}

    def _validate_completion(self, response: ChatCompletion) -> Any:
        raise_hidden_error(response, self.model_name)
        mend_calls(response)
        return super()._validate_completion(response)


def raise_hidden_error(response: ChatCompletion, model: str) -> None:
    """Raise ModelHTTPError for an error in the body of a good answer."""
    error = (response.model_extra or {}).get("error")
    for choice in response.choices or ():
        if getattr(choice, "finish_reason", None) == "error":
            error = error or (choice.model_extra or {}).get("error")
        elif getattr(choice, "message", None) is not None:
            return
    if error:
        raise ModelHTTPError(_status(error), model, {"error": error})


def _status(error: object) -> int:
    code = str(error.get("code")) if isinstance(error, Mapping) else ""
    number = int(code) if code.isascii() and code.isdecimal() else FAULT
    return number if 400 <= number < 600 else FAULT


def mend_calls(response: ChatCompletion) -> None:
    """Give every tool call the types that the format asks for."""
    messages = (getattr(one, "message", None) for one in response.choices or ())
    calls = (getattr(message, "tool_calls", None) or () for message in messages)
    for call in chain.from_iterable(calls):
        call.id = call.id if isinstance(call.id, str) else ""
        function = getattr(call, "function", None)
        if function is None:
            continue
        function.name = str(function.name or "")
        if function.arguments is None:
            function.arguments = ""
        elif not isinstance(function.arguments, str):
            function.arguments = json.dumps(function.arguments, ensure_ascii=False)
