"""The only bridge between stored rows and the pure core's messages."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from memory.context.types import Message, ToolCall

from .models import Memory


def message_of(row: Memory) -> Message:
    """One stored row as the core sees it."""
    return Message(
        id=row.pk,
        role=row.role,  # type: ignore[arg-type]
        origin=row.origin,  # type: ignore[arg-type]
        content=row.content,
        reasoning=row.reasoning or None,
        signature=row.signature or None,
        signed=bool(row.signature),
        tool_calls=tuple(_calls(row)),
        tool_call_id=row.tool_call_id or None,
        is_error=row.is_error,
        pending=row.pending,
        created_at=row.created_at.isoformat(),
        tick=row.tick,
    )


def _calls(row: Memory) -> Iterable[ToolCall]:
    for call in row.tool_calls:
        arguments = call["function"]["arguments"]
        text = arguments if isinstance(arguments, str) else json.dumps(arguments)
        yield ToolCall(id=call["id"], name=call["function"]["name"], arguments=text)


def messages_of(rows: Iterable[Memory]) -> tuple[Message, ...]:
    """Stored rows, in their order."""
    return tuple(message_of(row) for row in rows)


def wire_of(row: Memory) -> dict[str, Any]:
    """A stored row as an OpenAI chat message, unchanged by any strategy."""
    message: dict[str, Any] = {"role": row.role, "content": row.content}
    if row.tool_calls:
        message["tool_calls"] = row.tool_calls
    if row.role == "tool":
        message["tool_call_id"] = row.tool_call_id
    return message
