"""Secrets stay out of every view, also where somebody repeats them (A11, I27).

Arguments and results of `secret` tools are hidden whole. The passwords, tokens and
keys among them are hidden wherever else they stand as well.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from typing import Any

from memory.context.arguments import REDACTED, load
from memory.context.policy import PolicyOf
from memory.context.text import clean
from memory.context.types import Message

Sanitizer = Callable[[str], str]

_SENSITIVE = re.compile(
    r"pass(word|wd|phrase)?$|secret|token|api_?key|session_id", re.IGNORECASE
)
_SHORTEST = 6


def sanitizer(messages: Iterable[Message], policy_of: PolicyOf) -> Sanitizer:
    """The function that makes a text of this log sendable: clean, without secrets."""
    values = _values(messages, policy_of)
    if not values:
        return clean
    longest_first = sorted(values, key=lambda value: (-len(value), value))
    pattern = re.compile("|".join(map(re.escape, longest_first)))

    def sanitize(text: str) -> str:
        text = clean(text)
        if any(value in text for value in values):
            return pattern.sub(REDACTED, text)
        return text

    return sanitize


def _values(messages: Iterable[Message], policy_of: PolicyOf) -> set[str]:
    """What the secret calls of the log and their results hold under telling names."""
    values: set[str] = set()
    ids: set[str] = set()
    for message in messages:
        for call in message.tool_calls:
            if policy_of(call.name) == "secret":
                ids.add(call.id)
                _collect(load(call.arguments), values)
        if message.tool_call_id in ids:
            _collect(load(message.content), values)
    return values


def _collect(value: Any, found: set[str]) -> None:
    """Iterative, since a result may be nested deeply."""
    rest = [value]
    while rest:
        value = rest.pop()
        if isinstance(value, list):
            rest.extend(value)
        elif isinstance(value, dict):
            for key, item in value.items():
                if not isinstance(item, str):
                    rest.append(item)
                elif len(item) >= _SHORTEST and _SENSITIVE.search(key):
                    found.update(_spellings(clean(item)))


def _spellings(secret: str) -> set[str]:
    """The secret as it is, and as JSON writes it inside of other calls and results."""
    plain = json.dumps(secret, ensure_ascii=False)[1:-1]
    return {secret, plain, json.dumps(secret)[1:-1]}
