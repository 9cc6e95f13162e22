"""One model call: our messages out, a completion back.

No agent loop and no history processing: what is given is what is sent. The formats
stand in ``wires``, one module per kind of endpoint, imported when first used, by workers
at their start: a provider's library takes seconds to load, and most processes call no
model.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from importlib import import_module
from types import ModuleType

from agents.llm.model_types import (
    Completion,
    CompletionRequest,
    Kind,
    ModelError,
    ModelTimeoutError,
)

# Seconds for a whole call, where the settings of the Mysis name no ``timeout``.
DEFAULT_TIMEOUT = 300.0

# The function ``send`` of a module in ``wires``; raises ModelError.
Send = Callable[[CompletionRequest], Awaitable[Completion]]
WIRES: Mapping[Kind, str] = {
    "openai": "agents.llm.wires.openai",
    "ollama": "agents.llm.wires.openai",
    "anthropic": "agents.llm.wires.anthropic",
    "pilot": "agents.llm.wires.pilot",
}


async def complete(request: CompletionRequest) -> Completion:
    """Ask the model for its next message; cancelling it ends it. Raises ModelError."""
    send: Send = load_wire(request.endpoint.kind).send
    given = request.settings.items()
    wanted = {key: value for key, value in given if value is not None}
    seconds = _read_timeout(wanted.pop("timeout", DEFAULT_TIMEOUT))
    try:
        async with asyncio.timeout(seconds):
            return await send(replace(request, settings=wanted))
    except TimeoutError:
        raise ModelTimeoutError(
            f"{request.endpoint.name} gave no answer within {seconds:g} seconds.",
            "Try again, or raise the timeout in the model settings.",
            retryable=True,
            code="",
        ) from None


def load_wire(kind: Kind) -> ModuleType:
    """The module of a kind of endpoint, with its library."""
    return import_module(WIRES[kind])


def _read_timeout(value: object) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0:
        return float(value)
    raise ModelError(
        f"The model setting timeout is {value!r}, not a number of seconds.",
        "Give a number above 0, or remove the setting.",
        code="",
    )
