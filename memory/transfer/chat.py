"""Messages as JSON: our own export, and chats in the form of OpenAI's API."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from memory.context.types import ORIGINS, ROLES
from memory.gamestate.parse import clean_text

from .line import Line, TransferError, call_of, default_origin, moment, object_of

#: Roles that other programs use for the same.
SYNONYMS = {"developer": "system", "function": "tool"}
LONGEST_NAME = 200


class Reader:
    """Reads message after message; results learn the name of their call."""

    def __init__(self) -> None:
        self._count = 0
        self._calls: dict[str, dict[str, Any]] = {}
        self._last = ""

    def read(self, value: object) -> Line:
        """One message; raises TransferError that names the field."""
        if not isinstance(value, Mapping):
            raise TransferError("a message must be a JSON object")
        self._count += 1
        given = {str(key): item for key, item in value.items()}
        role = _role(given.get("role"))
        calls = self._read_calls(given) if role == "assistant" else []
        call_id = _text(given, "tool_call_id") or (self._last if role == "tool" else "")
        call = self._calls.get(call_id, {}) if role == "tool" else {}
        names = (_text(given, "tool_name"), _text(given, "name"), call.get("name", ""))
        name = next(filter(None, names), "")
        own = given.get("args")
        return Line(
            role=role,
            origin=_origin(given.get("origin"), role),
            content=_content(given),
            sender="" if role == "tool" else _sender(given)[:LONGEST_NAME],
            reasoning=_text(given, "reasoning") or _text(given, "reasoning_content"),
            signature=_text(given, "signature"),
            tool_calls=calls,
            tool_call_id=call_id[:LONGEST_NAME],
            tool_name=name[:LONGEST_NAME] if role == "tool" else "",
            args=object_of(call.get("arguments", "") if own is None else own),
            is_error=given.get("is_error") is True,
            pending=role == "tool" and given.get("pending") is True,
            tick=_tick(given.get("tick")),
            created_at=moment(given.get("created_at", given.get("timestamp"))),
            broadcast_at=moment(object_of(given.get("broadcast")).get("created_at")),
        )

    def _read_calls(self, given: Mapping[str, Any]) -> list[dict[str, Any]]:
        raw = given.get("tool_calls") or []
        if isinstance(given.get("function_call"), Mapping):
            raw = [{"function": given["function_call"]}]
        if not isinstance(raw, list):
            raise TransferError("tool_calls must be a list")
        calls = [self._read_call(item, place) for place, item in enumerate(raw)]
        for call in calls:
            self._calls[call["id"]] = call["function"]
            self._last = call["id"]
        return calls

    def _read_call(self, item: object, place: int) -> dict[str, Any]:
        function = item.get("function") if isinstance(item, Mapping) else None
        if not isinstance(function, Mapping) or not isinstance(
            function.get("name"), str
        ):
            raise TransferError("a tool call must have a function with a name")
        arguments = function.get("arguments", "")
        if not isinstance(arguments, str):
            arguments = json.dumps(arguments, ensure_ascii=False)
        assert isinstance(item, Mapping)  # noqa: S101 (for types)
        known = item.get("id") or f"imported_{self._count}_{place}"
        return call_of(
            clean_text(str(known))[:LONGEST_NAME],
            clean_text(function["name"]),
            clean_text(arguments),
        )


def _role(value: object) -> str:
    role = SYNONYMS.get(str(value), value)
    if role not in ROLES:
        raise TransferError(f"role {value!r} is not one of {', '.join(ROLES)}")
    return str(role)


def _origin(value: object, role: str) -> str:
    if value is None:
        return default_origin(role)
    if value not in ORIGINS:
        raise TransferError(f"origin {value!r} is not one of {', '.join(ORIGINS)}")
    return str(value)


def _content(given: Mapping[str, Any]) -> str:
    """The text of a content: parts that are no text are named in its place."""
    content = given.get("content")
    if content is None:
        content = given.get("refusal") or ""
    if isinstance(content, list):
        content = "\n".join(_part(item) for item in content)
    if not isinstance(content, str):
        raise TransferError("content must be a text, a list of parts, or null")
    return clean_text(content)


def _part(item: object) -> str:
    if isinstance(item, str):
        return item
    if not isinstance(item, Mapping):
        raise TransferError("a part of a content must be an object")
    text = item.get("text", item.get("refusal"))
    return text if isinstance(text, str) else f"[{item.get('type')}, not imported]"


def _text(given: Mapping[str, Any], field: str) -> str:
    value = given.get(field)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise TransferError(f"{field} must be a text")
    return clean_text(value)


def _sender(given: Mapping[str, Any]) -> str:
    return _text(given, "sender") or _text(given, "name")


def _tick(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if abs(value) < 2**62 else None
