"""The newest events of the log, as the chips above the feed choose them."""

from __future__ import annotations

from collections.abc import Iterable

from django.db.models import Max, Q, QuerySet

from agents.events import Kind
from agents.models import Event

from .feed import BAD, BY_AGE, GROUP_OF, GROUPS, LOOKS, NEWSWORTHY, FeedLine, told

SHOWN = 40
# How far back failures are looked for among what went well, in events.
FAR = 20_000
# Kinds of which some are failures.
MAY_FAIL = (Kind.TOOL_CALLED, Kind.MYSIS_STATE)


def newest(group: str = "", limit: int = SHOWN) -> list[FeedLine]:
    """The newest events that are news, newest first; those of one chip if named."""
    # Each kind has an index of its own; one scan of all would read much noise.
    found: list[Event] = []
    for kind in _kinds(group):
        found += _rows(kind, group)[:limit]
    found.sort(key=lambda event: (event.xid, event.pk), reverse=True)
    return told(found[:limit])


def _kinds(group: str) -> Iterable[str]:
    if group not in GROUPS:
        return NEWSWORTHY
    wanted = {kind for kind in NEWSWORTHY if GROUP_OF[kind] == group}
    return wanted.union(MAY_FAIL) if group == BAD else wanted


def _rows(kind: str, group: str) -> QuerySet[Event]:
    rows = Event.objects.filter(kind=kind).order_by("-xid", "-id")
    if group == BAD and kind in MAY_FAIL:
        return _failed(rows)
    if kind == Kind.TOOL_CALLED:
        looks = Q(data__tool__regex=f"^({'|'.join(LOOKS)})")
        return rows.exclude(looks, data__ok=True)
    if kind == Kind.SNAPSHOT_STALE:
        unknown = Q(data__confidence__isnull=True)
        return rows.filter(unknown | ~Q(data__confidence__in=BY_AGE))
    return rows


def _failed(rows: QuerySet[Event]) -> QuerySet[Event]:
    last = Event.objects.aggregate(last=Max("pk"))["last"] or 0
    failed = Q(data__ok=False) | Q(data__state="errored")
    return rows.filter(failed, pk__gt=last - FAR)
