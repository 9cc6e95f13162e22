"""Reads of the log, each by an index whatever the length of the history."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from django.db import connection, models

from .vectors import mysis_lexeme, words_of

if TYPE_CHECKING:
    from .models import Memory

Field = Literal["content", "reasoning"]
Mode = Literal["fts", "exact"]

# The matches are materialised before they are sorted: left to itself the
# planner walks the log newest first, which takes seconds for a word that the
# Mysis never used. A broadcast counts once, however many it was delivered to.
MATCHES = """
WITH hit AS MATERIALIZED (
  SELECT id FROM memory_memory AS row
  WHERE {condition}
    AND (%(mysis)s::bigint IS NULL OR mysis_id = %(mysis)s)
    AND (%(before)s::bigint IS NULL OR id < %(before)s)
    AND (%(mysis)s::bigint IS NOT NULL OR broadcast_id IS NULL OR id = (
      SELECT min(id) FROM memory_memory AS one
      WHERE one.broadcast_id = row.broadcast_id))
)
SELECT id FROM hit ORDER BY id DESC LIMIT %(limit)s
"""
WORDS = (
    "numnode(websearch_to_tsquery('simple', %(query)s)) > 0 AND "
    "{field}_vector @@ (websearch_to_tsquery('simple', %(query)s){scope})"
)
SCOPE = " && %(lexeme)s::tsquery"
LETTERS = "strpos({field}, %(query)s) > 0"
WITH_REASONING = " AND NOT (reasoning = '')"


class MemoryQuerySet(models.QuerySet["Memory"]):
    """Reads of the log."""

    def tail(self, mysis_id: int, limit: int) -> list[Memory]:
        """The newest ``limit`` memories of one Mysis, oldest first."""
        rows = list(self.filter(mysis_id=mysis_id).order_by("-id")[:limit])
        rows.reverse()
        return rows

    def newest_intent(
        self, mysis_id: int, *, through: int | None = None
    ) -> Memory | None:
        """The newest message that a human or a broadcast brought, up to an id (A14)."""
        orders = self.filter(mysis_id=mysis_id, origin__in=["human", "broadcast"])
        if through is not None:
            orders = orders.filter(pk__lte=through)
        return orders.order_by("-id").first()


def matching_ids(
    *,
    query: str,
    mode: Mode,
    field: Field = "content",
    mysis_id: int | None = None,
    before: int | None = None,
    limit: int,
) -> list[int]:
    """Ids of the newest matches, newest first.

    ``fts``: all words of a websearch-syntax query, in any language without
    stemming. ``exact``: the query letter for letter, upper and lower case told
    apart and no wildcards (W10, A8).
    """
    template = LETTERS if mode == "exact" else WORDS
    scope = "" if mysis_id is None else SCOPE
    condition = template.format(field=field, scope=scope)
    if field == "reasoning":
        condition += WITH_REASONING
    wanted = {
        "query": query if mode == "exact" else words_of(query),
        "mysis": mysis_id,
        "lexeme": f"'{mysis_lexeme(mysis_id or 0)}'",
        "before": before,
        "limit": limit,
    }
    with connection.cursor() as cursor:
        cursor.execute(MATCHES.format(condition=condition), wanted)
        return [row[0] for row in cursor.fetchall()]
