"""From pydantic-ai's answer to a completion."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from typing import Any

from pydantic_ai.messages import ModelResponse, TextPart, ThinkingPart, ToolCallPart

from agents.llm.types import Completion, Endpoint, Usage
from memory.context.types import ToolCall

NAMELESS = "unknown"
LONGEST_NAME = 64
LONGEST_ID = 40
"""Both are OpenAI's, the strictest: a history outlives a change of the provider."""
_ODD = re.compile(r"[^A-Za-z0-9_-]")
REDACTED = "redacted_thinking"
OMITTED = "omitted"
HIDDEN = "(The provider keeps this reasoning to itself.)"
"""Stands for a reasoning that came as a seal only, so that it is stored and sent."""


def completion_of(endpoint: Endpoint, response: ModelResponse) -> Completion:
    """Read text, reasoning, calls, usage and price out of an answer."""
    thoughts = [part for part in response.parts if isinstance(part, ThinkingPart)]
    texts = [part.content for part in response.parts if isinstance(part, TextPart)]
    usage = response.usage
    signature = seal(thoughts)
    reasoning = "\n\n".join(part.content for part in thoughts if part.content)
    return Completion(
        text="\n\n".join(text for text in texts if text) or _refusal(response),
        reasoning=reasoning or (HIDDEN if signature else ""),
        signature=signature,
        tool_calls=tuple(
            ToolCall(part.tool_call_id[:LONGEST_ID], name_of(part), arguments_of(part))
            for part in response.parts
            if isinstance(part, ToolCallPart)
        ),
        usage=Usage(usage.input_tokens, usage.output_tokens, usage.cache_read_tokens),
        cost=_cost(endpoint, response),
        finish_reason=response.finish_reason or "",
        model=response.model_name or endpoint.model,
    )


def name_of(part: ToolCallPart) -> str:
    """A call's tool as providers let it be named, where a model made up another form.

    A name that they refuse would be in the history from then on, and every later
    request refused for it.
    """
    return _ODD.sub("_", part.tool_name)[:LONGEST_NAME] or NAMELESS


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
# several, or one without a text, are kept whole as a JSON list.


def seal(thoughts: list[ThinkingPart]) -> str | None:
    """What gets the blocks back from a reasoning; None where nothing is signed."""
    if not any(part.signature for part in thoughts):
        return None
    if len(thoughts) == 1 and thoughts[0].content:
        return thoughts[0].signature
    return json.dumps([_sealed(part) for part in thoughts])


def _sealed(part: ThinkingPart) -> list[str]:
    block = [part.content, part.signature or ""]
    unsaid = not part.content and part.id != REDACTED
    return [*block, OMITTED] if unsaid else block


def unseal(reasoning: str, signature: str) -> Iterator[dict[str, Any]]:
    """The blocks of a signed reasoning in order, each as it was sent."""
    blocks = [[reasoning, signature]]
    if signature.startswith("[["):
        blocks = json.loads(signature)
    for text, signed, *kind in blocks:
        if text or kind:
            yield {"type": "thinking", "thinking": text, "signature": signed}
        else:
            yield {"type": REDACTED, "data": signed}
