"""One model call: our messages out, a completion back.

No agent loop and no history processing: what is given is what is sent. The
formats are pydantic-ai's business and stand in ``wires``, one module per kind of
endpoint, imported when first used (a provider's library takes seconds to load).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Protocol, cast

from agents.llm.endpoints import resolve
from agents.llm.types import (
    ChatMessage,
    Completion,
    Endpoint,
    Kind,
    ModelError,
    ModelTimeoutError,
    Tool,
    UnknownProviderError,
    Usage,
)

__all__ = [
    "Completion",
    "Endpoint",
    "ModelError",
    "Tool",
    "UnknownProviderError",
    "Usage",
    "complete",
    "resolve",
]

DEFAULT_TIMEOUT = 300.0
"""Seconds for a whole call, where the settings of the Mysis name no ``timeout``."""

WIRES: Mapping[Kind, str] = {
    "openai": "agents.llm.wires.chat",
    "ollama": "agents.llm.wires.chat",
    "anthropic": "agents.llm.wires.anthropic",
    "pilot": "agents.llm.wires.scripted",
}


class Wire(Protocol):
    """What a module in ``wires`` offers."""

    async def send(
        self,
        endpoint: Endpoint,
        messages: Sequence[ChatMessage],
        system: str | None,
        tools: Sequence[Tool],
        settings: Mapping[str, Any],
    ) -> Completion:
        """Make the call; raises ModelError."""
        ...


async def complete(
    endpoint: Endpoint,
    *,
    messages: Sequence[ChatMessage],
    system: str | None,
    tools: Sequence[Tool],
    settings: Mapping[str, Any],
) -> Completion:
    """Ask the model for its next message.

    ``settings`` are the Mysis's own (temperature, max_tokens, timeout in seconds,
    reasoning_effort...). Raises ModelError; cancelling it ends the request.
    """
    wire = cast(Wire, import_module(WIRES[endpoint.kind]))
    wanted = {key: value for key, value in settings.items() if value is not None}
    seconds = _seconds(wanted.pop("timeout", DEFAULT_TIMEOUT))
    try:
        async with asyncio.timeout(seconds):
            return await wire.send(endpoint, messages, system, tools, wanted)
    except TimeoutError:
        raise ModelTimeoutError(
            f"{endpoint.name} gave no answer within {seconds:g} seconds.",
            "Try again, or raise the timeout in the model settings.",
            retryable=True,
        ) from None


def _seconds(value: object) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0:
        return float(value)
    raise ModelError(
        f"The model setting timeout is {value!r}, not a number of seconds.",
        "Give a number above 0, or remove the setting.",
    )
