"""The messages of an `assemble` document: chat completions with a few keys of our own."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

from memory.context.json_fields import (
    DocumentError,
    JsonFields,
    read_object,
    require_object,
)
from memory.context.tool_calls import GAME
from memory.context.types import (
    DEFAULT_ORIGINS,
    FILLER_TEXT,
    NO_RESPONSE_TEXT,
    NUDGE_TEXT,
    ORIGINS,
    PEER,
    ROLES,
    UNDERSTOOD_TEXT,
    Message,
    Origin,
    Role,
    ToolCall,
    find_marked_peer,
)

# Keys of our own in a message.
_OWN = frozenset(
    {"id", "origin", "reasoning", "signature", "signed", "is_error", "pending"}
    | {"created_at", "tick", "pinned", "sender"}
)
# Keys of the format that change nothing in a view.
_IGNORED = {"name", "refusal", "audio", "annotations", "function_call"}
_MESSAGE_KEYS = _OWN | _IGNORED | {"role", "content", "tool_calls", "tool_call_id"}
_CALL_KEYS = {"id", "type", "function", "index", "via", "original"}
# Texts of our own, which come back when a view is fed in as a log.
_RECOGNISED: dict[tuple[Role, str], Origin] = {
    ("user", NUDGE_TEXT): "nudge",
    ("user", FILLER_TEXT): "filler",
    ("tool", NO_RESPONSE_TEXT): "filler",
}

_AROUND_UNDERSTOOD = ["tool", "assistant", "user"]


def parse_messages(value: object) -> tuple[Message, ...]:
    """The log of a document; ids are numbered from 1 where no message has one."""
    if not isinstance(value, list):
        raise DocumentError("messages: must be a list")
    found = [
        read_object(entry, f"messages[{index}]", _MESSAGE_KEYS)
        for index, entry in enumerate(value)
    ]
    with_id = sum("id" in fields.values for fields in found)
    if with_id not in (0, len(found)):
        raise DocumentError("messages: either all carry an id or none does")
    messages = tuple(
        _message(fields, index + 1, bool(with_id)) for index, fields in enumerate(found)
    )
    messages = _recognise_understood(messages)
    for before, after in pairwise(messages):
        if after.id <= before.id:
            raise DocumentError(
                f"messages: ids must rise, but {after.id} follows {before.id}"
            )
    return messages


def _recognise_understood(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """The log, with what a view puts between a result and a user message marked so."""
    marked = list(messages)
    for place, message in enumerate(messages):
        around = [each.role for each in messages[max(0, place - 1) : place + 2]]
        if message.content == UNDERSTOOD_TEXT and around == _AROUND_UNDERSTOOD:
            marked[place] = replace(message, origin="filler")
    return tuple(marked)


def _message(fields: JsonFields, number: int, numbered: bool) -> Message:
    role = _role(fields)
    content = _content(fields, role)
    if fields.values.get("function_call") is not None:
        raise fields.wrong("function_call", "null; give the call in tool_calls")
    calls = _calls(fields, role)
    call_id = fields.optional_text("tool_call_id")
    if role == "tool" and "tool_call_id" not in fields.values:
        raise fields.wrong("tool_call_id", "the id of the call it answers")
    if role != "tool" and call_id is not None:
        raise DocumentError(
            f"{fields.at('tool_call_id')}: only a tool message answers a call"
        )
    return Message(
        id=fields.required_whole("id") if numbered else number,
        role=role,
        origin=_origin(fields, role, content),
        content=content,
        reasoning=fields.optional_text("reasoning"),
        signature=fields.optional_text("signature"),
        signed=fields.flag("signed"),
        tool_calls=calls,
        tool_call_id=call_id,
        is_error=fields.flag("is_error"),
        pending=fields.flag("pending"),
        created_at=fields.optional_text("created_at"),
        tick=fields.optional_whole("tick"),
        pinned=fields.flag("pinned"),
        sender=_sender(fields, role, content),
    )


def _role(fields: JsonFields) -> Role:
    if "role" not in fields.values:
        raise fields.wrong("role", f"one of {', '.join(ROLES)}")
    return fields.choice("role", ROLES, "user")


def _origin(fields: JsonFields, role: Role, content: str) -> Origin:
    if fields.values.get("origin") is not None:
        return fields.choice("origin", ORIGINS, DEFAULT_ORIGINS[role])
    return _RECOGNISED.get((role, content), DEFAULT_ORIGINS[role])


def _sender(fields: JsonFields, role: Role, content: str) -> str | None:
    """Who wrote it; of a view that is fed in as a log, by the marks of its lines."""
    if role != "user" or "sender" in fields.values:
        return fields.optional_text("sender")
    peer = find_marked_peer(content)
    return f"{PEER}{peer}" if peer else None


def _content(fields: JsonFields, role: Role) -> str:
    """A text, null, or a list of text parts, which are joined as they are."""
    value = fields.values.get("content")
    if isinstance(value, str):
        return value
    if value is None and ("content" in fields.values or role == "assistant"):
        return ""
    if not isinstance(value, list):
        raise fields.wrong("content", "a text, a list of text parts, or null")
    return "".join(
        _part(part, f"{fields.at('content')}[{index}]")
        for index, part in enumerate(value)
    )


def _part(value: object, where: str) -> str:
    part = require_object(value, where)
    for kind in ("text", "refusal"):
        if part.get("type") == kind and isinstance(part.get(kind), str):
            return str(part[kind])
    raise DocumentError(f"{where}: must be a text part, as {{type: text, text: ...}}")


def _calls(fields: JsonFields, role: Role) -> tuple[ToolCall, ...]:
    value = fields.values.get("tool_calls")
    if value is None or value == []:
        return ()
    if role != "assistant":
        raise DocumentError(
            f"{fields.at('tool_calls')}: only an assistant message calls tools"
        )
    if not isinstance(value, list):
        raise fields.wrong("tool_calls", "a list of calls")
    return tuple(
        _call(entry, f"{fields.at('tool_calls')}[{index}]")
        for index, entry in enumerate(value)
    )


def _call(value: Any, where: str) -> ToolCall:
    fields = read_object(value, where, _CALL_KEYS)
    if fields.values.get("type", "function") != "function":
        raise fields.wrong("type", "function")
    function = fields.optional_object("function", {"name", "arguments"})
    if function is None:
        raise fields.wrong("function", "an object with name and arguments")
    return ToolCall(
        fields.required_text("id"),
        function.required_text("name"),
        function.required_text("arguments"),
        fields.choice("via", ("", GAME), ""),
        fields.text("original", ""),
    )
