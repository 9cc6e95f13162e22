"""From units to the messages of a dialect, with ids that are unique on the wire (I7)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from memory.context.arguments import load_object
from memory.context.text import clean
from memory.context.types import Dialect, Source, Synthetic
from memory.context.units import Item, Unit

#: Sent for an empty result that a dialect refuses.
EMPTY_RESULT = "(empty)"
_ODD = re.compile(r"[^A-Za-z0-9_-]")
#: Longer names are refused; one that names nothing is sent as this.
LONGEST_NAME = 64
NAMELESS = "unknown"


@dataclass(slots=True)
class Wire:
    """Messages in a dialect, with what stands behind each."""

    messages: list[dict[str, Any]] = field(default_factory=list)
    sources: list[Source] = field(default_factory=list)
    synthetic: list[Synthetic] = field(default_factory=list)
    system: str | None = None


class _Ids:
    """Wire ids: the provider's own the first time, numbered where it repeats."""

    def __init__(self, units: Iterable[Unit], dialect: Dialect) -> None:
        self._dialect = dialect
        self._used: set[str] = set()
        self._next: dict[str, int] = {}
        self._raw = {
            self._base(call.id) for unit in units for call in unit.items[0].calls
        }

    def of(self, unit: Unit) -> list[str]:
        return [self._unique(self._base(call.id)) for call in unit.items[0].calls]

    def _base(self, raw: str) -> str:
        text = clean(raw)
        if self._dialect == "anthropic":
            text = _ODD.sub("_", text)
        return text or "call"

    def _unique(self, base: str) -> str:
        wire = base
        if wire in self._used:
            number = self._next.get(base, 2)
            wire = f"{base}_{number}"
            while wire in self._used or wire in self._raw:
                number += 1
                wire = f"{base}_{number}"
            self._next[base] = number + 1
        self._used.add(wire)
        return wire


def to_openai(system: Item | None, units: Sequence[Unit]) -> Wire:
    """Chat-completions messages; the system text is the first of them."""
    wire = Wire()
    ids = _Ids(units, "openai")
    if system is not None:
        _append(wire, {"role": "system", "content": system.content}, system)
    for unit in units:
        call_ids = ids.of(unit)
        for item in unit.items:
            _append(wire, _openai_message(item, call_ids), item)
    return wire


def wire_name(raw: str) -> str:
    """A stored call's tool as providers let it be named.

    A history may hold names that a model made up, or that came from elsewhere; one of
    them would make every later request be refused.
    """
    return _ODD.sub("_", clean(raw))[:LONGEST_NAME] or NAMELESS


def _append(wire: Wire, message: dict[str, Any], item: Item) -> None:
    if item.kind is not None:
        wire.synthetic.append(Synthetic(len(wire.messages), item.kind))
    wire.messages.append(message)
    wire.sources.append(item.source)


def _openai_message(item: Item, call_ids: list[str]) -> dict[str, Any]:
    if item.role == "tool":
        return {
            "role": "tool",
            "tool_call_id": call_ids[item.call],
            "content": item.content,
        }
    if not item.calls:
        return {"role": item.role, "content": item.content}
    calls = [
        {
            "id": call_id,
            "type": "function",
            "function": {"name": wire_name(call.name), "arguments": call.arguments},
        }
        for call_id, call in zip(call_ids, item.calls, strict=True)
    ]
    return {"role": "assistant", "content": item.content or None, "tool_calls": calls}


def to_anthropic(system: Item | None, units: Sequence[Unit]) -> Wire:
    """Messages of alternating roles; what follows on the same side is joined."""
    wire = Wire(system=system.content if system is not None else None)
    ids = _Ids(units, "anthropic")
    for unit in units:
        call_ids = ids.of(unit)
        for item in unit.items:
            role = "assistant" if item.role == "assistant" else "user"
            blocks = _anthropic_blocks(item, call_ids)
            if wire.messages and wire.messages[-1]["role"] == role:
                wire.messages[-1]["content"].extend(blocks)
                _join_source(wire, item.source)
            else:
                wire.messages.append({"role": role, "content": blocks})
                wire.sources.append(item.source)
            if item.kind is not None:
                wire.synthetic.append(Synthetic(len(wire.messages) - 1, item.kind))
    return wire


def _join_source(wire: Wire, source: int | None) -> None:
    before = wire.sources[-1]
    ids: list[int | None] = [*before] if isinstance(before, list) else [before]
    joined = [known for known in (*ids, source) if known is not None]
    wire.sources[-1] = joined or None


def _anthropic_blocks(item: Item, call_ids: list[str]) -> list[dict[str, Any]]:
    if item.role == "tool":
        return [_tool_result(item, call_ids[item.call])]
    blocks: list[dict[str, Any]] = []
    if item.role == "assistant" and item.signature and item.reasoning:
        blocks.append(
            {
                "type": "thinking",
                "thinking": item.reasoning,
                "signature": item.signature,
            }
        )
    if item.content.strip():
        blocks.append({"type": "text", "text": item.content})
    blocks.extend(
        {
            "type": "tool_use",
            "id": call_id,
            "name": wire_name(call.name),
            "input": load_object(call.arguments),
        }
        for call_id, call in zip(call_ids, item.calls, strict=True)
    )
    return blocks


def _tool_result(item: Item, call_id: str) -> dict[str, Any]:
    block: dict[str, Any] = {
        "type": "tool_result",
        "tool_use_id": call_id,
        "content": item.content,
    }
    if item.is_error:
        block["is_error"] = True
        if not item.content.strip():
            block["content"] = EMPTY_RESULT
    return block
