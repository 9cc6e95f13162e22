"""Values and signatures as seed 004 writes them, short enough for one line (C10)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from memory.context.text import clean, safe_cut

MOST_ITEMS = 3
MOST_CHARS = 60
_DEPTH = 6
_COLUMN = 33


def literal(value: Any, depth: int = _DEPTH) -> str:
    """The value clipped to three items and sixty characters; `_` fields are hidden."""
    if value is None:
        return "nil"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, Mapping):
        if depth <= 0:
            return "{...}"
        entries = [f":{k} {literal(v, depth - 1)}" for k, v in shown(value)]
        return "{" + ", ".join(clipped(entries)) + "}"
    if isinstance(value, list):
        if depth <= 0:
            return "[...]"
        return "[" + " ".join(clipped([literal(v, depth - 1) for v in value[:4]])) + "]"
    return str(value)[:MOST_CHARS]


def quoted(text: str) -> str:
    """A text in quotes on one line, its end cut off where it is long."""
    cut = text = clean(text)
    if len(text) > MOST_CHARS:
        cut = text[: safe_cut(text, MOST_CHARS)] + "..."
    return json.dumps(cut, ensure_ascii=False)


def clipped(parts: list[str]) -> list[str]:
    """The first three, and dots for the others."""
    return parts if len(parts) <= MOST_ITEMS else [*parts[:MOST_ITEMS], "..."]


def shown(value: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """The entries that are not hidden."""
    return [(str(k), v) for k, v in value.items() if not str(k).startswith("_")]


def call_line(name: str, arguments: Mapping[str, Any]) -> str:
    """A tool call as the model might have written it."""
    values = [literal(value) for _, value in shown(arguments)]
    return f"{name}({', '.join(clipped(values))})"


def tool_line(name: str, tool: object) -> str:
    """A tool with its parameters, and its signature or description as a comment."""
    parameters, comment = _signature(tool)
    call = " ".join([f"tool/{name}", *parameters])
    return _commented(f"({call})", comment)


def data_line(name: str, value: object) -> str:
    """What a value is, with a sample, without the value itself."""
    return _commented(f"data/{name}", _kind(value))


def definition_line(name: str, value: object) -> str:
    """A name that the agent defined, with what it holds."""
    return _commented(name, f"= {_kind(value)}")


def _commented(text: str, comment: str) -> str:
    return f"{text.ljust(_COLUMN - 1)} ; {comment}" if comment else text


def _kind(value: object) -> str:
    if isinstance(value, list):
        sample = f", sample: {literal(value[0])}" if value else ""
        return f"list[{len(value)}]{sample}"
    if isinstance(value, Mapping):
        return f"map[{len(value)}], sample: {literal(value)}"
    return literal(value)


def _signature(tool: object) -> tuple[list[str], str]:
    """The names of the parameters, and what follows the semicolon."""
    if isinstance(tool, str):
        return _named(tool) if "->" in tool else [], _line(tool)
    if not isinstance(tool, Mapping):
        return [], ""
    given = tool.get("signature")
    if isinstance(given, str):
        return _named(given), _line(given)
    for key in ("parameters", "inputSchema", "input_schema"):
        schema = tool.get(key)
        properties = schema.get("properties") if isinstance(schema, Mapping) else None
        if isinstance(properties, Mapping):
            return list(properties), _line(", ".join(_typed(properties)))
    return [], _line(str(tool.get("description") or ""))


def _typed(properties: Mapping[str, Any]) -> list[str]:
    return [
        f"{name}:{schema.get('type', 'any') if isinstance(schema, Mapping) else 'any'}"
        for name, schema in properties.items()
    ]


def _named(signature: str) -> list[str]:
    """`query:string, n:int -> string` has the parameters query and n."""
    inputs = signature.partition("->")[0].strip().strip("()")
    return [part.split(":")[0].strip() for part in inputs.split(",") if part.strip()]


def _line(text: str) -> str:
    return " ".join(text.split())[:200]
