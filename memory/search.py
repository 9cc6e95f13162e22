"""Finding what was said, thought and broadcast; snippets that are safe to show."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from .models import Memory
from .querysets import Field, Mode, matching_ids
from .vectors import words_of

SNIPPET_CHARACTERS = 240


@dataclass(frozen=True, slots=True)
class Hit:
    """One match. ``snippet`` is HTML: escaped text with ``<mark>`` around hits."""

    memory_id: int
    mysis: int
    role: str
    origin: str
    content: str
    reasoning: str
    snippet: SafeString
    timestamp: datetime


def search_messages(
    *,
    query: str,
    mysis_id: int | None = None,
    mode: Mode = "fts",
    limit: int = 20,
    before: int | None = None,
    reasoning: bool = False,
) -> list[Hit]:
    """The newest matches, newest first (W10, W12); no match is an empty list."""
    query = query.replace("\x00", "")
    field: Field = "reasoning" if reasoning else "content"
    ids = matching_ids(
        query=query,
        mode=mode,
        field=field,
        mysis_id=mysis_id,
        before=before,
        limit=limit,
    )
    rows = Memory.objects.filter(pk__in=ids).defer("content_vector", "reasoning_vector")
    return [_hit(row, query, mode, field) for row in rows.order_by("-pk")]


def snippet(text: str, query: str, mode: Mode) -> SafeString:
    """The surroundings of the first hit as safe HTML, all hits in it marked.

    Made here and not by ``ts_headline``, which drops everything between tags.
    """
    pattern = _pattern(query, mode)
    first = pattern.search(text) if pattern else None
    if pattern is None or first is None:
        return format_html("{}", text[:SNIPPET_CHARACTERS])
    start = max(0, first.start() - SNIPPET_CHARACTERS // 3)
    end = max(first.end(), start + SNIPPET_CHARACTERS)
    pieces: list[str] = ["… " if start else ""]
    at = start
    for hit in pattern.finditer(text, start, end):
        pieces += [text[at : hit.start()], format_html("<mark>{}</mark>", hit[0])]
        at = hit.end()
    pieces += [text[at:end], " …" if end < len(text) else ""]
    return format_html_join("", "{}", ((piece,) for piece in pieces))


def _pattern(query: str, mode: Mode) -> re.Pattern[str] | None:
    if mode == "exact":
        return re.compile(re.escape(query))
    words = re.findall(r"(?<![\w-])(?!-)[\w-]*\w", words_of(query))
    longest_first = sorted(set(words) - {"or", "OR"}, key=len, reverse=True)
    if not longest_first:
        return None
    either = "|".join(re.escape(word) for word in longest_first)
    return re.compile(rf"(?<![^\W_])(?:{either})(?![^\W_])", re.IGNORECASE)


def _hit(row: Memory, query: str, mode: Mode, field: Field) -> Hit:
    return Hit(
        memory_id=row.pk,
        mysis=row.mysis_id,
        role=row.role,
        origin=row.origin,
        content=row.content,
        reasoning=row.reasoning,
        snippet=snippet(getattr(row, field), query, mode),
        timestamp=row.created_at,
    )
