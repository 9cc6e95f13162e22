"""What is known of a game account, as views and tables show it, and what grew old.

Which of a fleet's accounts have news of age is found beside their turns, without a lock;
then one after the other is locked, asked again and written.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from memory.gamestate.clock import Sighting
from memory.gamestate.confidence import (
    NORMAL,
    Confidence,
    TouchedSnapshot,
    count_age_in_ticks,
    judge_age,
)
from memory.gamestate.layout import MOST_EVENTS, RECENT_TICKS
from memory.gamestate.rows import recall_content
from memory.gamestate.types import (
    ANY_TOOL,
    AccountState,
    Happening,
    Moment,
    Snapshot,
    Stale,
)
from memory.models import (
    AccountClock,
    ActionUnderWay,
    GameSnapshot,
    Lexicon,
    build_row,
    fetch_models,
    fetch_rows,
)
from memory.models.contexts import EFFECTIVE_POLICY
from memory.models.game import BEFORE_LOGOUT, LONG_COLUMNS
from memory.models.secret_tools import read_secret_tools
from memory.snapshots import under_way
from memory.snapshots.rows import compute_tick, lock_account, rewrite_rows

# Rows of one tool that a view reads; each set of arguments has a row of its own.
READ_PER_TOOL = 4
_STATE = """
WITH kept AS (
  SELECT *, row_number() OVER (
    PARTITION BY tool_name ORDER BY captured_at DESC, id DESC
  ) AS place
  FROM memory_gamesnapshot WHERE username = %(username)s AND logged_out_at IS NULL
), wanted AS (
  SELECT * FROM kept WHERE %(most)s::int IS NULL OR place <= %(most)s::int
)
SELECT json_build_object(
  'ids', ARRAY(SELECT id FROM wanted ORDER BY id),
  'changed', ARRAY(SELECT to_json(wanted) FROM wanted WHERE NOT EXISTS (
    SELECT FROM unnest(%(ids)s::bigint[], %(versions)s::bigint[]) AS known(id, version)
    WHERE known.id = wanted.id AND known.version = wanted.version)),
  'clock', (SELECT to_json(clock) FROM memory_accountclock AS clock
    WHERE username = %(username)s),
  'names', (SELECT names FROM memory_lexicon WHERE username = %(username)s),
  'events', ARRAY(SELECT json_build_array(kind, data, tick) FROM memory_gameevent
    WHERE username = %(username)s AND received_at >= %(since)s
    ORDER BY received_at DESC, id DESC LIMIT %(events)s),
  'actions', ARRAY(SELECT to_json(action) FROM memory_actionunderway AS action
    WHERE username = %(username)s AND until > %(now)s),
  'secret', EXISTS (SELECT FROM agents_toolpolicy WHERE policy = 'secret')
)
"""
# Beside the clock of each account whether it is flown under a policy that has no state
# block: then nobody asks for its events (`fetches_events`).
IS_UNHEARD = f"""
EXISTS (
  SELECT FROM agents_mysis AS mysis
  JOIN agents_account AS account ON account.id = mysis.account_id
  JOIN memory_contextpolicy AS policy ON policy.id = {EFFECTIVE_POLICY}
  WHERE account.username = {{username}} AND policy.options -> 'state_block' = 'false'
)
"""
_PRESENTS = f"""
SELECT asked.username, clock.tick, clock.seen_at, {IS_UNHEARD.format(username="asked.username")}
FROM unnest(%s::text[]) AS asked (username)
LEFT JOIN memory_accountclock AS clock ON clock.username = asked.username
"""  # noqa: S608 (no input in the text)
_CLOCK = "SELECT tick, seen_at FROM memory_accountclock WHERE username = %s"
KnownSnapshots = dict[int, tuple[int, Snapshot]]
"""Snapshots with the versions of their rows, by id."""
_STEPS = ("", Confidence.AGEING, Confidence.STALE)
# Rows that can still cross a limit: not those that are wholly untrue already.
_WATCHED = """
username = ANY(%s) AND logged_out_at IS NULL AND announced <> %s
AND (stale_reason IN ('', %s) OR jsonb_typeof(stale_fields -> 0) = 'string')
"""


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
    newest events are part of it: the program asks for them itself, and facts of the
    ship stay fresh for longer. ``known`` are the snapshots of an earlier read, and
    brought up to date.
    """
    moment = now or timezone.now()
    known = {} if known is None else known
    found: dict[str, Any] = {}
    if username is not None:
        late = timedelta(seconds=RECENT_TICKS * settings.ZOEA_SECONDS_PER_TICK)
        values = {
            "username": username,
            "most": READ_PER_TOOL if newest_only else None,
            "ids": list(known),
            "versions": [version for version, _ in known.values()],
            "now": moment,
            "since": moment - late,
            "events": MOST_EVENTS if fetched else 0,
        }
        [(found,)] = fetch_rows(_STATE, values, prepare=True)
    for each in found.get("changed", ()):
        row = build_row(GameSnapshot, each)
        known[row.pk] = row.version, row.to_snapshot()
    clock = build_row(AccountClock, found["clock"]) if found.get("clock") else None
    actions = [build_row(ActionUnderWay, each) for each in found.get("actions", ())]
    return AccountState(
        username=username,
        snapshots=_leave_out_secret(
            [known[each][1] for each in found.get("ids", ())], found.get("secret")
        ),
        moment=find_moment(clock.sighting if clock else None, moment, heard=fetched),
        last_shown=dict(last_shown or {}),
        names=found.get("names") or {},
        events=tuple(Happening(*e) for e in found.get("events", ()))[::-1],
        fetched=fetched,
        unsettled=frozenset(row.tool for row in actions if under_way.is_open(row)),
    )


def _leave_out_secret(found: list[Snapshot], asked: object) -> tuple[Snapshot, ...]:
    """Without the answers of tools that were made secret since; few fleets have any."""
    names = read_secret_tools() if asked else frozenset()
    return tuple(one for one in found if one.tool not in names)


def fetches_events(options: Mapping[str, object]) -> bool:
    """Whether the program asks for the game's events in each turn, by a policy's options.

    Only where the view has a state block to show them in: none is lost unread.
    """
    return settings.ZOEA_FETCH_EVENTS and options.get("state_block", True) is not False


def read_tick(username: str | None) -> int | None:
    """The account's tick now, by its clock; None where none was ever seen."""
    found = fetch_rows(_CLOCK, [username])
    return compute_present_tick(*found[0]) if found else None


def compute_present_tick(tick: int | None, seen_at: datetime | None) -> int | None:
    """The tick now of a clock that was read already."""
    if tick is None or seen_at is None:
        return None
    return compute_tick(Sighting(tick, seen_at), timezone.now())


def read_names(username: str) -> dict[str, str]:
    """The names by id from earlier answers to an account."""
    rows = Lexicon.objects.filter(username=username)
    return rows.values_list("names", flat=True).first() or {}


def recall_snapshot(username: str | None, handle: str) -> str:
    """`recall_content` of an account's snapshots, with its errors."""
    return recall_content(read_account_state(username).snapshots, handle)


# --- Snapshots that grew old enough to be believed less, each reported once


def find_due_accounts(
    usernames: Collection[str], now: datetime | None = None
) -> list[str]:
    """The accounts with crossings to report or actions to delete; read without a lock."""
    moment = now or timezone.now()
    crossed = {row.username for row, _ in _find_crossings(usernames, moment)}
    finished = under_way.find_finished(usernames, moment)
    return sorted(crossed.union(finished.values_list("username", flat=True)))


@transaction.atomic
def claim_crossings(
    username: str, now: datetime | None = None
) -> list[TouchedSnapshot]:
    """Claim the snapshots that crossed an age limit since the last call in any process.

    The caller reports them. The account is locked until the transaction ends; its
    actions that are over are deleted.
    """
    moment = now or timezone.now()
    lock_account(username)
    under_way.find_finished([username], moment).delete()
    found = list(_find_crossings([username], moment))
    for row, crossing in found:
        row.announced = str(crossing.confidence)
    rewrite_rows([row for row, _ in found], ["announced"])
    return [crossing for _, crossing in found]


def _find_crossings(
    usernames: Collection[str], now: datetime
) -> Iterator[tuple[GameSnapshot, TouchedSnapshot]]:
    """The rows that are older than was announced, but not wholly untrue already."""
    names = list(usernames)
    presents = read_moments(names, now)
    values = [names, str(_STEPS[-1]), BEFORE_LOGOUT]
    for row in fetch_models(GameSnapshot, _WATCHED, values, without=LONG_COLUMNS):
        crossing = _judge(row, presents[row.username])
        if crossing is not None:
            yield row, crossing


def read_moments(usernames: Collection[str], now: datetime) -> dict[str, Moment]:
    """The present of each account, in one query."""
    return {
        username: find_moment(
            None if tick is None else Sighting(tick, seen_at),
            now,
            heard=settings.ZOEA_FETCH_EVENTS and not unheard,
        )
        for username, tick, seen_at, unheard in fetch_rows(_PRESENTS, [list(usernames)])
    }


def find_moment(seen: Sighting | None, now: datetime, *, heard: bool) -> Moment:
    """The present of an account by its clock, with the configured limits of age.

    ``heard``: the program asks for its events. Where nobody does, nothing tells what
    others did to the ship.
    """
    pace = settings.ZOEA_SECONDS_PER_TICK
    limits = {} if heard else {ANY_TOOL: NORMAL}
    return Moment(
        compute_tick(seen, now), now, pace, {**limits, **settings.ZOEA_STATE_AGES}
    )


def _judge(row: GameSnapshot, present: Moment) -> TouchedSnapshot | None:
    snapshot = row.to_outline()
    level = judge_age(snapshot, present)
    if level not in _STEPS or _STEPS.index(level) <= _STEPS.index(row.announced):
        return None
    age = count_age_in_ticks(snapshot, present)
    old = "of unknown age" if age is None else f"{age} ticks old"
    reason = BEFORE_LOGOUT if snapshot.logged_out else old
    mark = Stale(reason, present.current_tick)
    return TouchedSnapshot(row.tool_name, row.args, mark, level)
