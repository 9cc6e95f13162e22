"""Values of the game: read from text, found by JSON path, shown as safe words.

Whatever a server sends becomes a JSON value that can be stored, or stays text (A24):
NaN and infinities become null, NUL and lone surrogates go. A path such as
``missions.*.current`` names the value it leads to and all below it; ``*`` stands for
every element. Names come from other players and models: whatever they hold, they are
shown within one bounded line.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections import deque
from collections.abc import Iterator, Mapping
from typing import TypeGuard

from memory.gamestate.dashboards import read_dashboard

# Deeper values are kept as text: databases and browsers refuse them.
MAX_DEPTH = 100
# Python refuses to write out much longer numbers; the game has none.
MAX_INT_BITS = 1024

_SURROGATE = re.compile("[\ud800-\udfff]")
_SUSPECT = ("\x00", "\\u0000", "\\ud", "\\uD")


def parse_text(text: str) -> object:
    """The JSON value that ``text`` is, or the cleaned text itself. Never raises."""
    body = text.strip()
    if body[:1] not in ("{", "["):
        return repair_text(text)
    try:
        value = json.loads(body, parse_constant=lambda _: None, parse_float=_number)
    except (ValueError, RecursionError):
        return repair_text(text)
    if is_deep(value):
        return repair_text(text)
    if any(mark in body for mark in _SUSPECT) or _SURROGATE.search(body):
        return make_storable(value)
    return value


def repair_text(text: str) -> str:
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


def make_storable(value: object, depth: int = MAX_DEPTH) -> object:
    """A copy that any JSON store takes: text keys, no NaN, no NUL, bounded depth."""
    if isinstance(value, str):
        return repair_text(value)
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
            repair_text(str(key)): make_storable(item, depth - 1)
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [make_storable(item, depth - 1) for item in value]
    return repair_text(str(value))


def _number(text: str) -> float | None:
    value = float(text)
    return value if math.isfinite(value) else None


def walk_objects(value: object, most: int) -> Iterator[Mapping[str, object]]:
    """The objects in a JSON value, breadth first, among its first ``most`` nodes."""
    queue: deque[object] = deque([value])
    for _ in range(most):
        if not queue:
            return
        item = queue.popleft()
        if isinstance(item, dict):
            yield item
            queue.extend(v for v in item.values() if isinstance(v, (dict, list)))
        elif isinstance(item, list):
            queue.extend(v for v in item if isinstance(v, (dict, list)))


# --- Paths

MAX_BRANCHES = 200
ENVELOPES = ("structuredContent", "data", "result", "payload", "response")


def unwrap_content(content: object) -> object:
    """What facts are read from: the first object of several, an envelope's inside.

    A text of API v2 is read where its form is known, else it stays a text.
    """
    if isinstance(content, str):
        return read_dashboard(content) or content
    if isinstance(content, list):
        content = next((part for part in content if isinstance(part, Mapping)), content)
    if isinstance(content, Mapping):
        inner = (content.get(key) for key in ENVELOPES)
        return next((part for part in inner if isinstance(part, Mapping)), content)
    return content


def find_value(content: object, path: str) -> object:
    """The value at a path without ``*``, or None where there is none."""
    value = content
    for key in path.split("."):
        if not isinstance(value, Mapping):
            return None
        value = value.get(key)
    return value


def find_first(content: object, *paths: str) -> object:
    """The first of several paths that holds something."""
    for path in paths:
        value = find_value(content, path)
        if value is not None:
            return value
    return None


def applies_to(content: object, path: str) -> bool:
    """Whether a path applies to this content.

    A missing last key still counts: ``player.docked_at_base`` is absent while the
    ship is in space, and that absence is the fact.
    """
    values = [content]
    *parents, last = path.split(".")
    for key in parents:
        values = [child for value in values for child in _children(value, key)]
    if last == "*":
        return any(_children(value, "*") for value in values)
    return any(isinstance(value, Mapping) for value in values)


def _children(value: object, key: str) -> list[object]:
    if key == "*":
        if isinstance(value, Mapping):
            return list(value.values())[:MAX_BRANCHES]
        return value[:MAX_BRANCHES] if isinstance(value, list) else []
    if isinstance(value, Mapping) and key in value:
        return [value[key]]
    return []


def paths_overlap(one: str, other: str) -> bool:
    """Whether two paths share a value: one leads to or into the other."""
    # A loop: views of the state ask this ten thousand times.
    for mine, theirs in zip(one.split("."), other.split("."), strict=False):
        if mine != theirs and mine != "*" and theirs != "*":
            return False
    return True


# --- Words

MAX_VALUE = 60
# No more characters of a value are read.
MAX_SOURCE = 2_000
HUGE = 10**15

_SPACE = re.compile(r"\s+")
_JOINERS = {"\u200d", "\ufe0e", "\ufe0f"}
# Characters that reorder or hide the text around them.
_HIDDEN = re.compile(
    "[\u200b\u200e\u200f\u2028\u2029\u202a-\u202e\u2060\u2066-\u2069\ufeff]"
)


def format_line(value: object, limit: int = MAX_VALUE) -> str:
    """A value as one bounded line; "" for what is no text or number."""
    if isinstance(value, bool):
        return "Yes" if value else "No"
    if isinstance(value, (int, float)):
        return format_number(value)
    if not isinstance(value, str):
        return ""
    return _clip_text(_printable(value[:MAX_SOURCE]), limit)


def _printable(text: str) -> str:
    """White space as single blanks, control and surrogate characters gone."""
    if text.isprintable() and "  " not in text:
        return text.strip()
    spaced = _SPACE.sub(" ", _HIDDEN.sub(" ", text))
    kept = (c for c in spaced if unicodedata.category(c) not in ("Cc", "Cs"))
    return "".join(kept).strip()


def _clip_text(text: str, limit: int) -> str:
    """At most ``limit`` characters, cut between characters as a reader sees them."""
    if len(text) <= limit:
        return text
    cut = max(0, limit - 1)
    while cut > 0 and (
        text[cut] in _JOINERS
        or unicodedata.combining(text[cut])
        or text[cut - 1] == "\u200d"
    ):
        cut -= 1
    return f"{text[:cut].rstrip()}…"


def format_number(value: float, *, grouped: bool = False) -> str:
    """A number without needless digits; ``grouped`` writes 5,000."""
    if isinstance(value, float):
        if not math.isfinite(value):
            return "unknown"
        if value.is_integer() and abs(value) < HUGE:
            value = int(value)
    if abs(value) >= HUGE:
        return "over 10^15" if value > 0 else "under -10^15"
    if isinstance(value, float):
        return f"{value:,.2f}" if grouped else f"{value:.2f}".rstrip("0").rstrip(".")
    return f"{value:,}" if grouped else str(value)


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether a value is a number that can be shown."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def format_quantity(value: object) -> str:
    """A number such as 5,000, else the value as a line."""
    return (
        format_number(value, grouped=True) if is_number(value) else format_line(value)
    )


def format_ratio(value: object, limit: object) -> str:
    """``85/100``, or the value alone where the limit is unknown."""
    shown, most = format_line(value), format_line(limit)
    return f"{shown}/{most}" if shown and most else shown


def format_title(tool: str) -> str:
    """A heading for a tool: ``get_active_missions`` is "Active Missions"."""
    words = re.sub(r"^(?:get|view|list)_", "", tool)
    return format_line(words.replace("_", " "), 40).title() or "Result"


EMPIRES: Mapping[str, str] = {
    "solarian": "Solarian Empire",
    "voidborn": "Voidborn Empire",
    "crimson": "Crimson Empire",
    "nebula": "Nebula Empire",
    "outerrim": "Outer Rim Empire",
}


def format_empire(value: object) -> str:
    """An empire's id as its name; names stay as they are."""
    shown = format_line(value, 40)
    return EMPIRES.get(shown.lower(), shown)
