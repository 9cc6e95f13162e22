"""Which messages match: by words or letter for letter, the newest ones first.

Two ways lead there. The index gives all matches at once, which is fast for words that
are rare; the log read backwards gives the newest ones, which is fast for words that
are common, and endless for one that a Mysis never used. How common a word is, the
planner's statistics tell; a walk has an end, and behind it the index decides.
"""

from __future__ import annotations

from typing import Any

from django.db import connection

from .conditions import COLUMNS, WORDS, Wanted, by_letters, by_stems, by_words
from .patience import bounded
from .stemming import candidates
from .vectors import INDEXED_CHARACTERS, SIGNS, mysis_lexeme, words_of

#: A walk reads so many rows at most; it costs a few microseconds for each.
LONGEST_WALK = 6_000
#: A walk is as long as brings so many times what is wanted, where words lie evenly.
MARGIN = 3

# A broadcast counts once in the fleet, however many it was delivered to.
WHERE = """
{condition}
  AND (%(mysis)s::bigint IS NULL OR mysis_id = %(mysis)s)
  AND (%(before)s::bigint IS NULL OR id < %(before)s)
  AND NOT tool_name = ANY(%(secret)s::text[])
  AND (%(mysis)s::bigint IS NOT NULL OR broadcast_id IS NULL OR id = (
    SELECT min(id) FROM memory_memory AS one
    WHERE one.broadcast_id = row.broadcast_id))
"""
# Materialised before they are sorted: left to itself the planner would walk.
ALL = f"""
WITH hit AS MATERIALIZED (SELECT id FROM memory_memory AS row WHERE {WHERE})
SELECT id FROM hit ORDER BY id DESC LIMIT %(limit)s
"""  # noqa: S608 (no input in the text)
BACKWARDS = f"""
SELECT id FROM (
  SELECT id, mysis_id, broadcast_id, tool_name, {{columns}} FROM memory_memory
  WHERE (%(mysis)s::bigint IS NULL OR mysis_id = %(mysis)s)
    AND (%(before)s::bigint IS NULL OR id < %(before)s)
  ORDER BY id DESC LIMIT %(walk)s
) AS row WHERE {WHERE} ORDER BY id DESC LIMIT %(limit)s
"""  # noqa: S608 (no input in the text)
LAST_WALKED = """
SELECT id FROM memory_memory
WHERE (%(mysis)s::bigint IS NULL OR mysis_id = %(mysis)s)
  AND (%(before)s::bigint IS NULL OR id < %(before)s)
ORDER BY id DESC OFFSET %(walk)s - 1 LIMIT 1
"""
# For the list of the pages to read: without room it is kept in part, and checked again.
ROOM = "SET LOCAL work_mem = '32MB'"
HOW_MANY = """
EXPLAIN (FORMAT JSON) SELECT FROM memory_memory WHERE {indexed}
UNION ALL SELECT FROM memory_memory
"""


def matching_ids(wanted: Wanted, limit: int) -> list[int]:
    """Ids of the newest matches, newest first; raises SlowSearchError."""
    with bounded():
        return _matching_ids(wanted, limit)


def _matching_ids(wanted: Wanted, limit: int) -> list[int]:
    values = _values(wanted) | {"limit": limit}
    if wanted.mode == "exact":
        return _without_index(wanted, by_letters(wanted), values)
    if wanted.stem:
        values["stems"] = candidates(values["words"])
    if wanted.stem and not values["stems"]:
        return _without_index(wanted, by_stems(wanted), values)
    walk = _walk(wanted, values)
    if walk:
        condition = by_words(wanted, scoped=False)
        found = _backwards(wanted, condition, values | {"walk": walk})
        if len(found) == limit:
            return found
    condition = by_words(wanted, scoped=wanted.mysis_id is not None)
    return _ids(ALL.format(condition=condition), values)


def _values(wanted: Wanted) -> dict[str, Any]:
    return {
        "query": wanted.query,
        "words": words_of(wanted.query),
        "mysis": wanted.mysis_id,
        "lexeme": f"'{mysis_lexeme(wanted.mysis_id or 0)}'",
        "before": wanted.before,
        "secret": sorted(wanted.secret),
        "indexed": INDEXED_CHARACTERS,
        "signs": SIGNS,
        "spaces": " " * len(SIGNS),
    }


def _walk(wanted: Wanted, values: dict[str, Any]) -> int:
    """How many rows to read backwards before the index is asked; 0: ask it at once."""
    query = "%(stems)s::tsquery" if wanted.stem else WORDS
    with connection.cursor() as cursor:
        indexed = f"{wanted.field}_vector @@ {query}"
        cursor.execute(HOW_MANY.format(indexed=indexed), values)
        ((plan,),) = cursor.fetchall()
    matches, rows = (max(part["Plan Rows"], 1) for part in plan[0]["Plan"]["Plans"])
    length = MARGIN * int(values["limit"]) * rows // matches + 50
    return length if length <= LONGEST_WALK else 0


def _without_index(wanted: Wanted, condition: str, values: dict[str, Any]) -> list[int]:
    """First the newest rows; then all that lie behind, in the order of the disk."""
    limit = values["limit"]
    found = _backwards(wanted, condition, values | {"walk": LONGEST_WALK})
    if len(found) == limit:
        return found
    behind = _ids(LAST_WALKED, values | {"walk": LONGEST_WALK})
    if not behind:
        return found
    rest = {"before": behind[0], "limit": limit - len(found)}
    with connection.cursor() as cursor:
        cursor.execute(ROOM)
    return found + _ids(ALL.format(condition=condition), values | rest)


def _backwards(wanted: Wanted, condition: str, values: dict[str, Any]) -> list[int]:
    text = BACKWARDS.format(columns=COLUMNS[wanted.field], condition=condition)
    return _ids(text, values)


def _ids(text: str, values: dict[str, Any]) -> list[int]:
    with connection.cursor() as cursor:
        cursor.execute(text, values)
        return [row[0] for row in cursor.fetchall()]
