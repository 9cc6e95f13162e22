"""Actions that have still to take effect, and when they are over."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.conf import settings
from django.utils import timezone

from .gamestate import invalidation
from .gamestate.extract import Result
from .gamestate.flight import FLIGHTS
from .gamestate.types import Stale
from .models import ActionUnderWay

# No action takes longer, by the wall clock.
KEPT_UNDER_WAY = timedelta(hours=6)


def end_flights(username: str, tick: int | None, asked_at: datetime) -> None:
    """A flight of unknown outcome is over, or never began, where the ship rests.

    Only from when on it would have begun: until then a ship that will fly rests too.
    """
    rows = ActionUnderWay.objects.filter(username=username, tool__in=FLIGHTS)
    wait = invalidation.QUEUE_MARGIN_TICKS * settings.ZOEA_SECONDS_PER_TICK
    for row in rows.order_by("pk"):
        begun = row.asked_at + timedelta(seconds=wait) <= asked_at
        if row.tick is not None and tick is not None:
            begun = row.tick <= tick
        if _is_open(row) and begun:
            row.delete()


def _is_open(row: ActionUnderWay) -> bool:
    """Whether nobody knows how long it takes: only the game tells that it is over."""
    return row.until - row.asked_at >= KEPT_UNDER_WAY


def is_under_way(row: ActionUnderWay, tick: int | None, now: datetime) -> bool:
    """Whether an action has not taken effect yet, by the tick or else by the clock."""
    if _is_open(row):
        return row.until > now
    if row.tick is None or tick is None:
        return row.until > now
    return invalidation.carried(Stale(row.tool, row.tick), tick) is not None


def sets_out(username: str, action: Stale, result: Result) -> None:
    """Remember a queued action, and forget those that are surely over."""
    now = timezone.now()
    rows = ActionUnderWay.objects.filter(username=username)
    rows.filter(until__lt=now - KEPT_UNDER_WAY).delete()
    if not (result.queued or result.is_unknown):
        return
    ticks = (result.duration_ticks or 1) + invalidation.QUEUE_MARGIN_TICKS
    pace = timedelta(seconds=ticks * settings.ZOEA_SECONDS_PER_TICK)
    if result.is_unknown and action.reason in FLIGHTS:
        pace = KEPT_UNDER_WAY
    ActionUnderWay.objects.create(
        username=username,
        tool=action.reason[:200],
        tick=action.tick,
        asked_at=action.at or now,
        until=now + min(pace, KEPT_UNDER_WAY),
    )
