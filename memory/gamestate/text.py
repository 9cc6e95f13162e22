"""Game values as short, safe words.

Names and messages come from other players and from models. Whatever they hold,
they stay inside their line of the summary: one line, bounded, no control marks.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Mapping

MAX_VALUE = 60
MAX_SOURCE = 2_000
"""No more of a value is even looked at."""

HUGE = 10**15

_SPACE = re.compile(r"\s+")
_JOINERS = {"\u200d", "\ufe0e", "\ufe0f"}
# Characters that reorder or hide the text around them.
_HIDDEN = re.compile(
    "[\u200b\u200e\u200f\u2028\u2029\u202a-\u202e\u2060\u2066-\u2069\ufeff]"
)


def line(value: object, limit: int = MAX_VALUE) -> str:
    """A value as one bounded line; "" for what cannot be shown in one."""
    if isinstance(value, bool):
        return "Yes" if value else "No"
    if isinstance(value, (int, float)):
        return number(value)
    if not isinstance(value, str):
        return ""
    return clip(_printable(value[:MAX_SOURCE]), limit)


def _printable(text: str) -> str:
    """White space as single blanks, control and surrogate characters gone."""
    if text.isprintable() and "  " not in text:
        return text.strip()
    spaced = _SPACE.sub(" ", _HIDDEN.sub(" ", text))
    kept = (c for c in spaced if unicodedata.category(c) not in ("Cc", "Cs"))
    return "".join(kept).strip()


def clip(text: str, limit: int) -> str:
    """At most ``limit`` characters, cut between characters as a reader sees them."""
    if len(text) <= limit:
        return text
    cut = max(0, limit - 1)
    while cut > 0 and (_clings(text[cut]) or text[cut - 1] == "\u200d"):
        cut -= 1
    return f"{text[:cut].rstrip()}…"


def _clings(character: str) -> bool:
    return character in _JOINERS or unicodedata.combining(character) != 0


def number(value: float, *, grouped: bool = False) -> str:
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


def is_number(value: object) -> bool:
    """Whether a value is a number that can be shown."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def quantity(value: object) -> str:
    """A number (``grouped`` or not), else the value as a line."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return number(value, grouped=True)
    return line(value)


def ratio(value: object, limit: object) -> str:
    """``85/100``, or the value alone where the limit is unknown."""
    shown = line(value)
    of = line(limit)
    return f"{shown}/{of}" if shown and of else shown


def title(tool: str) -> str:
    """A heading for a tool: ``get_active_missions`` is "Active Missions"."""
    words = re.sub(r"^(?:get|view|list)_", "", tool)
    return line(words.replace("_", " "), 40).title() or "Result"


EMPIRES: Mapping[str, str] = {
    "solarian": "Solarian Empire",
    "voidborn": "Voidborn Empire",
    "crimson": "Crimson Empire",
    "nebula": "Nebula Empire",
    "outerrim": "Outer Rim Empire",
}


def empire(value: object) -> str:
    """An empire's id as its name; names stay as they are."""
    shown = line(value, 40)
    return EMPIRES.get(shown.lower(), shown)
