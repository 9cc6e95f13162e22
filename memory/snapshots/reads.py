"""What is known of a game account, as the state block and the tables show it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from memory.gamestate.confidence import Confidence, Moment, age_in_ticks, grade
from memory.gamestate.layout import MOST, RECENT_TICKS
from memory.gamestate.rows import StateRow, content_of, pick, read_handle, rows
from memory.gamestate.types import AccountState, Happening, Snapshot
from memory.models import AccountClock, GameEvent, GameSnapshot
from memory.snapshots import in_flight
from memory.snapshots.rows import (
    BEFORE_LOGOUT,
    lock,
    names_of,
    sighting,
    sighting_of,
    snapshot_of,
    tick_now,
)

# Read of one tool and account for a view; an argument to a call is another row.
READ_PER_TOOL = 4

# Asked in each call: written out, as the ORM would take three times as long for them.
KNOWN = """
SELECT * FROM (
  SELECT *, row_number() OVER (
    PARTITION BY tool_name ORDER BY captured_at DESC, id DESC
  ) AS place
  FROM memory_gamesnapshot WHERE username = %s AND logged_out_at IS NULL
) AS known
WHERE %s::int IS NULL OR place <= %s::int ORDER BY id
"""
NEWEST = """
SELECT * FROM memory_gameevent WHERE username = %s AND received_at >= %s
ORDER BY received_at DESC, id DESC LIMIT %s
"""


def account_state(
    username: str | None,
    *,
    now: datetime | None = None,
    last_shown: Mapping[str, str] | None = None,
    newest_only: bool = False,
    fetched: bool = False,
) -> AccountState:
    """All that is known of an account now; ``None``: nobody is logged in.

    With ``newest_only`` a tool that was called with many arguments counts with its
    newest calls alone, so that a view costs the same however many there are. With
    ``fetched`` the newest events are part of it: the program asks for them itself.
    """
    moment = now or timezone.now()
    found: Iterable[GameSnapshot] = ()
    seen = None
    names: Mapping[str, str] = {}
    if username is not None:
        most = READ_PER_TOOL if newest_only else None
        found = GameSnapshot.objects.raw(KNOWN, [username, most, most])
        seen, names = sighting_of(username), names_of(username)
    return AccountState(
        username=username,
        snapshots=tuple(snapshot_of(row) for row in found),
        current_tick=tick_now(seen, moment),
        now=moment,
        seconds_per_tick=settings.ZOEA_SECONDS_PER_TICK,
        last_shown=dict(last_shown or {}),
        thresholds=settings.ZOEA_STATE_AGES,
        names=names,
        events=newest_events(username, moment) if fetched and username else (),
        fetched=fetched,
        unsettled=in_flight.open_flights(username, moment) if username else frozenset(),
    )


def fetches_events(options: Mapping[str, object]) -> bool:
    """Whether the program asks for the game's events in each turn, by a policy's options.

    Only where the view has a state block to tell them in: nothing read is lost.
    """
    return settings.ZOEA_FETCH_EVENTS and options.get("state_block", True) is not False


def newest_events(username: str, now: datetime) -> tuple[Happening, ...]:
    """What the game told an account of late, oldest first."""
    late = timedelta(seconds=RECENT_TICKS * settings.ZOEA_SECONDS_PER_TICK)
    newest = list(GameEvent.objects.raw(NEWEST, [username, now - late, MOST]))
    return tuple(Happening(e.kind, e.data, e.tick) for e in reversed(newest))


def recall(username: str | None, handle: str) -> str:
    """The full content of the snapshot that a ``state://`` handle names.

    Raises ValueError for a handle of another form, LookupError where nothing of
    the kind is kept; both say what to do.
    """
    wanted = read_handle(handle)
    found = account_state(username).snapshots if username else ()
    return content_of(pick(found, wanted), raw=wanted.raw)


def state_rows(username: str | None) -> tuple[StateRow, ...]:
    """The recency table of an account; empty where nobody is logged in."""
    return rows(account_state(username)) if username else ()


# SECTION Snapshots that grew old enough to be believed less, each told once.
#
# The pass goes over the accounts of a whole fleet, beside their turns: it looks without
# a lock which of them have anything to tell, and writes one account after the other
# under its lock, where it looks again.

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
    return sorted(crossed | in_flight.with_old_ones(usernames, moment))


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
        in_flight.clear(name, moment)
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
