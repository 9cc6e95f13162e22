"""Finding broadcasts: each is found once, however many received it (W11)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.contrib.postgres.search import SearchQuery
from django.db.models import Exists, F, IntegerField, OuterRef, Q, Value
from django.db.models.functions import StrIndex
from django.utils.safestring import SafeString

from memory.models import Memory
from memory.querysets import Mode
from memory.search import snippet
from memory.vectors import words_of

from .models import Broadcast


@dataclass(frozen=True, slots=True)
class BroadcastHit:
    """One match; ``snippet`` is HTML, escaped, with ``<mark>`` around hits."""

    id: int
    content: str
    sender: str
    snippet: SafeString
    timestamp: datetime


def search_broadcasts(
    *,
    query: str,
    mode: Mode = "fts",
    limit: int = 20,
    before: int | None = None,
    mysis_id: int | None = None,
) -> list[BroadcastHit]:
    """The newest matching broadcasts, newest first.

    ``mysis_id``: only what that Mysis received or sent (I27).
    """
    query = query.replace("\x00", "")
    found = Broadcast.objects.order_by("-pk")
    if before is not None:
        found = found.filter(pk__lt=before)
    if mysis_id is not None:
        got = Memory.objects.filter(mysis_id=mysis_id, broadcast=OuterRef("pk"))
        found = found.filter(Q(mysis_id=mysis_id) | Exists(got))
    if mode == "exact":
        at = StrIndex(F("text"), Value(query), output_field=IntegerField())
        found = found.annotate(at=at).filter(at__gt=0)
    else:
        words = SearchQuery(words_of(query), search_type="websearch", config="simple")
        found = found.filter(vector=words)
    return [
        BroadcastHit(
            id=row.pk,
            content=row.text,
            sender=row.sender,
            snippet=snippet(row.text, query, mode),
            timestamp=row.created_at,
        )
        for row in found[:limit]
    ]
