"""What every wire does: one request through pydantic-ai, and what its answer says.

The formats are pydantic-ai's business. A signed reasoning must go back as it came: one
block as its bare signature, several or one without a text whole, as a JSON list.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from decimal import Decimal
from typing import Any, cast

from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
)
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from agents.llm.errors import make_model_error
from agents.llm.model_types import (
    MOST_CALLS,
    Completion,
    CompletionRequest,
    Endpoint,
    Usage,
    price_usage,
)
from memory.context.tokens import estimate_tokens
from memory.context.types import ToolCall

_RENAMED = {"reasoning_effort": "openai_reasoning_effort"}

NAMELESS = "unknown"

# Both are OpenAI's, the strictest: a history outlives a change of the provider.
LONGEST_NAME = 64
LONGEST_ID = 40

# A provider's count of tokens is believed up to so many windows of the model. That of an
# unknown window may be larger than the one that is taken for it.
MOST_WINDOWS, LEAST_WINDOW = 10, 32_768

_ODD = re.compile(r"[^A-Za-z0-9_-]")
REDACTED = "redacted_thinking"
OMITTED = "omitted"

# Stands for a reasoning that came as a seal only, so that it is stored and sent.
HIDDEN = "(The provider keeps this reasoning to itself.)"


async def request_completion(
    request: CompletionRequest, model: Model[Any], messages: Sequence[ModelMessage] = ()
) -> Completion:
    """Make the call through a pydantic-ai model; raises ModelError.

    ``messages`` are for a model that does not hold those of the request itself.
    """
    named = {_RENAMED.get(key, key): value for key, value in request.settings.items()}
    # The runtime retries, not the client.
    wanted = cast(ModelSettings, {**named, "max_retries": 0})
    definitions = [
        ToolDefinition(
            name=tool.name,
            description=tool.description,
            parameters_json_schema=tool.parameters,
            strict=False,
        )
        for tool in request.tools
    ]
    parameters = ModelRequestParameters(function_tools=definitions)
    try:
        response = await model.request(list(messages), wanted, parameters)
        return _read_completion(request, response)
    except Exception as error:
        # A broken answer may fail anywhere in two libraries. Without its cause:
        # that one holds the request with its headers.
        raise make_model_error(request.endpoint, error) from None


def _read_completion(request: CompletionRequest, response: ModelResponse) -> Completion:
    endpoint = request.endpoint
    thoughts = [part for part in response.parts if isinstance(part, ThinkingPart)]
    texts = [part.content for part in response.parts if isinstance(part, TextPart)]
    # A provider's refusal comes apart from the text; it is what was said.
    refusal = (response.provider_details or {}).get("refusal")
    refused = refusal if isinstance(refusal, str) else ""
    calls = [part for part in response.parts if isinstance(part, ToolCallPart)]
    signature = _join_signatures(thoughts)
    reasoning = "\n\n".join(part.content for part in thoughts if part.content)
    answer = Completion(
        text="\n\n".join(text for text in texts if text) or refused,
        reasoning=reasoning or (HIDDEN if signature else ""),
        signature=signature,
        tool_calls=tuple(
            ToolCall(
                part.tool_call_id[:LONGEST_ID], clean_tool_name(part), _arguments(part)
            )
            for part in calls[:MOST_CALLS]
        ),
        finish_reason=response.finish_reason or "",
        model=response.model_name or endpoint.model,
        dropped=max(0, len(calls) - MOST_CALLS),
    )
    told = response.usage
    usage = Usage(told.input_tokens, told.output_tokens, told.cache_read_tokens)
    if _is_likely(usage, endpoint):
        return replace(answer, usage=usage, cost=_cost(endpoint, response))
    usage = _estimate_usage(request, answer)
    cost = price_usage(endpoint, usage) or Decimal(0)
    return replace(answer, usage=usage, cost=cost, estimated=True)


def _is_likely(usage: Usage, endpoint: Endpoint) -> bool:
    """Whether a provider's numbers can be true of a model with such a window."""
    most = MOST_WINDOWS * max(endpoint.window, LEAST_WINDOW)
    return usage.cached <= usage.input <= most and usage.output <= most


def _estimate_usage(request: CompletionRequest, answer: Completion) -> Usage:
    tools = [asdict(tool) for tool in request.tools]
    sent = json.dumps([request.system, *request.messages, *tools], ensure_ascii=False)
    said = [answer.text, answer.reasoning]
    said += [f"{call.name} {call.arguments}" for call in answer.tool_calls]
    return Usage(estimate_tokens(sent), sum(map(estimate_tokens, said)))


def clean_tool_name(part: ToolCallPart) -> str:
    """A call's tool, in a form that every provider accepts.

    One that they refuse would stay in the history, and fail every later request.
    """
    return _ODD.sub("_", part.tool_name)[:LONGEST_NAME] or NAMELESS


def _arguments(part: ToolCallPart) -> str:
    """A call's arguments as the model wrote them; nothing is ``{}``."""
    if isinstance(part.args, str):
        return part.args.strip() or "{}"
    return json.dumps(part.args or {}, ensure_ascii=False)


def _cost(endpoint: Endpoint, response: ModelResponse) -> Decimal:
    """The list price; a server that names its model oddly is asked by our name."""
    for name in (response.model_name, endpoint.model):
        try:
            return replace(response, model_name=name).cost().total_price
        except (LookupError, ValueError, AssertionError):
            continue
    return Decimal(0)


def _join_signatures(thoughts: list[ThinkingPart]) -> str | None:
    if not any(part.signature for part in thoughts):
        return None
    if len(thoughts) == 1 and thoughts[0].content:
        return thoughts[0].signature
    return json.dumps([_sealed(part) for part in thoughts])


def _sealed(part: ThinkingPart) -> list[str]:
    block = [part.content, part.signature or ""]
    unsaid = not part.content and part.id != REDACTED
    return [*block, OMITTED] if unsaid else block


def split_reasoning(reasoning: str, signature: str) -> Iterator[dict[str, Any]]:
    """The blocks of a signed reasoning in order, each as it was sent."""
    blocks = [[reasoning, signature]]
    if signature.startswith("[["):
        blocks = json.loads(signature)
    for text, signed, *kind in blocks:
        if text or kind:
            yield {"type": "thinking", "thinking": text, "signature": signed}
        else:
            yield {"type": REDACTED, "data": signed}
