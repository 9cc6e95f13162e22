"""Which matches can be seen: what stands inside of a hidden text is no match (A11).

The database matches what is stored. Rows that secrets are taken out of are matched once
more as they are shown; so neither hits nor their number tell what is hidden.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from django.db.models import Model, QuerySet

from memory.models import fetch_rows
from memory.models.vectors import INDEXED_CHARACTERS, describe_calls, replace_signs
from memory.redaction import HIDDEN, hide_secrets
from memory.search.query import Count, TextQuery, find_matching_ids, limit_count

R = TypeVar("R")
M = TypeVar("M", bound=Model)
Texts = tuple[str, ...]

# Rows that are read at once after the first ones were not enough, and how often.
AT_ONCE, ROUNDS = 200, 50
# Matches of a count that are looked at.
SAMPLE = 100
_MATCH = """
SELECT to_tsvector(%(config)s::regconfig, text)
  @@ websearch_to_tsquery(%(config)s::regconfig, %(words)s)
FROM unnest(%(texts)s::text[]) WITH ORDINALITY AS one(text, place) ORDER BY place
"""
_STORED = """
SELECT id, content, reasoning, calls_text, tool_calls, tool_name
FROM memory_memory WHERE id = ANY(%s)
"""


def keep_seen(
    rows: Sequence[R], wanted: TextQuery, read_texts: Callable[[R], tuple[Texts, Texts]]
) -> list[R]:
    """Those of these matches that match as they are shown too.

    ``read_texts`` gives what of a row is searched, as it is stored and as it is shown.
    """
    texts = [read_texts(row) for row in rows]
    masked = [shown for stored, shown in texts if stored != shown]
    matches = iter(_match(wanted, masked) if masked else ())
    return [
        row
        for row, (stored, shown) in zip(rows, texts, strict=True)
        if stored == shown or next(matches)
    ]


def _match(wanted: TextQuery, texts: Sequence[Texts]) -> Iterator[bool]:
    if wanted.mode == "exact":
        fold = str.lower if wanted.ignore_case else str
        for parts in texts:
            yield any(fold(wanted.query) in fold(part) for part in parts)
        return
    heads = [
        replace_signs(" ".join(part[:INDEXED_CHARACTERS] for part in parts))
        for parts in texts
    ]
    values = {
        "config": "english" if wanted.stem else "simple",
        "words": replace_signs(wanted.query),
        "texts": heads,
    }
    yield from (matches for (matches,) in fetch_rows(_MATCH, values))


def mask_texts(*texts: str) -> tuple[Texts, Texts]:
    """Texts as they are stored and as they are shown."""
    return texts, tuple(map(hide_secrets, texts))


def fetch_seen(
    rows: QuerySet[M],
    wanted: TextQuery,
    limit: int,
    read_texts: Callable[[M], tuple[Texts, Texts]],
) -> list[M]:
    """The first of matching rows, which come by falling id, that match as shown."""
    found: list[M] = []
    size = limit
    for _ in range(ROUNDS):
        page = list(rows[:size])
        found += keep_seen(page, wanted, read_texts)
        if len(page) < size or len(found) >= limit:
            break
        rows, size = rows.filter(pk__lt=page[-1].pk), AT_ONCE
    return found[:limit]


def count_seen(
    ids: Sequence[int], keep: Callable[[list[int]], Sequence[Any]], *, more: bool
) -> Count:
    """How many of these matches there are, by what ``keep`` leaves of the newest.

    Where some of those are hidden, no other is counted that was not looked at.
    """
    newest = sorted(ids, reverse=True)[:SAMPLE]
    seen = len(keep(newest)) if newest else 0
    if seen < len(newest) < len(ids):
        return Count(seen, more=True)
    return limit_count(len(ids) - len(newest) + seen, more=more)


# --- Messages of the log


def find_seen_ids(
    wanted: TextQuery, limit: int, seconds: float | None = None
) -> list[int]:
    """Ids of the newest messages that match as they are shown; raises SlowSearchError."""
    found: list[int] = []
    size, before = limit, wanted.before
    for _ in range(ROUNDS):
        page = find_matching_ids(replace(wanted, before=before), size, seconds)
        found += keep_seen_ids(page, wanted)
        if len(page) < size or len(found) >= limit:
            break
        before, size = page[-1], AT_ONCE
    return found[:limit]


def keep_seen_ids(ids: Sequence[int], wanted: TextQuery) -> list[int]:
    """Those of these messages that match as they are shown, in the same order."""
    stored = {row[0]: row for row in fetch_rows(_STORED, [list(ids)])} if ids else {}
    rows = [stored[number] for number in ids if number in stored]

    def read_texts(row: Sequence[Any]) -> tuple[Texts, Texts]:
        _, content, reasoning, called, calls, tool = row
        if wanted.field == "reasoning":
            return mask_texts(reasoning)
        # Raw queries bring JSON as its text.
        told = describe_calls(json.loads(calls), wanted.secret)
        if wanted.field == "calls":
            return (called,), (told,)
        said = HIDDEN if tool in wanted.secret else hide_secrets(content)
        return (content, called), (said, told)

    return [row[0] for row in keep_seen(rows, wanted, read_texts)]
