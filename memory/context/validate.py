"""The rules of the dialects, checked on every view before it is sent (I4-I8)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from memory.context.arguments import is_object
from memory.context.text import clean
from memory.context.types import Dialect

Messages = Sequence[Mapping[str, Any]]

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


def validate(dialect: Dialect, messages: Messages) -> list[str]:
    """What a provider would refuse, one line each; empty for a valid view."""
    check = _Anthropic() if dialect == "anthropic" else _OpenAI()
    return check.run(messages)


class _Check:
    def __init__(self) -> None:
        self.problems: list[str] = []
        self.ids: set[str] = set()
        self.open: dict[str, None] = {}

    def say(self, position: int, what: str) -> None:
        self.problems.append(f"message {position}: {what}")

    def sendable(self, position: int, text: object) -> None:
        if not isinstance(text, str):
            self.say(position, "its text is no text")
        elif clean(text) is not text:
            self.say(position, "its text holds NUL or a lone surrogate")

    def call(self, position: int, call_id: object, name: object) -> None:
        if not isinstance(call_id, str) or not call_id:
            self.say(position, "a tool call has no id")
            return
        if call_id in self.ids:
            self.say(position, f"the tool call id {call_id} repeats")
        if not isinstance(name, str) or not name:
            self.say(position, "a tool call has no name")
        elif not _NAME.fullmatch(name):
            self.say(position, f"a tool call is named {name[:80]!r}")
        self.ids.add(call_id)
        self.open[call_id] = None

    def result(self, position: int, call_id: str) -> None:
        if call_id in self.open:
            del self.open[call_id]
        else:
            self.say(position, f"a result for {call_id} has no call before it")

    def closed(self, position: int) -> None:
        if self.open:
            self.say(position, f"no result for {', '.join(self.open)} before it")
            self.open.clear()

    def ends(self, messages: Messages, last_roles: tuple[str, ...]) -> None:
        talk = [m for m in messages if m.get("role") != "system"]
        if not talk:
            self.problems.append("the view holds no message")
            return
        if talk[0].get("role") != "user":
            self.problems.append("the first message is not the user's")
        if talk[-1].get("role") not in last_roles:
            self.problems.append("the last message is the assistant's")


class _OpenAI(_Check):
    def run(self, messages: Messages) -> list[str]:
        roles: dict[str, Callable[[int, Mapping[str, Any]], None]] = {
            "system": self.system,
            "user": self.user,
            "assistant": self.assistant,
            "tool": self.tool,
        }
        for position, message in enumerate(messages):
            check = roles.get(message.get("role", ""))
            if check is None:
                self.say(position, f"role {message.get('role')} is unknown")
                continue
            if message["role"] != "tool":
                self.closed(position)
            check(position, message)
        self.closed(len(messages))
        self.ends(messages, ("user", "tool"))
        return self.problems

    def system(self, position: int, message: Mapping[str, Any]) -> None:
        if position:
            self.say(position, "a system message stands elsewhere than first")
        self.user(position, message)

    def user(self, position: int, message: Mapping[str, Any]) -> None:
        self.sendable(position, message.get("content"))
        if not message.get("content"):
            self.say(position, "it is empty")

    def assistant(self, position: int, message: Mapping[str, Any]) -> None:
        calls = message.get("tool_calls") or []
        content = message.get("content")
        if content is not None:
            self.sendable(position, content)
        if not content and not calls:
            self.say(position, "the assistant says and calls nothing")
        for call in calls:
            function = call.get("function", {})
            self.call(position, call.get("id"), function.get("name"))
            arguments = function.get("arguments")
            if not isinstance(arguments, str) or not is_object(arguments):
                self.say(position, "the arguments of a call are no JSON object")

    def tool(self, position: int, message: Mapping[str, Any]) -> None:
        self.sendable(position, message.get("content"))
        self.result(position, str(message.get("tool_call_id")))


class _Anthropic(_Check):
    def run(self, messages: Messages) -> list[str]:
        role = ""
        for position, message in enumerate(messages):
            if message.get("role") not in ("user", "assistant"):
                self.say(position, f"role {message.get('role')} is unknown")
                continue
            if message["role"] == role:
                self.say(position, "two messages of one role follow each other")
            role = message["role"]
            blocks = message.get("content")
            if not isinstance(blocks, list) or not blocks:
                self.say(position, "it is empty")
                continue
            self.blocks(position, role, blocks)
        self.closed(len(messages))
        self.ends(messages, ("user",))
        return self.problems

    def blocks(self, position: int, role: str, blocks: list[dict[str, Any]]) -> None:
        results = [block for block in blocks if block.get("type") == "tool_result"]
        if blocks[: len(results)] != results:
            self.say(position, "tool results do not come first")
        for block in results:
            self.sendable(position, block.get("content"))
            self.result(position, str(block.get("tool_use_id")))
        self.closed(position)
        for block in blocks:
            self.block(position, role, block)

    def block(self, position: int, role: str, block: dict[str, Any]) -> None:
        kind = block.get("type")
        if kind == "text":
            self.sendable(position, block.get("text"))
            if not str(block.get("text")).strip():
                self.say(position, "a text block is blank")
        elif kind == "tool_use" and role == "assistant":
            self.call(position, block.get("id"), block.get("name"))
            if not isinstance(block.get("input"), dict):
                self.say(position, "the input of a call is no object")
        elif kind == "thinking" and role == "assistant":
            if not block.get("signature"):
                self.say(position, "a thinking block is not signed")
        elif kind != "tool_result" or role != "user":
            self.say(position, f"a {kind} block may not stand here")
