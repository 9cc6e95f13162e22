"""Read a tool result: its content, and its tick, account, error, queued or done.

Its MCP content blocks are read one by one and leniently: nothing raises here.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

from memory.gamestate.values import (
    find_first,
    is_number,
    make_storable,
    parse_text,
    repair_text,
    unwrap_content,
    walk_objects,
)

ENVELOPES = ("structuredContent", "data", "result", "payload", "response")
_MAX_NODES = 20_000
_MAX_TICK = 2**31 - 1
_MAX_CREDITS = 2**63
# The answer that the credits of an account are read from.
CREDITS_TOOL = "get_status"

# The codes of a refusal for want of a session of the account.
SESSION_CODES = frozenset(
    {"session_invalid", "session_required", "session_expired", "not_authenticated"}
)

_ERROR_TEXT = re.compile(
    r"\s*Error:\s*(?:(?P<code>[a-z][a-z0-9_]*):\s*)?(?P<message>.*)", re.DOTALL
)
# Without the prefix a word alone is no code: two joined by a stroke are.
_BARE_CODE = re.compile(
    r"\s*(?P<code>[a-z][a-z0-9]*(?:_[a-z0-9]+)+)(?:\s*$|:\s*(?P<message>.+))", re.DOTALL
)
_WAIT_TEXT = re.compile(r"[Tt]ry again in (\d+(?:\.\d+)?) second")
_NUMBER = re.compile(r"\s*\d{1,10}(?:\.\d+)?\s*")
_QUEUED_TEXT = re.compile(r"\b(?:queued|action pending)\b", re.IGNORECASE)
_STATUS_TEXT = re.compile(r"(?P<name>[^\n|]{1,60}?) \[[a-z]+\] \| [\d,]+cr \| ")
_WELCOME_TEXT = re.compile(r"Welcome(?: back)?, (?P<name>[^\n!]{1,60})! Session ID: ")


@dataclass(frozen=True, slots=True)
class GameError:
    """A refusal by the game: its code ("" where none was given) and its text."""

    code: str
    message: str
    wait_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """One tool result, read.

    ``content`` is the JSON value or text of the only block, or the list of them.
    ``tick_is_current`` tells a ``current_tick`` from the ``tick`` of some event.
    ``arrival_tick`` is when a queued action takes effect, never the current tick.
    ``is_unknown`` marks a lost answer: the action may be done, under way or untried.
    """

    content: object
    error: GameError | None = None
    tick: int | None = None
    tick_is_current: bool = False
    username: str | None = None
    queued: bool = False
    arrival_tick: int | None = None
    duration_ticks: int | None = None
    is_unknown: bool = False

    @property
    def is_error(self) -> bool:
        """Whether the game refused; a refusal is never stored (A7, A22)."""
        return self.error is not None


def read_result(blocks: object, *, is_error: bool = False) -> Result:
    """Read a tool result: MCP content blocks, a text, or a JSON value."""
    values = list(_values(blocks))
    content = values[0] if len(values) == 1 else values
    tick = next((found for value in values if (found := find_tick(value))), None)
    return Result(
        content=content,
        error=_find_error(values, flagged=is_error),
        tick=tick[0] if tick else None,
        tick_is_current=bool(tick and tick[1]),
        username=next((name for v in values if (name := find_username(v))), None),
        queued=any(_is_queued(value) for value in values),
        arrival_tick=_first_number(values, "arrival_tick"),
        duration_ticks=_first_number(values, "ticks"),
    )


def _values(blocks: object) -> Iterator[object]:
    if isinstance(blocks, (list, tuple)) and all(_is_block(b) for b in blocks):
        yield from map(_block_value, blocks)
    elif isinstance(blocks, (bytes, bytearray)):
        yield parse_text(blocks.decode("utf-8", errors="replace"))
    elif isinstance(blocks, str):
        yield parse_text(blocks)
    else:
        yield make_storable(blocks)


def _is_block(block: object) -> bool:
    if isinstance(block, Mapping):
        return isinstance(block.get("type"), str) and (
            "text" in block or block["type"] in {"image", "audio", "resource"}
        )
    return isinstance(getattr(block, "type", None), str)


def _block_value(block: object) -> object:
    if isinstance(block, Mapping):
        text = block.get("text")
    else:
        text = getattr(block, "text", None)
    return parse_text(text) if isinstance(text, str) else make_storable(block)


# --- Ticks


def find_tick(value: object) -> tuple[int, bool] | None:
    """The tick in a result, and whether it is called the current one.

    Any ``current_tick`` goes before any ``tick``; each is looked for at the top,
    then in the usual envelopes, then breadth first.
    """
    for key in ("current_tick", "tick"):
        for place in chain(_places(value), walk_objects(value, _MAX_NODES)):
            found = parse_tick(place.get(key))
            if found is not None:
                return found, key == "current_tick"
    return None


def _places(value: object) -> Iterator[Mapping[str, object]]:
    """The result itself, then what the usual envelopes hold."""
    if not isinstance(value, Mapping):
        return
    yield value
    inner = (value.get(name) for name in ENVELOPES)
    yield from (part for part in inner if isinstance(part, Mapping))


def parse_tick(value: object) -> int | None:
    """A tick number from an int, a float or a numeric text; None for anything else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        value = float(value) if _NUMBER.fullmatch(value) else None
    if isinstance(value, float):
        value = int(value) if math.isfinite(value) else None
    if isinstance(value, int) and 0 <= value <= _MAX_TICK:
        return value
    return None


def _first_number(values: list[object], key: str) -> int | None:
    found = (parse_tick(place.get(key)) for value in values for place in _places(value))
    return next((number for number in found if number is not None), None)


# --- Whose result it is


def find_username(value: object) -> str | None:
    """The account that a result is for (A22); names in lists are those of others."""
    if isinstance(value, str):
        found = _STATUS_TEXT.match(value) or _WELCOME_TEXT.match(value)
        return found.group("name").strip() or None if found else None
    for place in _places(value):
        player = place.get("player")
        named = player.get("username") if isinstance(player, Mapping) else None
        for name in (named, place.get("username")):
            if isinstance(name, str) and name.strip():
                return name.strip()
    return None


def belongs_to(result: Result, username: str) -> bool:
    """Whether a result names this account, in whatever case of letters, or none."""
    named = result.username
    return named is None or named.casefold() == username.casefold()


# --- Refused, queued


def _find_error(values: list[object], *, flagged: bool) -> GameError | None:
    error = next(filter(None, map(_read_error, values)), None)
    if error is not None:
        return error
    first = values[0] if values else ""
    text = first if isinstance(first, str) else _brief(first)
    bare = _error("", text)
    return bare if flagged or bare.code in SESSION_CODES else None


def _read_error(value: object) -> GameError | None:
    """The refusal in a value: an ``Error: code: message`` text, an ``error`` key that
    holds something, or ``throttled: true``; else None."""
    if isinstance(value, str):
        match = _ERROR_TEXT.match(value)
        if match is None:
            return None
        return _error(match.group("code") or "", match.group("message"))
    if not isinstance(value, Mapping):
        return None
    error = value.get("error")
    if isinstance(error, Mapping):
        return _error(
            _text(error.get("code")), _text(error.get("message")), {**value, **error}
        )
    if error:
        text = _text(error)
        return _error(text, _text(value.get("message")) or text, value)
    if value.get("throttled") is True:
        return _error("throttled", _text(value.get("message")) or "throttled", value)
    return None


def _error(
    code: str, message: str, source: Mapping[str, object] | None = None
) -> GameError:
    """An error without its code in the message, and with the wait that either names."""
    code = code if re.fullmatch(r"[a-z][a-z0-9_]*|-?\d+", code) else ""
    if not code and (bare := _BARE_CODE.match(message)):
        code, message = bare["code"], bare["message"] or bare["code"]
    message = message.strip().removeprefix(f"{code}:").strip() if code else message
    wait = find_first(source, "wait_seconds", "retry_after")
    if not is_number(wait):
        match = _WAIT_TEXT.search(message)
        return GameError(code, message, float(match.group(1)) if match else None)
    return GameError(code, message, max(0.0, float(wait)))


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else _brief(value)


def _brief(value: object) -> str:
    try:
        return json.dumps(make_storable(value), ensure_ascii=False)[:500]
    except (ValueError, RecursionError):
        return "unreadable error"


def _is_queued(value: object) -> bool:
    """Whether an action was only accepted for a later tick (eras A and B)."""
    if isinstance(value, str):
        return bool(_QUEUED_TEXT.search(value[:500]))
    return any(
        place.get("queued") is True or place.get("pending") is True
        for place in _places(value)
    )


# --- Arguments


def read_credits(tool: str, content: object) -> int | None:
    """The credits of the own account that an answer tells; None where it tells none."""
    if tool != CREDITS_TOOL:
        return None
    amount = find_first(unwrap_content(content), "player.credits", "credits")
    return int(amount) if is_number(amount) and abs(amount) < _MAX_CREDITS else None


def build_args_key(args: Mapping[str, object] | None) -> str:
    """Canonical JSON of arguments, "" for none; 2.0 is 2, and no session id."""
    own = {k: v for k, v in (args or {}).items() if k != "session_id"}
    if not own:
        return ""
    return json.dumps(
        _canonical(make_storable(own)),
        sort_keys=True,
        separators=(",", ":"),
        ensure_ascii=False,
    )


def _canonical(value: object) -> object:
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    if isinstance(value, dict):
        return {key: _canonical(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_canonical(item) for item in value]
    return repair_text(value) if isinstance(value, str) else value
