"""What makes two payloads the same."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .context.types import Message


def canonical(messages: Sequence[Mapping[str, Any]], system: str | None = None) -> str:
    """A view as canonical JSON: keys in order, no blanks, no escapes."""
    body = {"system": system, "messages": messages}
    return json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def digest_of(messages: list[dict[str, Any]], system: str | None = None) -> str:
    """SHA-256 of a view as canonical JSON; equal digests are equal payloads."""
    return _sha256(canonical(messages, system))


def span_digest(messages: Iterable[Message]) -> str:
    """SHA-256 of stored messages, which tells whether a span is still what it was."""
    rows = [
        (m.id, m.role, m.content, m.is_error, m.pending, [*map(str, m.tool_calls)])
        for m in messages
    ]
    return _sha256(json.dumps(rows, separators=(",", ":"), ensure_ascii=False))


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
