"""What a tool answered, as far as a reader can tell from its text."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Json = Mapping[str, Any]

_ERROR = re.compile(r"\s*error:\s*(?:([a-z][a-z0-9_]*):\s*)?(.*)", re.I | re.S)
_UNKNOWN = re.compile(r"\s*interrupted\b|.*\boutcome (?:is )?unknown\b", re.I)

LOGGED_OUT = frozenset(
    {
        "not_authenticated",
        "session_required",
        "session_invalid",
        "session_expired",
        "not_logged_in",
    }
)
"""Error codes that mean: nobody is logged in."""

WAIT = frozenset(
    {
        "rate_limited",
        "action_queued",
        "action_pending",
        "queue_full",
        "in_transit",
        "already_traveling",
        "already_jumping",
    }
)
"""Error codes that only time can mend."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The text of a result, and what could be read out of it.

    ``data`` is its JSON object, empty for other texts. ``code`` is set for errors,
    "error" where the error names none. ``unsure`` is an action that may or may not
    have happened.
    """

    text: str
    data: Json = field(default_factory=dict)
    code: str = ""
    message: str = ""
    unsure: bool = False

    @property
    def is_error(self) -> bool:
        return bool(self.code)


def read(text: str) -> Answer:
    """Read a tool result."""
    if found := _ERROR.match(text):
        return Answer(text, {}, found[1] or "error", found[2].strip())
    data = object_in(text)
    if data.get("error"):
        return _error(text, data)
    unsure = not data and bool(_UNKNOWN.match(text))
    return Answer(text, data, unsure=unsure)


def _error(text: str, data: Json) -> Answer:
    error = data["error"]
    if isinstance(error, Mapping):
        code, message = error.get("code"), error.get("message")
    else:
        code, message = error, data.get("message")
    return Answer(text, {}, str(code or "error"), str(message or ""))


def object_in(text: str) -> Json:
    """The JSON object of a text, also where some words stand before it."""
    start = text.find("{")
    if start < 0:
        return {}
    try:
        value, _ = json.JSONDecoder().raw_decode(text, start)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def mapping(value: object) -> Json:
    """An object, empty for anything else."""
    return value if isinstance(value, Mapping) else {}


def objects(value: object) -> list[Json]:
    """The objects of a list; the server writes null for an empty one."""
    found = value if isinstance(value, list) else []
    return [item for item in found if isinstance(item, Mapping)]


def texts(value: object) -> list[str]:
    """The texts of a list."""
    found = value if isinstance(value, list) else []
    return [item for item in found if isinstance(item, str)]


def text(value: object) -> str | None:
    """A text that says something."""
    return value if isinstance(value, str) and value else None


def whole(value: object) -> int | None:
    """A number without its fraction; true and false are none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return int(value)
