"""What is known of a game account, as views and tables show it, and what grew old.

The pass over ageing snapshots covers the accounts of a whole fleet, beside their turns:
it finds without a lock which of them have news, and then writes one account after the
other under its lock, where it looks again.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from memory.gamestate.clock import Sighting
from memory.gamestate.confidence import (
    Confidence,
    Moment,
    count_age_in_ticks,
    judge_age,
)
from memory.gamestate.layout import MOST_EVENTS, RECENT_TICKS
from memory.gamestate.rows import format_content, parse_state_handle, pick_snapshot
from memory.gamestate.types import AccountState, Happening, Snapshot
from memory.models import AccountClock, GameSnapshot, fetch_rows
from memory.models.game import BEFORE_LOGOUT
from memory.snapshots import under_way
from memory.snapshots.rows import (
    compute_tick,
    find_lexicon,
    lock_account,
    read_sighting,
)

# Rows of one tool that a view reads; each set of arguments has a row of its own.
READ_PER_TOOL = 4
_SNAPSHOT = (
    *("id", "version", "tool_name", "args", "content", "merged", "game_tick"),
    *("captured_at", "stale_reason", "stale_tick", "stale_fields", "field_ticks"),
    *("counted", "marks", "asked_at", "logged_out_at"),
)
_JSON = frozenset({"args", "stale_fields", "field_ticks", "counted", "marks"})
# The first row also has all that is known beside the snapshots; there is always one.
_STATE = f"""
WITH kept AS (
  SELECT *, row_number() OVER (
    PARTITION BY tool_name ORDER BY captured_at DESC, id DESC
  ) AS place
  FROM memory_gamesnapshot WHERE username = %(username)s AND logged_out_at IS NULL
), wanted AS (
  SELECT * FROM kept WHERE %(most)s::int IS NULL OR place <= %(most)s::int
), changed AS (
  SELECT * FROM wanted WHERE NOT EXISTS (
    SELECT FROM unnest(%(ids)s::bigint[], %(versions)s::bigint[]) AS known(id, version)
    WHERE known.id = wanted.id AND known.version = wanted.version
  ) ORDER BY id
)
SELECT CASE WHEN row_number() OVER () = 1 THEN (SELECT jsonb_build_object(
  'ids', ARRAY(SELECT id FROM wanted ORDER BY id),
  'clock', (SELECT jsonb_build_array(tick, seen_at)
    FROM memory_accountclock WHERE username = %(username)s),
  'names', (SELECT names FROM memory_lexicon WHERE username = %(username)s),
  'events', ARRAY(SELECT jsonb_build_array(kind, data, tick) FROM memory_gameevent
    WHERE username = %(username)s AND received_at >= %(since)s
    ORDER BY received_at DESC, id DESC LIMIT %(events)s),
  'actions', ARRAY(SELECT jsonb_build_array(tool, asked_at, until)
    FROM memory_actionunderway WHERE username = %(username)s AND until > %(now)s)
)) END, {", ".join(f"changed.{name}" for name in _SNAPSHOT)}
FROM (SELECT) AS always LEFT JOIN changed ON true
"""  # noqa: S608 (no input in the text)
KnownSnapshots = dict[int, tuple[int, Snapshot]]
"""Snapshots with the versions of their rows, by id."""
_STEPS = ("", str(Confidence.AGEING), str(Confidence.STALE))
_COLUMNS = (
    "username",
    "tool_name",
    "args",
    "game_tick",
    "captured_at",
    "stale_reason",
    "announced",
)


def read_account_state(
    username: str | None,
    *,
    now: datetime | None = None,
    last_shown: Mapping[str, str] | None = None,
    newest_only: bool = False,
    fetched: bool = False,
    known: KnownSnapshots | None = None,
) -> AccountState:
    """All that is known of an account now, read at once; of nobody for None.

    With ``newest_only`` a tool counts with its newest calls only, so that a view costs
    the same however many sets of arguments it was called with. With ``fetched`` the
    newest events are part of it: the program asks for them itself. ``known`` are the
    snapshots of an earlier read, and brought up to date.
    """
    moment = now or timezone.now()
    known = {} if known is None else known
    beside: dict[str, Any] = {}
    if username is not None:
        most = READ_PER_TOOL if newest_only else None
        beside = _read_state(username, moment, most, known, fetched=fetched)
    clock = beside.get("clock")
    seen = Sighting(clock[0], datetime.fromisoformat(clock[1])) if clock else None
    return AccountState(
        username=username,
        snapshots=tuple(known[each][1] for each in beside.get("ids", ())),
        current_tick=compute_tick(seen, moment),
        now=moment,
        seconds_per_tick=settings.ZOEA_SECONDS_PER_TICK,
        last_shown=dict(last_shown or {}),
        thresholds=settings.ZOEA_STATE_AGES,
        names=beside.get("names") or {},
        events=tuple(Happening(*e) for e in beside.get("events", ()))[::-1],
        fetched=fetched,
        unsettled=under_way.select_flights(beside.get("actions", ())),
    )


def _read_state(
    username: str,
    now: datetime,
    most: int | None,
    known: KnownSnapshots,
    *,
    fetched: bool,
) -> dict[str, Any]:
    late = timedelta(seconds=RECENT_TICKS * settings.ZOEA_SECONDS_PER_TICK)
    values = {
        "username": username,
        "most": most,
        "ids": list(known),
        "versions": [version for version, _ in known.values()],
        "now": now,
        "since": now - late,
        "events": MOST_EVENTS if fetched else 0,
    }
    rows = fetch_rows(_STATE, values, prepare=True)
    for _, *row in rows:
        if row[0] is not None:
            found = zip(_SNAPSHOT, row, strict=True)
            read = {k: json.loads(v) if k in _JSON else v for k, v in found}
            known[row[0]] = row[1], GameSnapshot(**read).to_snapshot()
    beside: dict[str, Any] = json.loads(rows[0][0])
    return beside


def fetches_events(options: Mapping[str, object]) -> bool:
    """Whether the program asks for the game's events in each turn, by a policy's options.

    Only where the view has a state block to show them in: none is lost unread.
    """
    return settings.ZOEA_FETCH_EVENTS and options.get("state_block", True) is not False


def read_tick(username: str | None) -> int | None:
    """The account's tick now, by its clock; None where none was ever seen."""
    return compute_tick(read_sighting(username), timezone.now())


def compute_present_tick(tick: int | None, seen_at: datetime | None) -> int | None:
    """The tick now of a clock that was read already."""
    if tick is None or seen_at is None:
        return None
    return compute_tick(Sighting(tick, seen_at), timezone.now())


def read_names(username: str) -> dict[str, str]:
    """The names by id from earlier answers to an account."""
    return dict(find_lexicon(username).names)


def recall_snapshot(username: str | None, handle: str) -> str:
    """The full content of the snapshot that a ``state://`` handle names.

    Raises ValueError for a handle of another form, LookupError where no such snapshot
    is stored; both say what to do.
    """
    wanted = parse_state_handle(handle)
    found = read_account_state(username).snapshots if username else ()
    return format_content(pick_snapshot(found, wanted), raw=wanted.raw)


# --- Snapshots that grew old enough to be believed less, each reported once


@dataclass(frozen=True, slots=True)
class AgeCrossing:
    """A snapshot that has just become ageing or stale; ``tick`` is the present."""

    username: str
    tool: str
    args: Mapping[str, Any]
    confidence: str
    reason: str
    tick: int | None


def find_due_accounts(
    usernames: Collection[str], now: datetime | None = None
) -> list[str]:
    """The accounts with crossings to report or actions to delete; read without a lock."""
    moment = now or timezone.now()
    crossed = {one.username for _, one in _find_crossings(usernames, moment)}
    return sorted(crossed | under_way.find_accounts_with_finished(usernames, moment))


@transaction.atomic
def claim_crossings(
    usernames: Collection[str], now: datetime | None = None
) -> list[AgeCrossing]:
    """Claim the snapshots that crossed an age limit since the last call in any process.

    The caller reports them. The accounts are locked in one order until the transaction
    ends: ask for one at a time. Actions that are over are deleted.
    """
    moment = now or timezone.now()
    claimed = []
    for name in sorted(set(usernames)):
        lock_account(name)
        under_way.delete_finished(name, moment)
        claimed += _claim(name, moment)
    return claimed


def _claim(username: str, now: datetime) -> list[AgeCrossing]:
    """The crossings of a locked account, stored with one statement for each level."""
    by_level: dict[str, list[int]] = {}
    found = sorted(_find_crossings([username], now), key=lambda each: each[0])
    for key, crossing in found:
        by_level.setdefault(crossing.confidence, []).append(key)
    for level, keys in by_level.items():
        GameSnapshot.objects.filter(pk__in=keys).update(announced=level)
    return [crossing for _, crossing in found]


def _find_crossings(
    usernames: Collection[str], now: datetime
) -> Iterator[tuple[int, AgeCrossing]]:
    clocks = AccountClock.objects.in_bulk(list(usernames))
    presents = {name: find_moment(clocks.get(name), now) for name in usernames}
    for row in _select_watched(usernames).only(*_COLUMNS):
        crossing = _judge(row, presents[row.username])
        if crossing is not None:
            yield row.pk, crossing


def _select_watched(usernames: Collection[str]) -> QuerySet[GameSnapshot]:
    """Rows that can still cross a limit: not those that are wholly untrue already."""
    whole = ~Q(stale_reason__in=("", BEFORE_LOGOUT)) & Q(stale_fields=[])
    rows = GameSnapshot.objects.filter(username__in=usernames, logged_out_at=None)
    return rows.exclude(announced=_STEPS[-1]).exclude(whole)


def find_moment(clock: AccountClock | None, now: datetime) -> Moment:
    """The present of an account by its clock, with the configured limits of age."""
    tick = compute_tick(Sighting(clock.tick, clock.seen_at) if clock else None, now)
    pace = settings.ZOEA_SECONDS_PER_TICK
    return Moment(tick, now, pace, settings.ZOEA_STATE_AGES)


def _judge(row: GameSnapshot, present: Moment) -> AgeCrossing | None:
    snapshot = row.to_outline()
    level = str(judge_age(snapshot, present))
    if level not in _STEPS or _STEPS.index(level) <= _STEPS.index(row.announced):
        return None
    age = count_age_in_ticks(snapshot, present)
    old = "of unknown age" if age is None else f"{age} ticks old"
    return AgeCrossing(
        username=row.username,
        tool=row.tool_name,
        args=row.args,
        confidence=level,
        reason=BEFORE_LOGOUT if snapshot.logged_out else old,
        tick=present.current_tick,
    )
