"""Many snapshots written at once: one statement of plain SQL.

The ORM builds a CASE for each column and row, which takes longer than all the rest of
what an answer of the game sets off.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from django.db import connection

from .models import GameSnapshot

TYPES: Mapping[str, str] = {
    "merged": "text",
    "field_ticks": "jsonb",
    "counted": "jsonb",
    "marks": "jsonb",
    "stale_reason": "text",
    "stale_tick": "bigint",
    "stale_fields": "jsonb",
}


def rewrite(rows: Sequence[GameSnapshot], fields: Sequence[str]) -> None:
    """Write these fields of the rows. Raises KeyError for a field of no known type."""
    if not rows:
        return
    taken = ", ".join(f"{field} = new.{field}" for field in fields)
    typed = ", ".join(f"{field} {TYPES[field]}" for field in fields)
    body = [
        {"id": row.pk} | {field: getattr(row, field) for field in fields}
        for row in rows
    ]
    sql = f"""
    UPDATE memory_gamesnapshot AS kept SET {taken}
    FROM jsonb_to_recordset(%s::jsonb) AS new(id bigint, {typed})
    WHERE kept.id = new.id
    """  # noqa: S608 (no input in the text)
    with connection.cursor() as cursor:
        cursor.execute(sql, [json.dumps(body)])
