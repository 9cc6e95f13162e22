"""What makes two texts the same: SHA-256, of a payload as canonical JSON.

With it whether a view has each standing order word for word.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from memory.context.result_types import Assembly
from memory.context.types import Described, Message, OfferedTools


def to_canonical_json(
    messages: Sequence[Mapping[str, Any]],
    system: str | None = None,
    tools: Sequence[Described] | None = None,
) -> str:
    """A payload as canonical JSON: keys in order, no blanks, no escapes.

    There is no key ``tools`` where none are known.
    """
    body: dict[str, Any] = {"system": system, "messages": messages}
    return _encode(body | ({} if tools is None else {"tools": tools}))


def hash_view(
    messages: list[dict[str, Any]],
    system: str | None = None,
    tools: Sequence[Described] | None = None,
) -> str:
    """SHA-256 of a payload as canonical JSON; equal digests are equal payloads."""
    return hash_text(to_canonical_json(messages, system, tools))


def hash_encoded(
    messages: Iterable[bytes], system: str | None, offered: OfferedTools | None = None
) -> str:
    """The same of a view whose messages are canonical JSON already."""
    end = to_canonical_json([], system).removeprefix('{"messages":[')
    if offered is not None:
        end = f'{end[:-1]},"tools":{_encode_tools(offered.sent_text)}}}'
    whole = hashlib.sha256(b'{"messages":[' + b",".join(messages))
    whole.update(end.encode("utf-8", "surrogatepass"))
    return whole.hexdigest()


_encode = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False
).encode


@lru_cache(maxsize=8)
def _encode_tools(text: str) -> str:
    """Tools as canonical JSON; they are tens of kilobytes, and seldom others."""
    return _encode(json.loads(text))


def hash_span(messages: Iterable[Message]) -> str:
    """SHA-256 of stored messages: it shows whether a span is still what it was."""
    rows = [
        (m.id, m.role, m.content, m.is_error, m.pending, [*map(str, m.tool_calls)])
        for m in messages
    ]
    return hash_text(json.dumps(rows, separators=(",", ":"), ensure_ascii=False))


def hash_text(text: str) -> str:
    """SHA-256 of a text, also of one with lone surrogates."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


# --- Standing orders, checked against the view (I16)


@dataclass(frozen=True, slots=True)
class SentPin:
    """A standing order by its SHA-256, and whether the view has it word for word."""

    hash: str
    sent: bool

    def explain(self) -> str:
        """One sentence for an order that is not sent as it was pinned."""
        return (
            f"The standing order {self.hash[:12]} is not in the view word for word: "
            "pin it again, without secrets and odd characters."
        )


def check_pins(
    assembly: Assembly, pins: Sequence[str], hashes: Sequence[str]
) -> tuple[SentPin, ...]:
    """Look up each pin in a view, byte for byte; none where nothing is sent.

    ``hashes`` are what the texts must hash to, "" or none for any.
    """
    if not assembly.messages:
        return ()
    system = assembly.system
    if system is None:
        first = assembly.messages[0]
        system = first["content"] if first["role"] == "system" else ""
    found = []
    for place, text in enumerate(pins):
        own = hash_text(text)
        wanted = hashes[place] if place < len(hashes) and hashes[place] else own
        there = f"\n- {text}\n" in f"{system}\n"
        found.append(SentPin(wanted, there and own == wanted))
    return tuple(found)
