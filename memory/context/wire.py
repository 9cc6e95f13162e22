"""Units as the messages of a dialect, and a check of these messages.

Call ids are unique in a request (I7). The check finds what a provider would refuse
(I4-I8); it runs on every view before it is sent.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from memory.context.call_ids import CALL_ID, spell_call_id
from memory.context.result_types import Source, Synthetic
from memory.context.text import clean_text
from memory.context.tool_calls import (
    get_sent_form,
    is_object,
    normalize_name,
    parse_arguments,
)
from memory.context.types import SEPARATOR, Dialect
from memory.context.units import Item, Unit

# Sent for an empty result that a dialect refuses.
_EMPTY_RESULT = "(empty)"
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")

Messages = Sequence[Mapping[str, Any]]
_to_json = json.JSONEncoder(
    ensure_ascii=False, separators=(",", ":"), sort_keys=True
).encode


@dataclass(frozen=True, slots=True)
class WrittenUnit:
    """A unit as messages of the OpenAI dialect, under the ids that its calls have."""

    unit: Unit
    call_ids: list[str]
    messages: list[dict[str, Any]]
    encoded: list[bytes]


WrittenUnits = dict[tuple[int, ...], WrittenUnit]  # by the rows of the unit


@dataclass(slots=True)
class WireView:
    """Messages in a dialect, with the stored rows or the made-up kind behind each.

    `encoded` are the same as JSON, `written` the units of stored rows.
    """

    messages: list[dict[str, Any]] = field(default_factory=list)
    sources: list[Source] = field(default_factory=list)
    synthetic: list[Synthetic] = field(default_factory=list)
    encoded: list[bytes] = field(default_factory=list)
    system: str | None = None
    written: WrittenUnits = field(default_factory=dict)


class _Ids:
    """Wire ids: those of the units, and another one for the rare one that repeats."""

    def __init__(self) -> None:
        self._used: set[str] = set()

    def assign(self, unit: Unit) -> list[str]:
        return [self._unique(call.id) for call in unit.items[0].calls]

    def _unique(self, wire: str) -> str:
        while wire in self._used:
            wire = spell_call_id(wire)
        self._used.add(wire)
        return wire


def write_messages(
    dialect: Dialect,
    system: Item | None,
    units: Sequence[Unit],
    written: WrittenUnits | None = None,
) -> WireView:
    """The messages of a dialect; the system text is the first of them for OpenAI.

    Units that an earlier view has `written` alike give the same messages again. Without
    an earlier view nothing is encoded.
    """
    ids = _Ids()
    if dialect == "openai":
        return _write_openai(system, units, ids, written)
    wire = _write_anthropic(system, units, ids)
    wire.encoded = [] if written is None else [*map(encode_message, wire.messages)]
    return wire


def encode_message(message: Mapping[str, Any]) -> bytes:
    """A message as JSON with its keys in order, no blanks and no escapes."""
    return _to_json(message).encode("utf-8", "surrogatepass")


def _write_openai(
    system: Item | None, units: Sequence[Unit], ids: _Ids, written: WrittenUnits | None
) -> WireView:
    wire = WireView()
    for unit in (Unit((system,), -1), *units) if system else units:
        call_ids = ids.assign(unit)
        known = (written or {}).get(unit.rows)
        if (
            known is None
            or known.call_ids != call_ids
            or known.unit.items != unit.items
        ):
            messages = [_openai_message(item, call_ids) for item in unit.items]
            encoded = [] if written is None else [*map(encode_message, messages)]
            known = WrittenUnit(unit, call_ids, messages, encoded)
        if unit.rows and written is not None:
            wire.written[unit.rows] = known
        if wire.messages and _joins(wire.messages[-1], unit.items[0]):
            _join(wire, unit.items[0])
            continue
        for place, item in enumerate(unit.items, len(wire.messages)):
            if item.kind is not None:
                wire.synthetic.append(Synthetic(place, item.kind))
            wire.sources.append(item.source)
        wire.messages += known.messages
        wire.encoded += known.encoded
    return wire


def _joins(before: Mapping[str, Any], item: Item) -> bool:
    """Whether a text goes to the end of the message before: the state block always."""
    if item.kind == "state" or item.calls:
        return item.kind == "state"
    return before["role"] == item.role and not before.get("tool_calls")


def _join(wire: WireView, item: Item) -> None:
    before = wire.messages[-1]
    wire.messages[-1] = before | {
        "content": f"{before['content']}{SEPARATOR}{item.content}"
    }
    if wire.encoded:
        wire.encoded[-1] = encode_message(wire.messages[-1])
    if item.kind is not None:
        wire.synthetic.append(Synthetic(len(wire.messages) - 1, item.kind))
    if wire.sources[-1] is None:
        wire.sources[-1] = item.source
    elif item.source is not None:
        _join_source(wire, item.source)


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
            "function": {"name": normalize_name(name), "arguments": arguments},
        }
        for call_id, (name, arguments) in zip(
            call_ids, map(get_sent_form, item.calls), strict=True
        )
    ]
    return {"role": "assistant", "content": item.content or None, "tool_calls": calls}


def _write_anthropic(system: Item | None, units: Sequence[Unit], ids: _Ids) -> WireView:
    """Messages of alternating roles; consecutive ones of one role are joined."""
    wire = WireView(system=system.content if system is not None else None)
    for unit in units:
        call_ids = ids.assign(unit)
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


def _join_source(wire: WireView, source: int | None) -> None:
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
            "name": normalize_name(name),
            "input": parse_arguments(arguments),
        }
        for call_id, (name, arguments) in zip(
            call_ids, map(get_sent_form, item.calls), strict=True
        )
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
            block["content"] = _EMPTY_RESULT
    return block


# --- The check


def find_problems(dialect: Dialect, messages: Messages) -> list[str]:
    """What a provider would refuse, one line each; empty for a valid view."""
    check = _Anthropic() if dialect == "anthropic" else _OpenAI()
    return check.run(messages)


class _Check:
    """What both dialects share; `open` are the calls that wait for a result."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.ids: set[str] = set()
        self.open: dict[str, None] = {}

    def report(self, position: int, what: str) -> None:
        self.problems.append(f"message {position}: {what}")

    def check_text(self, position: int, text: object) -> None:
        if not isinstance(text, str):
            self.report(position, "its text is no text")
        elif clean_text(text) is not text:
            self.report(position, "its text holds NUL or a lone surrogate")

    def check_call(self, position: int, call_id: object, name: object) -> None:
        if not isinstance(call_id, str) or not call_id:
            self.report(position, "a tool call has no id")
            return
        if call_id in self.ids:
            self.report(position, f"the tool call id {call_id} repeats")
        elif not CALL_ID.fullmatch(call_id):
            what = f"the tool call id {call_id[:80]!r} is not nine letters and digits"
            self.report(position, what)
        if not isinstance(name, str) or not name:
            self.report(position, "a tool call has no name")
        elif not _NAME.fullmatch(name):
            self.report(position, f"a tool call is named {name[:80]!r}")
        self.ids.add(call_id)
        self.open[call_id] = None

    def check_result(self, position: int, call_id: str) -> None:
        if call_id in self.open:
            del self.open[call_id]
        else:
            self.report(position, f"a result for {call_id} has no call before it")

    def check_no_open_call(self, position: int) -> None:
        if self.open:
            self.report(position, f"no result for {', '.join(self.open)} before it")
            self.open.clear()

    def check_ends(self, messages: Messages, last_roles: tuple[str, ...]) -> None:
        talk = [m for m in messages if m.get("role") != "system"]
        if not talk:
            self.problems.append("the view holds no message")
            return
        if talk[0].get("role") != "user":
            self.problems.append("the first message is not the user's")
        if talk[-1].get("role") not in last_roles:
            self.problems.append("the last message is the assistant's")


class _OpenAI(_Check):
    """Chat completions, also behind a template that wants user and assistant by turns.

    `spoke` is the role of the newest text: calls and results do not count there.
    """

    spoke = ""

    def run(self, messages: Messages) -> list[str]:
        roles: dict[str, Callable[[int, Mapping[str, Any]], None]] = {
            "system": self.check_system,
            "user": self.check_user,
            "assistant": self.check_assistant,
            "tool": self.check_tool,
        }
        for position, message in enumerate(messages):
            check = roles.get(message.get("role", ""))
            if check is None:
                self.report(position, f"role {message.get('role')} is unknown")
                continue
            if message["role"] != "tool":
                self.check_no_open_call(position)
            check(position, message)
            self.check_turns(position, messages)
        self.check_no_open_call(len(messages))
        self.check_ends(messages, ("user", "tool"))
        return self.problems

    def check_turns(self, position: int, messages: Messages) -> None:
        """Check that a text stands where the strictest server takes one."""
        message = messages[position]
        role = message["role"]
        if role not in ("user", "assistant") or message.get("tool_calls"):
            return
        if role == self.spoke:
            self.report(position, f"two texts of the {role} follow each other")
        if role == "user" and position and messages[position - 1].get("role") == "tool":
            self.report(position, "a user message follows a tool result")
        self.spoke = role

    def check_system(self, position: int, message: Mapping[str, Any]) -> None:
        if position:
            self.report(position, "a system message stands elsewhere than first")
        self.check_user(position, message)

    def check_user(self, position: int, message: Mapping[str, Any]) -> None:
        self.check_text(position, message.get("content"))
        if not message.get("content"):
            self.report(position, "it is empty")

    def check_assistant(self, position: int, message: Mapping[str, Any]) -> None:
        calls = message.get("tool_calls") or []
        content = message.get("content")
        if content is not None:
            self.check_text(position, content)
        if not content and not calls:
            self.report(position, "the assistant says and calls nothing")
        for call in calls:
            function = call.get("function", {})
            self.check_call(position, call.get("id"), function.get("name"))
            arguments = function.get("arguments")
            if not isinstance(arguments, str) or not is_object(arguments):
                self.report(position, "the arguments of a call are no JSON object")

    def check_tool(self, position: int, message: Mapping[str, Any]) -> None:
        self.check_text(position, message.get("content"))
        self.check_result(position, str(message.get("tool_call_id")))


class _Anthropic(_Check):
    def run(self, messages: Messages) -> list[str]:
        role = ""
        for position, message in enumerate(messages):
            if message.get("role") not in ("user", "assistant"):
                self.report(position, f"role {message.get('role')} is unknown")
                continue
            if message["role"] == role:
                self.report(position, "two messages of one role follow each other")
            role = message["role"]
            blocks = message.get("content")
            if not isinstance(blocks, list) or not blocks:
                self.report(position, "it is empty")
                continue
            self.check_blocks(position, role, blocks)
        self.check_no_open_call(len(messages))
        self.check_ends(messages, ("user",))
        return self.problems

    def check_blocks(
        self, position: int, role: str, blocks: list[dict[str, Any]]
    ) -> None:
        results = [block for block in blocks if block.get("type") == "tool_result"]
        if blocks[: len(results)] != results:
            self.report(position, "tool results do not come first")
        for block in results:
            self.check_text(position, block.get("content"))
            self.check_result(position, str(block.get("tool_use_id")))
        self.check_no_open_call(position)
        for block in blocks:
            self.check_block(position, role, block)

    def check_block(self, position: int, role: str, block: dict[str, Any]) -> None:
        kind = block.get("type")
        if kind == "text":
            self.check_text(position, block.get("text"))
            if not str(block.get("text")).strip():
                self.report(position, "a text block is blank")
        elif kind == "tool_use" and role == "assistant":
            self.check_call(position, block.get("id"), block.get("name"))
            if not isinstance(block.get("input"), dict):
                self.report(position, "the input of a call is no object")
        elif kind == "thinking" and role == "assistant":
            if not block.get("signature"):
                self.report(position, "a thinking block is not signed")
        elif kind != "tool_result" or role != "user":
            self.report(position, f"a {kind} block may not stand here")
