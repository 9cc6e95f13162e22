"""Snapshots that grew old enough to be believed less, each told once."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db.models import Q, QuerySet
from django.utils import timezone

from .gamestate.confidence import Confidence, Moment, age_in_ticks, grade
from .gamestate.types import Snapshot
from .models import AccountClock, GameSnapshot
from .stored import BEFORE_LOGOUT, sighting, tick_now

STEPS = ("", str(Confidence.AGEING), str(Confidence.STALE))
COLUMNS = (
    "username",
    "tool_name",
    "args",
    "game_tick",
    "captured_at",
    "stale_reason",
    "announced",
)


@dataclass(frozen=True, slots=True)
class Crossing:
    """A snapshot that has just become ageing or stale; ``tick`` is the present."""

    username: str
    tool: str
    args: Mapping[str, Any]
    confidence: str
    reason: str
    tick: int | None


def crossings(
    usernames: Collection[str], now: datetime | None = None
) -> list[Crossing]:
    """What has crossed an age limit since it was asked last, in any process."""
    moment = now or timezone.now()
    presents = dict(_presents(usernames, moment))
    found = []
    for row in _watched(usernames).only(*COLUMNS).order_by("pk"):
        present = presents[row.username]
        crossing = _crossing(row, present)
        if crossing is not None and _first_to_tell(row, crossing.confidence):
            found.append(crossing)
    return found


def _watched(usernames: Collection[str]) -> QuerySet[GameSnapshot]:
    """Rows that can still cross a limit; what is wholly untrue is told already."""
    whole = ~Q(stale_reason__in=("", BEFORE_LOGOUT)) & Q(stale_fields=[])
    rows = GameSnapshot.objects.filter(username__in=usernames, logged_out_at=None)
    return rows.exclude(announced=STEPS[-1]).exclude(whole)


def _presents(
    usernames: Collection[str], now: datetime
) -> Iterator[tuple[str, Moment]]:
    clocks = AccountClock.objects.in_bulk(list(usernames))
    pace = settings.ZOEA_SECONDS_PER_TICK
    for name in usernames:
        tick = tick_now(sighting(clocks.get(name)), now)
        yield name, Moment.at(tick, now, pace, settings.ZOEA_STATE_AGES)


def _crossing(row: GameSnapshot, present: Moment) -> Crossing | None:
    flagged = row.stale_reason == BEFORE_LOGOUT
    snapshot = Snapshot(
        row.tool_name, {}, None, row.game_tick, row.captured_at, logged_out=flagged
    )
    level = str(grade(snapshot, present))
    if level not in STEPS or STEPS.index(level) <= STEPS.index(row.announced):
        return None
    age = age_in_ticks(snapshot, present)
    old = "of unknown age" if age is None else f"{age} ticks old"
    return Crossing(
        username=row.username,
        tool=row.tool_name,
        args=row.args,
        confidence=level,
        reason=BEFORE_LOGOUT if flagged else old,
        tick=present.current_tick,
    )


def _first_to_tell(row: GameSnapshot, level: str) -> bool:
    """Claim a crossing: of several processes one tells it, and once."""
    same = GameSnapshot.objects.filter(
        pk=row.pk, captured_at=row.captured_at, announced=row.announced
    )
    return bool(same.update(announced=level))
