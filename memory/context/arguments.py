"""Arguments of tool calls: JSON text that must be an object when it is sent."""

from __future__ import annotations

import json
import math
import re
from functools import lru_cache
from typing import Any, NoReturn

from memory.context.text import clean

REDACTED = "[redacted]"

_ODD_NAME = re.compile(r"[^A-Za-z0-9_-]")
_NAME_LENGTH = 64
_SHORT = 256
_ODD_ESCAPE = re.compile(r"\\u(?:[dD][89a-fA-F]|0000)")


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _finite(text: str) -> float | str:
    number = float(text)
    return number if math.isfinite(number) else str(number)


_DECODER = json.JSONDecoder(parse_constant=_refuse)
#: For values that are written again: 1e999 is JSON, but infinity is not.
_FINITE_DECODER = json.JSONDecoder(parse_constant=_refuse, parse_float=_finite)
_INVALID = object()


@lru_cache(maxsize=4096)
def wire_name(name: str) -> str:
    """The tool name in the alphabet that providers accept."""
    return _ODD_NAME.sub("_", name)[:_NAME_LENGTH] or "unknown"


def as_object(text: str) -> tuple[str, bool]:
    """The text of a JSON object to send, and whether it still says the same.

    Nothing at all and `null` mean no arguments. What is no object becomes `{}`,
    since a provider refuses the whole request for it (I8).
    """
    if text == "{}":
        return text, True
    text = clean(text)
    if is_object(text):
        try:
            return _without_odd_escapes(text), True
        except RecursionError:
            return "{}", False
    return "{}", not text.strip() or load(text) is None


def is_object(text: str) -> bool:
    """Whether this is the text of a JSON object; what is short is remembered."""
    if len(text) <= _SHORT:
        return _is_short_object(text)
    return isinstance(load(text), dict)


@lru_cache(maxsize=4096)
def _is_short_object(text: str) -> bool:
    return isinstance(load(text), dict)


def load(text: str, decoder: json.JSONDecoder = _DECODER) -> Any:
    """The value of a JSON text; a private mark, never equal to a value, if invalid."""
    try:
        return decoder.decode(text)
    except (ValueError, RecursionError):
        return _INVALID


def load_object(text: str) -> dict[str, Any]:
    """The object of arguments as `as_object` leaves them, which can be sent as it is.

    `{}` where it is none.
    """
    value = load(text, _FINITE_DECODER)
    return value if isinstance(value, dict) else {}


def canonical(text: str) -> str:
    """One spelling for equal arguments; empty for none (A6)."""
    if text in ("", "{}"):
        return ""
    value = load(text)
    if value is _INVALID:
        return text
    if not value:
        return ""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def redacted(text: str) -> str:
    """The same argument names with every value hidden (A11)."""
    hidden = dict.fromkeys(map(clean, load_object(text)), REDACTED)
    return json.dumps(hidden, ensure_ascii=False, separators=(",", ":"))


def clean_value(value: Any) -> Any:
    """A JSON value whose strings and numbers can all be sent.

    Raises RecursionError for one that is nested some hundred times.
    """
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {clean(key): clean_value(item) for key, item in value.items()}
    if isinstance(value, list):
        return [clean_value(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def _without_odd_escapes(text: str) -> str:
    if "\\u" not in text or not _ODD_ESCAPE.search(text):
        return text
    value = load(text)
    cleaned = clean_value(value)
    if cleaned == value:
        return text
    return json.dumps(cleaned, ensure_ascii=False, separators=(",", ":"))
