"""Values, calls and tools, each in one line as seed 004 writes them (C10).

A value shows three items and sixty characters; fields whose names begin with `_` are
hidden.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from memory.context.text import clean_text, find_safe_cut

# C10: how much of a value one line shows.
_MOST_ITEMS = 3
_MOST_CHARS = 60
_DEPTH = 6
# Where a comment begins.
_COLUMN = 33


def _format_value(value: Any, depth: int = _DEPTH) -> str:
    """The value clipped to three items and sixty characters; `_` fields are hidden."""
    if value is None:
        return "nil"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _quote_text(value)
    if isinstance(value, Mapping):
        if depth <= 0:
            return "{...}"
        entries = [
            f":{k} {_format_value(v, depth - 1)}" for k, v in _visible_entries(value)
        ]
        return "{" + ", ".join(_clip_parts(entries)) + "}"
    if isinstance(value, list):
        if depth <= 0:
            return "[...]"
        items = [_format_value(v, depth - 1) for v in value[:4]]
        return "[" + " ".join(_clip_parts(items)) + "]"
    return str(value)[:_MOST_CHARS]


def _quote_text(text: str) -> str:
    cut = text = clean_text(text)
    if len(text) > _MOST_CHARS:
        cut = text[: find_safe_cut(text, _MOST_CHARS)] + "..."
    return json.dumps(cut, ensure_ascii=False)


def _clip_parts(parts: list[str]) -> list[str]:
    return parts if len(parts) <= _MOST_ITEMS else [*parts[:_MOST_ITEMS], "..."]


def _visible_entries(value: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return [(str(k), v) for k, v in value.items() if not str(k).startswith("_")]


def format_call(name: str, arguments: Mapping[str, Any]) -> str:
    """`mine()` or `travel("sol_belt")`: a call with the values of its arguments."""
    values = [_format_value(value) for _, value in _visible_entries(arguments)]
    return f"{name}({', '.join(_clip_parts(values))})"


def format_tool(name: str, tool: object) -> str:
    """`(tool/travel target_poi) ; target_poi:string`: a tool and its parameters.

    `tool` is a signature, a description, or a mapping with one or a JSON schema.
    """
    parameters, comment = _find_signature(tool)
    call = " ".join([f"tool/{name}", *parameters])
    return add_comment(f"({call})", comment)


def add_comment(text: str, comment: str) -> str:
    """The text with a comment behind it, in a column where the text is short."""
    return f"{text.ljust(_COLUMN - 1)} ; {comment}" if comment else text


def describe_value(value: object) -> str:
    """The size and a sample of a list or mapping; another value as it is."""
    if isinstance(value, list):
        sample = f", sample: {_format_value(value[0])}" if value else ""
        return f"list[{len(value)}]{sample}"
    if isinstance(value, Mapping):
        return f"map[{len(value)}], sample: {_format_value(value)}"
    return _format_value(value)


def _find_signature(tool: object) -> tuple[list[str], str]:
    """The names of the parameters, and what follows the semicolon."""
    if isinstance(tool, str):
        return _parse_parameters(tool) if "->" in tool else [], to_line(tool)
    if not isinstance(tool, Mapping):
        return [], ""
    given = tool.get("signature")
    if isinstance(given, str):
        return _parse_parameters(given), to_line(given)
    for key in ("parameters", "inputSchema", "input_schema"):
        schema = tool.get(key)
        properties = schema.get("properties") if isinstance(schema, Mapping) else None
        if isinstance(properties, Mapping):
            typed = (f"{name}:{_find_type(p)}" for name, p in properties.items())
            return list(properties), to_line(", ".join(typed))
    return [], to_line(str(tool.get("description") or ""))


def _find_type(schema: object) -> object:
    return schema.get("type", "any") if isinstance(schema, Mapping) else "any"


def _parse_parameters(signature: str) -> list[str]:
    """`query:string, n:int -> string` has the parameters query and n."""
    inputs = signature.partition("->")[0].strip().strip("()")
    return [part.split(":")[0].strip() for part in inputs.split(",") if part.strip()]


def to_line(text: str) -> str:
    """The first words of a text in one line."""
    return " ".join(text.split())[:200]
