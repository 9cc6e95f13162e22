"""Snapshots that grew old enough to be believed less, each told once.

The pass goes over the accounts of a whole fleet, beside their turns: it looks without
a lock which of them have anything to tell, and writes one account after the other
under its lock, where it looks again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from . import under_way
from .gamestate.confidence import Confidence, Moment, age_in_ticks, grade
from .gamestate.types import Snapshot
from .models import AccountClock, GameSnapshot
from .stored import BEFORE_LOGOUT, lock, sighting, tick_now

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


def due(usernames: Collection[str], now: datetime | None = None) -> list[str]:
    """The accounts that have something to tell, or to forget; read without a lock."""
    moment = now or timezone.now()
    crossed = {found.username for _, found in _crossed(usernames, moment)}
    return sorted(crossed | under_way.with_old_ones(usernames, moment))


@transaction.atomic
def crossings(
    usernames: Collection[str], now: datetime | None = None
) -> list[Crossing]:
    """What has crossed an age limit since it was asked last, in any process.

    Whoever asks has told it. The accounts are locked in one order, until the
    transaction ends: ask for one at a time. Actions that are over are forgotten.
    """
    moment = now or timezone.now()
    told = []
    for name in sorted(set(usernames)):
        lock(name)
        under_way.clear(name, moment)
        told += _claimed(name, moment)
    return told


def _claimed(username: str, now: datetime) -> list[Crossing]:
    """Claim the crossings of a locked account, with one statement for each level."""
    by_level: dict[str, list[int]] = {}
    found = sorted(_crossed([username], now), key=lambda each: each[0])
    for key, crossing in found:
        by_level.setdefault(crossing.confidence, []).append(key)
    for level, keys in by_level.items():
        GameSnapshot.objects.filter(pk__in=keys).update(announced=level)
    return [crossing for _, crossing in found]


def _crossed(
    usernames: Collection[str], now: datetime
) -> Iterator[tuple[int, Crossing]]:
    presents = dict(_presents(usernames, now))
    for row in _watched(usernames).only(*COLUMNS):
        crossing = _crossing(row, presents[row.username])
        if crossing is not None:
            yield row.pk, crossing


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
