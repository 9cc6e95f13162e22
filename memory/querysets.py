"""Finding what was said: full text, and exact text, newest first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from django.db import models
from django.db.models.expressions import RawSQL

from .vectors import mysis_lexeme

if TYPE_CHECKING:
    from .models import Memory

Field = Literal["content", "reasoning"]
Mode = Literal["fts", "exact"]


class MemoryQuerySet(models.QuerySet["Memory"]):
    """Reads of the log."""

    def tail(self, mysis_id: int, limit: int) -> list[Memory]:
        """The newest ``limit`` memories of one Mysis, oldest first."""
        rows = list(self.filter(mysis_id=mysis_id).order_by("-id")[:limit])
        rows.reverse()
        return rows

    def matching(self, query: str, *, field: Field = "content") -> MemoryQuerySet:
        """Rows that hold all words of a websearch-syntax ``query``."""
        return self.where_vector(field, "websearch_to_tsquery('simple', %s)", [query])

    def matching_in(
        self, mysis_id: int, query: str, *, field: Field = "content"
    ) -> MemoryQuerySet:
        """The same inside one Mysis, by its lexeme in the same index."""
        return self.where_vector(
            field,
            "(websearch_to_tsquery('simple', %s) && %s::tsquery)",
            [query, f"'{mysis_lexeme(mysis_id)}'"],
        )

    def where_vector(
        self, field: Field, tsquery: str, params: list[object]
    ) -> MemoryQuerySet:
        """Rows whose vector of ``field`` satisfies a tsquery expression."""
        column = f"memory_memory.{field}_vector"
        rows = self.filter(
            RawSQL(  # noqa: S611 (names come from here, values are parameters)
                f"{column} @@ {tsquery}", params, models.BooleanField()
            )
        )
        return rows.exclude(reasoning="") if field == "reasoning" else rows

    def containing(self, text: str, *, field: Field = "content") -> MemoryQuerySet:
        """Rows that contain ``text`` letter for letter (W10, A8)."""
        return self.filter(
            RawSQL(  # noqa: S611 (as above)
                f"strpos(memory_memory.{field}, %s) > 0",
                [text],
                models.BooleanField(),
            )
        )
