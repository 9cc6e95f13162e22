"""From pydantic-ai's answer to a completion."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal

from pydantic_ai.messages import ModelResponse, TextPart, ThinkingPart, ToolCallPart

from agents.llm.types import Completion, Endpoint, Usage
from memory.context.types import ToolCall


def completion_of(endpoint: Endpoint, response: ModelResponse) -> Completion:
    """Read text, reasoning, calls, usage and price out of an answer."""
    thoughts = [part for part in response.parts if isinstance(part, ThinkingPart)]
    texts = [part.content for part in response.parts if isinstance(part, TextPart)]
    usage = response.usage
    return Completion(
        text="\n\n".join(text for text in texts if text) or _refusal(response),
        reasoning="\n\n".join(part.content for part in thoughts if part.content),
        signature=seal(thoughts),
        tool_calls=tuple(
            ToolCall(part.tool_call_id, part.tool_name, arguments_of(part))
            for part in response.parts
            if isinstance(part, ToolCallPart)
        ),
        usage=Usage(usage.input_tokens, usage.output_tokens, usage.cache_read_tokens),
        cost=_cost(endpoint, response),
        finish_reason=response.finish_reason or "",
        model=response.model_name or endpoint.model,
    )


def arguments_of(part: ToolCallPart) -> str:
    """A call's arguments as text: as the model wrote them, nothing is ``{}``."""
    if isinstance(part.args, str):
        return part.args.strip() or "{}"
    return json.dumps(part.args or {}, ensure_ascii=False)


def _refusal(response: ModelResponse) -> str:
    """A provider's refusal comes apart from the text; it is what was said."""
    refusal = (response.provider_details or {}).get("refusal")
    return refusal if isinstance(refusal, str) else ""


def _cost(endpoint: Endpoint, response: ModelResponse) -> Decimal:
    """The list price; a server that names its model oddly is asked by our name."""
    for name in (response.model_name, endpoint.model):
        try:
            return replace(response, model_name=name).cost().total_price
        except (LookupError, ValueError, AssertionError):
            continue
    return Decimal(0)


# A signed reasoning must go back as it came. One block is its bare signature;
# several, or a hidden one, are kept whole as a JSON list.


def seal(thoughts: list[ThinkingPart]) -> str | None:
    """What gets the blocks back from a reasoning; None where nothing is signed."""
    if not any(part.signature for part in thoughts):
        return None
    if len(thoughts) == 1 and thoughts[0].content:
        return thoughts[0].signature
    return json.dumps([[part.content, part.signature or ""] for part in thoughts])


def unseal(reasoning: str, signature: str) -> list[tuple[str, str]]:
    """The (text, signature) blocks of a signed reasoning, in order."""
    if not signature.startswith("[["):
        return [(reasoning, signature)]
    blocks: list[tuple[str, str]] = [(str(a), str(b)) for a, b in json.loads(signature)]
    return blocks
