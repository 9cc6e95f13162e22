"""The only bridge between stored rows and the pure core's messages."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from memory.context.types import Message, ToolCall

from .entries import Entry
from .models import Memory, Role

Stored = Memory | Entry


def message_of(row: Stored) -> Message:
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
        created_at=_moment(row),
        tick=row.tick,
        turn=row.turn_id,
    )


def _moment(row: Stored) -> str:
    return row.created if isinstance(row, Entry) else row.created_at.isoformat()


def _calls(row: Stored) -> Iterable[ToolCall]:
    for call in row.tool_calls:
        arguments = call["function"]["arguments"]
        text = arguments if isinstance(arguments, str) else json.dumps(arguments)
        yield ToolCall(id=call["id"], name=call["function"]["name"], arguments=text)


def messages_of(rows: Iterable[Stored]) -> tuple[Message, ...]:
    """Stored rows, in their order."""
    return tuple(message_of(row) for row in rows)


def wire_of(row: Stored) -> dict[str, Any]:
    """A stored row as the OpenAI chat message that the core makes of it unchanged.

    Its keys come in the same order, since a payload is compared byte for byte.
    """
    if row.role == Role.TOOL:
        return {
            "role": row.role,
            "tool_call_id": row.tool_call_id,
            "content": row.content,
        }
    if not row.tool_calls:
        return {"role": row.role, "content": row.content}
    return {
        "role": row.role,
        "content": row.content or None,
        "tool_calls": row.tool_calls,
    }
