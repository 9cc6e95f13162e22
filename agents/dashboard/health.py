"""The line that says that all is well, or else what is not and what to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from django.db.models import Count, Max

from agents.models import Mysis

from . import fleet, limits, machine, purse, troubles
from .activity import Spent, fleet_hour
from .limits import Limit
from .purse import Purse
from .troubles import Trouble

SHOWN = 4
ALL = 500


@dataclass(frozen=True, slots=True)
class Sums:
    """What the fleet has, spends, and shows in its filters: dearer to count."""

    hour: Spent
    purse: Purse
    limits: tuple[Limit, ...]
    flags: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Health:
    """The fleet in one glance. ``workers`` are those that were alive a minute ago."""

    total: int
    counts: Mapping[str, int]
    recipients: int
    tick: int | None
    newest: datetime | None
    troubles: tuple[Trouble, ...]
    more: int
    workers: int
    heartbeat: datetime | None
    sums: Sums

    @property
    def broadcast_cost(self) -> Decimal:
        """What one turn of each recipient would cost, as turns cost of late."""
        return self.sums.hour.per_turn * self.recipients


def sums(now: datetime) -> Sums:
    """Add it up."""
    return Sums(fleet_hour(now), purse.look(), limits.of_fleet(), fleet.flag_counts())


def look(now: datetime, most: int = SHOWN, known: Sums | None = None) -> Health:
    """Count the fleet and gather what is wrong with it.

    ``known`` are sums of a moment ago, for who looks at every event.
    """
    counts = dict.fromkeys(map(str, Mysis.State), 0)
    found = Mysis.objects.values_list("state").annotate(n=Count("id")).order_by()
    counts |= dict(found)
    newest = Mysis.objects.aggregate(tick=Max("tick"), at=Max("last_memory_at"))
    wrong = troubles.find(now)
    workers, heartbeat = machine.workers(now)
    return Health(
        total=sum(counts.values()),
        counts=counts,
        recipients=counts["idle"] + counts["running"],
        tick=newest["tick"],
        newest=newest["at"],
        troubles=tuple(wrong[:most]),
        more=max(0, len(wrong) - most),
        workers=workers,
        heartbeat=heartbeat,
        sums=known or sums(now),
    )
