"""Secrets of other programs stay behind when their histories come in (A11, I27)."""

from __future__ import annotations

import json
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
# Shorter ones where they look like one: with a digit, after the word or "is".
_TOLD = re.compile(
    r"\b(\w*password)(\W{1,6}|\W+is\W+)(?=\S*\d)([^\s\"'\\,;<>(){}\[\]]{4,})", re.I
)
_NUMBERED = r"(?:\w*password|session[ _-]?id)"
_NUMBER = re.compile(rf'({_NUMBERED}(\\?")\s*:\s*)-?\d[\d.]*', re.I)


def masked(line: Line, secrets: Collection[str] = ()) -> Line:
    """A message without passwords, sessions and tokens."""
    known = _spellings(secrets)
    cleaned = replace(
        line,
        content=clean(line.content, known),
        reasoning=clean(line.reasoning, known),
        tool_calls=_cleaned(line.tool_calls, known),
        args=_cleaned(line.args, known),
    )
    return line if cleaned == line else replace(cleaned, raw=line)


def _spellings(secrets: Collection[str]) -> frozenset[str]:
    """Secrets as they stand in texts, and as they stand in JSON."""
    dumped = (json.dumps(secret)[1:-1] for secret in secrets)
    plain = (json.dumps(secret, ensure_ascii=False)[1:-1] for secret in secrets)
    return frozenset((*secrets, *dumped, *plain))


def clean(text: str, secrets: Collection[str] = ()) -> str:
    """A text without them; one that holds none comes back as it was."""
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= SHORTEST:
            text = text.replace(secret, HIDDEN)
    text = _VALUE.sub(rf"\1{HIDDEN}\3", text)
    text = _NUMBER.sub(rf"\1\2{HIDDEN}\2", text)
    return _TOLD.sub(rf"\1\2{HIDDEN}", _SAID.sub(rf"\1\2{HIDDEN}", text))


def _cleaned(value: Any, secrets: Collection[str], key: str = "") -> Any:
    if isinstance(value, dict):
        return {name: _cleaned(item, secrets, name) for name, item in value.items()}
    if isinstance(value, list):
        return [_cleaned(item, secrets) for item in value]
    if isinstance(value, int | float) and not isinstance(value, bool):
        return HIDDEN if re.fullmatch(_NUMBERED, key, re.I) else value
    if not isinstance(value, str):
        return value
    if value and re.fullmatch(_NAME, key, re.I):
        return HIDDEN
    return clean(value, secrets)
