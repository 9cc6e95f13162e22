"""Search in broadcasts: each is found once, however many received it (W11)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Exists, OuterRef, Q
from django.utils.safestring import SafeString

from agents.models import Broadcast
from memory.models import Memory
from memory.redaction import hide_secrets
from memory.search.query import Mode, TextQuery, limit_time
from memory.search.results import build_pattern, filter_matching, make_snippet


@dataclass(frozen=True, slots=True)
class BroadcastHit:
    """One match; ``snippet`` is HTML, escaped, with ``<mark>`` around hits."""

    id: int
    content: str
    sender: str
    snippet: SafeString
    timestamp: datetime


def search_broadcasts(  # noqa: PLR0913 (one keyword for each part of a question)
    *,
    query: str,
    mode: Mode = "fts",
    limit: int = 20,
    before: int | None = None,
    mysis_id: int | None = None,
    ignore_case: bool = False,
    stem: bool = False,
) -> list[BroadcastHit]:
    """The newest matching broadcasts, newest first; secrets are taken out (A11).

    ``mysis_id``: only what that Mysis received or sent (I27). Raises SlowSearchError.
    """
    query = query.replace("\x00", "")
    found = Broadcast.objects.order_by("-pk")
    if before is not None:
        found = found.filter(pk__lt=before)
    if mysis_id is not None:
        got = Memory.objects.filter(mysis_id=mysis_id, broadcast=OuterRef("pk"))
        found = found.filter(Q(mysis_id=mysis_id) | Exists(got))
    wanted = TextQuery(query, mode, ignore_case=ignore_case, stem=stem)
    pattern = build_pattern(wanted)
    found = filter_matching(found.defer("vector"), wanted, "text")
    with limit_time():
        rows = list(found[:limit])
    return [
        BroadcastHit(
            id=row.pk,
            content=text,
            sender=row.sender,
            snippet=make_snippet(text, pattern),
            timestamp=row.created_at,
        )
        for row in rows
        for text in [hide_secrets(row.text)]
    ]
