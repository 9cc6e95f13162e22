"""A log as the record in a request for its summary: nothing in it can close that."""

from __future__ import annotations

import json
from dataclasses import replace

from memory.context.arguments import load
from memory.context.summary_prompt import without_tags
from memory.context.types import ToolCall
from memory.context.units import Item, Unit

_MARKS = ("summary", "\\u")


def as_record(unit: Unit) -> Unit:
    """The unit with our tags out of its texts and calls, also where it is signed.

    Signed text goes out without its reasoning then, which nobody may edit (I12).
    """
    items = tuple(map(_as_record, unit.items))
    changed = any(new is not old for new, old in zip(items, unit.items, strict=True))
    return unit.with_items(items) if changed else unit


def _as_record(item: Item) -> Item:
    content = without_tags(item.content)
    calls = tuple(map(_call, item.calls))
    reasoning = without_tags(item.reasoning or "")
    if (content, calls, reasoning) == (item.content, item.calls, item.reasoning or ""):
        return item
    return replace(item, content=content, calls=calls, reasoning=None, signature=None)


def _call(call: ToolCall) -> ToolCall:
    """The call with other brackets; an escape may hide a tag, so the text is decoded."""
    text = call.arguments
    if not any(mark in text.lower() for mark in _MARKS):
        return call
    plain = json.dumps(load(text), ensure_ascii=False)
    safe = without_tags(plain)
    return call if safe == plain else replace(call, arguments=safe)
