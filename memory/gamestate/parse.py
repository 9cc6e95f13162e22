"""Lenient reading of text that should be JSON (A24).

Whatever a server sends ends as a JSON value that can be stored, or as its own
text: NaN and infinities become null, NUL and lone surrogates are taken out, and
what is nested too deep to be handled safely stays text.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping

MAX_DEPTH = 100
"""Deeper values are kept as text: databases and browsers refuse them."""

MAX_INT_BITS = 1024
"""Python refuses to write out much longer numbers; the game has none."""

_SURROGATE = re.compile("[\ud800-\udfff]")
_SUSPECT = ("\x00", "\\u0000", "\\ud", "\\uD")


def parse_text(text: str) -> object:
    """The JSON value that ``text`` is, or the cleaned text itself. Never raises."""
    body = text.strip()
    if body[:1] not in ("{", "["):
        return clean_text(text)
    try:
        value = json.loads(body, parse_constant=_no_number, parse_float=_number)
    except (ValueError, RecursionError):
        return clean_text(text)
    if is_deep(value):
        return clean_text(text)
    if any(mark in body for mark in _SUSPECT) or _SURROGATE.search(body):
        return storable(value)
    return value


def clean_text(text: str) -> str:
    """The text without NUL, with lone surrogates replaced by U+FFFD."""
    return _SURROGATE.sub("\ufffd", text.replace("\x00", ""))


def is_deep(value: object, limit: int = MAX_DEPTH) -> bool:
    """Whether a parsed JSON value nests deeper than ``limit`` levels."""
    level = [value] if isinstance(value, (dict, list)) else []
    for _ in range(limit):
        if not level:
            return False
        level = [
            child
            for item in level
            for child in (item.values() if isinstance(item, dict) else item)
            if isinstance(child, (dict, list))
        ]
    return bool(level)


def storable(value: object, depth: int = MAX_DEPTH) -> object:
    """A copy that any JSON store takes: text keys, no NaN, no NUL, bounded depth."""
    if isinstance(value, str):
        return clean_text(value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if value.bit_length() <= MAX_INT_BITS else None
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if depth <= 0:
        return None
    if isinstance(value, Mapping):
        return {
            clean_text(str(key)): storable(item, depth - 1)
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [storable(item, depth - 1) for item in value]
    return clean_text(str(value))


def _no_number(_: str) -> None:
    return None


def _number(text: str) -> float | None:
    value = float(text)
    return value if math.isfinite(value) else None
