"""A history as lines of JSON, or as one chat in the form of OpenAI's API."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from memory.history import wire_of
from memory.models import Memory

CHUNK = 500
FORMATS = ("jsonl", "openai")


def count(mysis_id: int) -> int:
    """How many messages a Mysis has."""
    return Memory.objects.filter(mysis_id=mysis_id).count()


def pieces(mysis_id: int, form: str) -> Iterator[str]:
    """The text of an export, one message a piece, in ASCII."""
    rows = _rows(mysis_id)
    if form == "jsonl":
        yield from (f"{json.dumps(document_of(row))}\n" for row in rows)
        return
    lead = '{"messages": [\n'
    for row in rows:
        yield lead + json.dumps(wire_of(row))
        lead = ",\n"
    yield "\n]}\n" if lead.startswith(",") else f"{lead}]}}\n"


def document_of(row: Memory) -> dict[str, Any]:
    """A message with all that an import needs to store the same."""
    return {
        "id": row.pk,
        "turn": row.turn_id,
        "role": row.role,
        "origin": row.origin,
        "sender": row.sender or None,
        "content": row.content,
        "reasoning": row.reasoning,
        "signature": row.signature or None,
        "tool_calls": row.tool_calls,
        "tool_call_id": row.tool_call_id or None,
        "tool_name": row.tool_name or None,
        "args": row.args,
        "is_error": row.is_error,
        "pending": row.pending,
        "tick": row.tick,
        "created_at": row.created_at.isoformat(),
        "broadcast": _broadcast(row),
    }


def _broadcast(row: Memory) -> dict[str, Any] | None:
    """Which broadcast a message is a delivery of, so that it stays one."""
    if row.broadcast is None:
        return None
    return {"id": row.broadcast.pk, "created_at": row.broadcast.created_at.isoformat()}


def _rows(mysis_id: int) -> Iterator[Memory]:
    """By index, chunk after chunk: a history of any length in little memory."""
    log = Memory.objects.filter(mysis_id=mysis_id).order_by("pk")
    log = log.select_related("broadcast").defer(
        "calls_text", "content_vector", "reasoning_vector", "broadcast__vector"
    )
    after = 0
    while found := list(log.filter(pk__gt=after)[:CHUNK]):
        yield from found
        after = found[-1].pk
