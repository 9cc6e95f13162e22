"""An example out of a schema alone, for a body that nobody wrote one for yet."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

_TEXTS = {
    "date-time": "2026-02-05T00:00:00Z",
    "date": "2026-02-05",
}
_PLAIN: Json = {"integer": 1, "number": 0.5, "boolean": False, "null": None}
DEEPEST = 6


def example_of(schema: Json, schemas: Json, depth: int = 0) -> Any:
    """A value that fits; the required fields of objects alone."""
    if "$ref" in schema:
        schema = schemas[schema["$ref"].rpartition("/")[2]]
    for choice in ("anyOf", "oneOf", "allOf"):
        if schema.get(choice):
            return example_of(schema[choice][0], schemas, depth)
    for known in ("default", "const"):
        if known in schema:
            return schema[known]
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type", "object")
    return _of_kind(kind[0] if isinstance(kind, list) else kind, schema, schemas, depth)


def _of_kind(kind: str, schema: Json, schemas: Json, depth: int) -> Any:
    if kind == "object":
        if depth >= DEEPEST:
            return {}
        fields: Json = schema.get("properties", {})
        return {
            name: example_of(fields[name], schemas, depth + 1)
            for name in schema.get("required", list(fields))
        }
    if kind == "array":
        items: Json | None = schema.get("items")
        return [example_of(items, schemas, depth + 1)] if items else []
    if kind == "string":
        return _TEXTS.get(schema.get("format", ""), "text")
    return max(_PLAIN[kind], schema["minimum"]) if "minimum" in schema else _PLAIN[kind]
