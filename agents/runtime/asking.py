"""One request to a model, with its time, and with a record of its refusal."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from agents.llm.model import complete
from agents.llm.types import ChatMessage, Completion, Endpoint, ModelError, Tool
from agents.tools.crossing import cross

from . import answers
from .calls import Opened


async def ask(
    endpoint: Endpoint,
    opened: Opened,
    *,
    messages: Sequence[ChatMessage],
    system: str | None,
    tools: Sequence[Tool],
    settings: dict[str, Any],
) -> tuple[Completion, int]:
    """The answer and its milliseconds; raises ModelError, written at its call."""
    started = time.monotonic()
    try:
        answer = await complete(
            endpoint, messages=messages, system=system, tools=tools, settings=settings
        )
    except ModelError as error:
        await cross(answers.record_refusal, opened, error, _since(started))
        raise
    return answer, _since(started)


def _since(started: float) -> int:
    return round((time.monotonic() - started) * 1000)
