"""Contexts as schemas: what the routes pass on as the core made it."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

_TEXT: Json = {"type": "string"}
_TEXT_OR_NULL: Json = {"type": ["string", "null"]}
_WHOLE: Json = {"type": "integer"}
_WHOLE_OR_NULL: Json = {"type": ["integer", "null"]}
_OBJECT: Json = {"type": "object"}
_SOURCE: Json = {
    "description": "The id of the stored message, null for one that was made up; a "
    "list where several were joined.",
    "type": ["integer", "null", "array"],
    "items": _WHOLE,
}


def _object(required: Json, optional: Json | None = None, about: str = "") -> Json:
    return {
        "type": "object",
        "description": about,
        "properties": required | (optional or {}),
        "required": list(required),
    }


def _list(items: Json) -> Json:
    return {"type": "array", "items": items}


def _ref(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


_LINE: Json = {
    "disposition": _TEXT,
    "by": _TEXT_OR_NULL,
    "reason": _TEXT_OR_NULL,
    "tokens_in": _WHOLE,
    "tokens_out": _WHOLE,
    "handle": _TEXT_OR_NULL,
}
_ASSEMBLED: Json = {
    "status": _TEXT,
    "reason": _TEXT,
    "messages": _list(_OBJECT),
    "sources": _list(_SOURCE),
    "synthetic": _list(_object({"position": _WHOLE, "kind": _TEXT})),
    "ledger": _list(_ref("LedgerLine")),
    "stats": _OBJECT,
    "warnings": _list(_TEXT),
    "summary_wanted": {"type": ["object", "null"]},
}
_OPTIONAL: Json = {"system": _TEXT_OR_NULL, "impossible": _OBJECT}
_KEPT: Json = {"hash": _TEXT, "sent": {"type": "boolean"}}
_SIDE: Json = {"anyOf": [_ref("DiffSide"), {"type": "null"}]}
_HEAD: Json = _object(
    {
        "strategy": _TEXT,
        "status": _TEXT,
        "reason": _TEXT,
        "hash": _TEXT,
        "stats": _OBJECT,
    }
)

SCHEMAS: dict[str, Json] = {
    "LedgerLine": _object(
        {"id": _WHOLE} | _LINE, about="What became of one stored message, and why."
    ),
    "Assembled": _object(
        _ASSEMBLED, _OPTIONAL, "A view, ready to be sent, and how it came about."
    ),
    "ContextPreview": _object(
        _ASSEMBLED | _KEPT, _OPTIONAL, "What the next call would be sent."
    ),
    "SentContext": _object(
        {
            "messages": _list(_OBJECT),
            "system": _TEXT_OR_NULL,
            "sources": _list(_SOURCE),
            "ledger": _list(_OBJECT),
            "stats": _OBJECT,
            "intact": {"type": "boolean"},
        }
        | _KEPT,
        about="What a call was sent; `intact` tells whether the hash still agrees.",
    ),
    "DiffSide": _object(
        {name: {"type": [shape["type"], "null"]} for name, shape in {
            "disposition": _TEXT, "by": _TEXT, "reason": _TEXT, "handle": _TEXT,
            "tokens_in": _WHOLE, "tokens_out": _WHOLE, "position": _WHOLE,
            "message": _OBJECT,
        }.items()},
        about="A message under one strategy; `message` null where it is not sent.",
    ),
    "ContextDiff": _object(
        {
            "a": _HEAD,
            "b": _HEAD,
            "differing": _WHOLE,
            "messages": _list(
                _object(
                    {
                        "id": _WHOLE_OR_NULL,
                        "role": _TEXT_OR_NULL,
                        "kind": _TEXT_OR_NULL,
                        "same": {"type": "boolean"},
                        "a": _SIDE,
                        "b": _SIDE,
                    }
                )
            ),
        },
        about="Two strategies, message by message.",
    ),
    "AssembleIn": _object(
        {"messages": {"type": "array", "items": _OBJECT}},
        {
            "system": _TEXT_OR_NULL,
            "pins": _list(_TEXT),
            "summary": {"type": ["object", "null"]},
            "state": {"type": ["object", "null"]},
            "tool_policy": _OBJECT,
            "strategy": _TEXT,
            "options": _OBJECT,
            "budget": {"type": ["object", "null"]},
            "dialect": {"enum": ["openai", "anthropic"]},
            "counter": {"enum": ["estimate", "chars"]},
            "mysis": _TEXT,
            "previous": {"type": ["object", "array", "null"]},
            "mission": _TEXT_OR_NULL,
            "turns_left": _WHOLE_OR_NULL,
            "max_turns": _WHOLE_OR_NULL,
            "data": _OBJECT,
            "tools": _OBJECT,
            "definitions": _OBJECT,
        },
        "A history in the form of chat completions, and how to assemble it.",
    )
    | {"additionalProperties": False},
}  # fmt: skip

#: The shapes of answers and bodies by method and path below the API's root.
ANSWERS = {
    ("get", "/myses/{reference}/context"): "ContextPreview",
    ("get", "/myses/{reference}/context/diff"): "ContextDiff",
    ("get", "/turns/{turn_id}/calls/{number}/context"): "SentContext",
    ("post", "/context/assemble"): "Assembled",
}
BODIES = {("post", "/context/assemble"): "AssembleIn"}
