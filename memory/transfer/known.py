"""Which messages are there already: told by what they say and when it was said."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime

from django.db import connection

from memory.context.types import INTENT_ORIGINS

from .line import Line

Key = tuple[str, str, str, str, str, datetime | None]

COLUMNS = """
role, md5(content), md5(reasoning), tool_call_id,
coalesce(tool_calls->0->>'id', ''), created_at
"""
KNOWN = f"SELECT {COLUMNS} FROM memory_memory WHERE mysis_id = %s"  # noqa: S608
NEWEST_ORDER = f"""
SELECT {COLUMNS} FROM memory_memory
WHERE mysis_id = %s AND origin = ANY(%s) ORDER BY id DESC LIMIT 1
"""  # noqa: S608 (no input in the text)


class Known:
    """The messages that are there, each to be found as often as it is there."""

    def __init__(self, mysis_id: int) -> None:
        self._timed: Counter[Key] = Counter()
        self._untimed: Counter[Key] = Counter()
        with connection.cursor() as cursor:
            cursor.execute(KNOWN, [mysis_id])
            for row in cursor:
                self._timed[tuple(row)] += 1
                self._untimed[(*row[:5], None)] += 1

    def take(self, line: Line) -> bool:
        """Whether a message is there; then it is used up.

        It may be there as it was before its secrets were taken out.
        """
        known = self._untimed if line.created_at is None else self._timed
        for key in (_key(line), _key(line.raw) if line.raw else None):
            if key is not None and known[key] > 0:
                known[key] -= 1
                return True
        return False

    def has(self, key: Key) -> bool:
        """Whether one of these was never taken."""
        return self._timed[key] > 0 and self._untimed[(*key[:5], None)] > 0


@dataclass(frozen=True, slots=True)
class Survey:
    """What a source holds: how many messages, and whether orders come too late.

    ``late``: some of its orders are new here, but older than one that the Mysis was
    given otherwise; stored now they would pass for newer ones.
    """

    total: int
    late: bool


def survey(mysis_id: int, lines: Iterable[Line], done: Callable[[int], None]) -> Survey:
    """Read a whole source before anything of it is stored."""
    known = Known(mysis_id)
    newest = _newest_order(mysis_id)
    total, late = 0, False
    for line in lines:
        total += 1
        if not known.take(line) and newest and line.origin in INTENT_ORIGINS:
            late |= line.created_at is None or line.created_at < newest[5]
        done(1)
    return Survey(total, late and newest is not None and known.has(newest[0:6]))


def _newest_order(mysis_id: int) -> tuple[str, str, str, str, str, datetime] | None:
    with connection.cursor() as cursor:
        cursor.execute(NEWEST_ORDER, [mysis_id, sorted(INTENT_ORIGINS)])
        found: tuple[str, str, str, str, str, datetime] | None = cursor.fetchone()
    return found


def _key(line: Line) -> Key:
    calls = line.tool_calls
    return (
        line.role,
        _md5(line.content),
        _md5(line.reasoning),
        line.tool_call_id,
        calls[0]["id"] if calls else "",
        line.created_at,
    )


def _md5(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
