"""Secrets of other programs stay behind when their histories come in (A11, I27)."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace
from typing import Any

from .line import Line

HIDDEN = "[hidden]"
SHORTEST = 4

_NAME = r"(?:\w*password|session[ _-]?id|\w*token|registration_code)"
# As a value of JSON, quoted once or, inside of a text of JSON, twice.
_VALUE = re.compile(rf'({_NAME}\\?"\s*:\s*\\?")((?:[^"\\]|\\.)+?)(\\?")', re.I)
_SAID = re.compile(rf"\b({_NAME})(\W{{1,6}}|\W+is\W+)([\w-]{{16,}})", re.I)


def masked(line: Line, secrets: Collection[str] = ()) -> Line:
    """A message without passwords, sessions and tokens."""
    return replace(
        line,
        content=clean(line.content, secrets),
        reasoning=clean(line.reasoning, secrets),
        tool_calls=_cleaned(line.tool_calls, secrets),
        args=_cleaned(line.args, secrets),
    )


def clean(text: str, secrets: Collection[str] = ()) -> str:
    """A text without them; one that holds none comes back as it was."""
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= SHORTEST:
            text = text.replace(secret, HIDDEN)
    text = _VALUE.sub(rf"\1{HIDDEN}\3", text)
    return _SAID.sub(rf"\1\2{HIDDEN}", text)


def _cleaned(value: Any, secrets: Collection[str], key: str = "") -> Any:
    if isinstance(value, dict):
        return {name: _cleaned(item, secrets, name) for name, item in value.items()}
    if isinstance(value, list):
        return [_cleaned(item, secrets) for item in value]
    if not isinstance(value, str):
        return value
    if value and re.fullmatch(_NAME, key, re.I):
        return HIDDEN
    return clean(value, secrets)
