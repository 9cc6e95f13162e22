"""One message on its way in or out, without secrets, and whether it is there already.

Secrets of other programs stay behind when their histories come in (A11, I27). Which
messages are there is known by what they say and when it was said.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from django.db import connection

from memory.context.types import DEFAULT_ORIGINS, ROLES, is_order
from memory.gamestate.values import make_storable
from memory.models import fetch_rows
from memory.models.log import IS_ORDER, STANDS
from memory.redaction import HIDDEN, hide_secrets, hide_secrets_in_value


class TransferError(Exception):
    """A history that cannot be read or stored; one line says where and why."""


@dataclass(frozen=True, slots=True)
class TransferMessage:
    """One message; the order of its fields is that of the keys in an export.

    ``created_at`` is None where the source does not say it, ``broadcast_at`` when the
    broadcast that it delivers was sent, ``raw`` the same message with any secrets. What
    was ``taken_back`` is in no view.
    """

    role: str
    origin: str
    sender: str = ""
    content: str = ""
    reasoning: str = ""
    signature: str = ""
    tool_calls: list[dict[str, Any]] = field(default_factory=list)
    tool_call_id: str = ""
    tool_name: str = ""
    args: dict[str, Any] = field(default_factory=dict)
    is_error: bool = False
    pending: bool = False
    tick: int | None = None
    created_at: datetime | None = None
    broadcast_at: datetime | None = None
    taken_back: bool = False
    raw: TransferMessage | None = None


@dataclass(frozen=True, slots=True)
class TransferNote:
    """A note; ``written_at`` is None where the source does not say it."""

    name: str
    text: str
    author: str = ""
    written_at: datetime | None = None


def find_default_origin(role: str) -> str:
    """The origin that a role suggests; the role is one of the known ones."""
    return next(DEFAULT_ORIGINS[known] for known in ROLES if known == role)


def make_call(call_id: str, name: str, arguments: str) -> dict[str, Any]:
    """A tool call as rows hold it."""
    function = {"name": name, "arguments": arguments}
    return {"id": call_id, "type": "function", "function": function}


def parse_object(value: object) -> dict[str, Any]:
    """A JSON object, from itself or from its text; empty from everything else."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return {}
    found = make_storable(value)
    return found if isinstance(found, dict) else {}


LONGEST_MOMENT = 100
# As databases of Go programs write it, with or without a fraction and a zone.
_MOMENT = re.compile(
    r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:\.(\d+))?\s*"
    r"(Z|[+-]\d\d:?\d\d)?(?:\s+\w+)?(?:\s+m=\S+)?"
)


def parse_moment(value: object) -> datetime | None:
    """A point in time, from a text or from seconds since 1970; None from others."""
    if isinstance(value, bool) or value is None:
        return None
    try:
        if isinstance(value, int | float):
            return datetime.fromtimestamp(value, UTC)
        text = str(value).strip()
        found = _MOMENT.fullmatch(text) if len(text) <= LONGEST_MOMENT else None
        if found is None:
            return None
        day, time, fraction, zone = found.groups()
        micros = f"{(fraction or '0')[:6]:0<6}"
        zone = "+00:00" if zone in (None, "Z") else zone
        return datetime.fromisoformat(f"{day}T{time}.{micros}{zone}")
    except (ValueError, OverflowError, OSError):
        return None


def parse_tick(value: object) -> int | None:
    """A whole number that can be stored; None from others."""
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if abs(value) < 2**62 else None


def mask_message(
    line: TransferMessage, secrets: Collection[str] = ()
) -> TransferMessage:
    """A message without passwords, sessions and tokens."""
    cleaned = replace(
        line,
        content=hide_secrets(line.content, secrets),
        reasoning=hide_secrets(line.reasoning, secrets),
        tool_calls=hide_secrets_in_value(line.tool_calls, secrets),
        args=hide_secrets_in_value(line.args, secrets),
    )
    return line if cleaned == line else replace(cleaned, raw=line)


# --- Messages that are there already

Key = tuple[str, str, str, str, str, datetime | None]
_KEY_COLUMNS = """
role, md5(content), md5(reasoning), tool_call_id,
coalesce(tool_calls->0->>'id', ''), created_at
"""
_KNOWN = f"SELECT {_KEY_COLUMNS} FROM memory_memory WHERE mysis_id = %s"  # noqa: S608
_NEWEST_ORDER = f"""
SELECT {_KEY_COLUMNS} FROM memory_memory
WHERE mysis_id = %s AND {IS_ORDER} AND {STANDS} ORDER BY id DESC LIMIT 1
"""  # noqa: S608 (no input in the text)


class KnownMessages:
    """The messages that are stored, each to be matched as often as it is stored."""

    def __init__(self, mysis_id: int) -> None:
        self._timed: Counter[Key] = Counter()
        self._untimed: Counter[Key] = Counter()
        self._places: Counter[tuple[object, ...]] = Counter()
        with connection.cursor() as cursor:
            cursor.execute(_KNOWN, [mysis_id])
            for row in cursor:
                self._timed[tuple(row)] += 1
                self._untimed[(*row[:5], None)] += 1
                self._places[_find_place(tuple(row))] += 1

    def take_match(self, line: TransferMessage) -> bool:
        """Whether a message is stored; then one of its kind is used up.

        It may be stored as it was before its secrets were taken out.
        """
        known = self._untimed if line.created_at is None else self._timed
        place = _find_place(_key_of(line))
        for key in (_key_of(line), _key_of(line.raw) if line.raw else None):
            if key is not None and known[key] > 0:
                known[key] -= 1
                self._places[place] -= 1
                return True
        if line.created_at is None or not _hides_something(line):
            return False
        found = self._places[place] > 0
        self._places[place] -= found
        return found

    def has_match(self, key: Key) -> bool:
        """Whether one of this kind is not used up."""
        return self._timed[key] > 0 and self._untimed[(*key[:5], None)] > 0


def survey_source(
    mysis_id: int, lines: Iterable[TransferMessage], done: Callable[[int], None]
) -> tuple[int, bool]:
    """Count a source's messages, and tell whether some of its orders come too late.

    They do if they are new here, but older than another order of the Mysis: stored now
    they would pass for newer ones.
    """
    known = KnownMessages(mysis_id)
    orders = fetch_rows(_NEWEST_ORDER, [mysis_id])
    newest = next(iter(orders), None)
    total, late = 0, False
    for line in lines:
        total += 1
        new = not known.take_match(line)
        stands = not line.taken_back
        if new and newest and stands and is_order(line.origin, line.sender):
            late |= line.created_at is None or line.created_at < newest[5]
        done(1)
    return total, late and newest is not None and known.has_match(newest[0:6])


def _key_of(line: TransferMessage) -> Key:
    calls = line.tool_calls
    return (
        line.role,
        _md5(line.content),
        _md5(line.reasoning),
        line.tool_call_id,
        calls[0]["id"] if calls else "",
        line.created_at,
    )


def _find_place(key: Key) -> tuple[object, ...]:
    """What of a key stays the same where secrets are taken out."""
    return (key[0], *key[3:])


def _hides_something(line: TransferMessage) -> bool:
    return HIDDEN in f"{line.content}{line.reasoning}"


def _md5(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
