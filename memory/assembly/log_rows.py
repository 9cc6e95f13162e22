"""Stored messages as tuples, which are quicker to read than instances of a model."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from memory.context.types import Message, ToolCall, is_order
from memory.models import fetch_rows
from memory.models.log import IS_ORDER, STANDS, STOOD

# No row is newer.
LAST = 2**63 - 1
SIZE = "octet_length(content) + octet_length(reasoning) + pg_column_size(tool_calls)"
COLUMNS = """
SELECT id, role, origin, content, reasoning, signature, tool_calls::text, tool_call_id,
  is_error, pending, tick, turn_id, sender,
  to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"+00:00"')"""
_READ = f"{COLUMNS}, {SIZE} FROM memory_memory "


class LogRow(NamedTuple):
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
    sender: str
    created: str
    size: int | None

    @property
    def is_order(self) -> bool:
        """Whether a person or a broadcast of one said it, as IS_ORDER in SQL."""
        return is_order(self.origin, self.sender)


def read_rows_by_id(ids: Iterable[int]) -> dict[int, LogRow]:
    """The rows of those ids, of any Mysis."""
    return {entry.pk: entry for entry in read_rows("WHERE id = ANY(%s)", [list(ids)])}


class Standing(NamedTuple):
    """What stood at a moment: all that no branch up to the number ``branch`` took back.

    Without the rows of the gap: a branch had taken them back then, and was undone since.
    """

    branch: int = LAST
    gap_first: int = 0
    gap_through: int = 0

    def has(self, row: int, branch: int | None) -> bool:
        """Whether a row stood that a ``branch`` took back, None for none; as `STOOD`."""
        in_gap = self.gap_first <= row <= self.gap_through
        return not in_gap and (branch is None or branch > self.branch)


NOW = Standing()


def read_newest_order(
    mysis_id: int, through: int = LAST, standing: Standing = NOW
) -> LogRow | None:
    """The newest message that a human or a broadcast brought, up to an id (A14)."""
    which = f"""
    WHERE mysis_id = %(mysis)s AND id <= %(through)s AND {IS_ORDER} AND {STOOD}
    ORDER BY id DESC LIMIT 1
    """
    values = {"mysis": mysis_id, "through": through, **standing._asdict()}
    return next(iter(read_rows(which, values)), None)


def read_span(mysis_id: int, first_id: int, through_id: int) -> list[LogRow]:
    """All rows that stand from one id to another, oldest first."""
    between = f"WHERE mysis_id = %s AND id BETWEEN %s AND %s AND {STANDS} ORDER BY id"
    return read_rows(between, [mysis_id, first_id, through_id])


def read_rows(which: str, values: Any) -> list[LogRow]:
    """The rows that the rest of a statement, after FROM, selects."""
    return to_rows(fetch_rows(_READ + which, values))


def to_rows(found: Iterable[Sequence[Any]]) -> list[LogRow]:
    """Rows out of COLUMNS and a size, which may be None."""
    # Most rows have no calls.
    return [
        LogRow._make((*row[:6], json.loads(row[6]) if row[6] != "[]" else [], *row[7:]))
        for row in found
    ]


def to_messages(rows: Iterable[LogRow]) -> tuple[Message, ...]:
    """Stored rows as the core sees them, in their order."""
    return tuple(to_message(row) for row in rows)


def to_message(row: LogRow) -> Message:
    """One stored row as the core sees it."""
    return Message(
        id=row.pk,
        role=row.role,  # type: ignore[arg-type]
        origin=row.origin,  # type: ignore[arg-type]
        content=row.content,
        reasoning=row.reasoning or None,
        signature=row.signature or None,
        signed=bool(row.signature),
        tool_calls=tuple(_to_calls(row)),
        tool_call_id=row.tool_call_id or None,
        is_error=row.is_error,
        pending=row.pending,
        created_at=row.created,
        tick=row.tick,
        turn=row.turn_id,
        sender=row.sender or None,
    )


def _to_calls(row: LogRow) -> Iterable[ToolCall]:
    for call in row.tool_calls:
        arguments = call["function"]["arguments"]
        text = arguments if isinstance(arguments, str) else json.dumps(arguments)
        way = call.get("via", ""), call.get("original", "")
        yield ToolCall(call["id"], call["function"]["name"], text, *way)
