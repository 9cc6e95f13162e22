"""Stored rows as views read them: tuples, not models.

A view reads up to thousands of rows for each call, and a model instance costs several
times what the rest of the work on a row does. Whatever is written, or read one by one,
is a :class:`~memory.models.Memory`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

from django.db import connection

from .context.types import INTENT_ORIGINS
from .models import Role

_READ = """
SELECT id, role, origin, content, reasoning, signature, tool_calls::text, tool_call_id,
  is_error, pending, tick, turn_id,
  to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"+00:00"')
FROM memory_memory """
_NEWEST = (
    _READ + "WHERE mysis_id = %s AND id > %s AND id <= %s ORDER BY id DESC LIMIT %s"
)
_THESE = _READ + "WHERE mysis_id = %s AND id = ANY(%s) ORDER BY id"
_ANY = _READ + "WHERE id = ANY(%s)"
_INTENT = (
    _READ
    + """WHERE mysis_id = %s AND id <= %s AND origin IN ('human', 'broadcast')
ORDER BY id DESC LIMIT 1"""
)
# From the newest answer of the model before an id: what results after it belong to.
_BEFORE = f"""{_READ}
WHERE mysis_id = %(mysis)s AND id < %(before)s AND id >= (
  SELECT id FROM memory_memory
  WHERE mysis_id = %(mysis)s AND id < %(before)s AND role = 'assistant'
  ORDER BY id DESC LIMIT 1
) ORDER BY id LIMIT %(limit)s
"""  # noqa: S608 (constants only)


#: No row of today is newer.
LAST = 2**63 - 1


class Entry(NamedTuple):
    """One stored message; the fields are those of a Memory."""

    pk: int
    role: str
    origin: str
    content: str
    reasoning: str
    signature: str
    tool_calls: list[dict[str, Any]]
    tool_call_id: str
    is_error: bool
    pending: bool
    tick: int | None
    turn_id: int | None
    created: str

    @property
    def is_result(self) -> bool:
        """Whether it answers a call."""
        return self.role == Role.TOOL

    @property
    def is_intent(self) -> bool:
        """Whether a human or a broadcast brought it (A14)."""
        return self.origin in INTENT_ORIGINS


def newest(
    mysis_id: int, *, after: int, limit: int, through: int = LAST
) -> list[Entry]:
    """The newest rows after an id, up to another, at most ``limit``, oldest first."""
    found = _read(_NEWEST, [mysis_id, after, through, limit])
    found.reverse()
    return found


def these(mysis_id: int, ids: Iterable[int]) -> list[Entry]:
    """The rows of those ids that are this Mysis's, oldest first."""
    return _read(_THESE, [mysis_id, list(ids)])


def by_id(ids: Iterable[int]) -> dict[int, Entry]:
    """The rows of those ids, whoever's they are."""
    return {entry.pk: entry for entry in _read(_ANY, [list(ids)])}


def newest_intent(mysis_id: int, through: int = LAST) -> Entry | None:
    """The newest message that a human or a broadcast brought (A14), up to an id."""
    return next(iter(_read(_INTENT, [mysis_id, through])), None)


def before(mysis_id: int, entry_id: int, limit: int) -> list[Entry]:
    """The newest assistant message before an id, and what lies between."""
    values = {"mysis": mysis_id, "before": entry_id, "limit": limit}
    return _read(_BEFORE, values)


def _read(sql: str, values: Any) -> list[Entry]:
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        return [_entry(row) for row in cursor.fetchall()]


def _entry(row: tuple[Any, ...]) -> Entry:
    calls = [] if row[6] == "[]" else json.loads(row[6])
    return Entry._make((*row[:6], calls, *row[7:]))
