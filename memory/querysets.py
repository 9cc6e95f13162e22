"""Reads of the log, each by an index whatever the length of the history."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import models

if TYPE_CHECKING:
    from .models import Memory


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
