"""What the modules of this package share: locks, rewritten rows, clocks and names.

Every write of an account runs under one lock, so that all of them have one order.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, TypeVar
from urllib.parse import urlsplit

from django.conf import settings
from django.db import connection
from django.utils import timezone

from memory.gamestate import clock
from memory.gamestate.clock import SAME_CLOCK, Offset, Sighting
from memory.gamestate.effects import FLIGHTS
from memory.gamestate.extract import Result
from memory.gamestate.facts import learn_names, learn_sizes
from memory.gamestate.values import unwrap_content
from memory.models import (
    AccountClock,
    ActionUnderWay,
    GameEvent,
    GameSnapshot,
    Lexicon,
    build_row,
    fetch_rows,
)
from memory.models.game import JOINED_MARK, parse_marks

KEPT_NAMES = 1000
T = TypeVar("T")
_ACCOUNT = """
SELECT
  (SELECT to_json(clock) FROM memory_accountclock AS clock
   WHERE username = %(username)s),
  (SELECT to_json(lexicon) FROM memory_lexicon AS lexicon
   WHERE username = %(username)s),
  (SELECT json_agg(to_json(action) ORDER BY id) FROM memory_actionunderway AS action
   WHERE username = %(username)s
     AND (until > asked_at OR done_at >= %(asked_at)s OR tool = ANY(%(flights)s))),
  (SELECT era FROM memory_accountclock WHERE era <> '' ORDER BY seen_at DESC LIMIT 1),
  EXISTS (SELECT FROM memory_gameevent
    WHERE username = %(username)s AND received_at >= %(asked_at)s)
"""
_SAVE_ACCOUNT = """
WITH clock AS (
  INSERT INTO memory_accountclock
    (username, tick, seen_at, era, offset_low, offset_high, offset_at)
  SELECT %(username)s, %(tick)s::bigint, %(seen_at)s::timestamptz, %(era)s,
    %(offset_low)s::float8, %(offset_high)s::float8, %(offset_at)s::timestamptz
  WHERE %(clock_changed)s
  ON CONFLICT (username) DO UPDATE SET tick = EXCLUDED.tick,
    seen_at = EXCLUDED.seen_at, era = EXCLUDED.era, offset_low = EXCLUDED.offset_low,
    offset_high = EXCLUDED.offset_high, offset_at = EXCLUDED.offset_at
), actions AS (
  UPDATE memory_actionunderway SET until = asked_at, tick = NULL
  WHERE id = ANY(%(ended)s::bigint[])
)
"""
_LOCK = "SELECT pg_advisory_xact_lock(hashtext('game state'), hashtext(%s))"


def lock_account(username: str) -> None:
    """Keep others from writing an account's state until the transaction ends."""
    fetch_rows(_LOCK, [username], prepare=True)


@dataclass(slots=True)
class LockedAccount:
    """What is known of a locked account beside its snapshots.

    It is locked since ``now``. ``actions`` may not be over, or were not at ``asked_at``.
    ``era`` is the newest of any account; ``heard``: events came since the call was sent.
    ``ended`` are the numbers of those actions that are known to be over since. Who
    changes ``clock`` or ``ended`` calls `save` at the end.
    """

    username: str
    clock: AccountClock
    lexicon: Lexicon
    actions: list[ActionUnderWay]
    era: str
    heard: bool
    now: datetime
    ended: list[int] = field(default_factory=list)
    stored: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        self.stored = dict(vars(self.clock))

    def save(
        self, rows: Sequence[GameSnapshot] = (), fields: Sequence[str] = ()
    ) -> None:
        """Store the clock where it has changed and some tick was seen, the actions that
        are over, and these fields of snapshots, all in one statement."""
        known = dict(vars(self.clock))
        changed = bool(self.clock.sighting) and known != self.stored
        if not changed and not self.ended:
            rewrite_rows(rows, fields)
            return
        rewrite = _build_rewrite(fields) if rows else "SELECT"
        own = known | {"clock_changed": changed, "ended": self.ended}
        del own["_state"]
        values = own | {"rows": _dump_fields(rows, fields)}
        fetch_rows(_SAVE_ACCOUNT + rewrite, values, prepare=True)
        self.stored, self.ended = known, []


def open_account(username: str, asked_at: datetime | None = None) -> LockedAccount:
    """`lock_account`, and read what is known; without ``asked_at`` it is now."""
    asked = asked_at or timezone.now()
    lock_account(username)
    values = {"username": username, "asked_at": asked, "flights": list(FLIGHTS)}
    [(clock, lexicon, actions, era, heard)] = fetch_rows(_ACCOUNT, values, prepare=True)
    return LockedAccount(
        username,
        build_row(AccountClock, clock) if clock else AccountClock(username=username),
        build_row(Lexicon, lexicon) if lexicon else Lexicon(username=username),
        [build_row(ActionUnderWay, one) for one in actions or ()],
        era or "",
        heard,
        timezone.now(),
    )


def rewrite_rows(rows: Sequence[GameSnapshot], fields: Sequence[str]) -> None:
    """Write these fields of the rows.

    In one statement of plain SQL: the ORM builds a CASE for each column and row, which
    takes longer than all the rest of what an answer of the game sets off.
    """
    if rows:
        values = {"rows": _dump_fields(rows, fields)}
        fetch_rows(_build_rewrite(fields), values, prepare=True)


def _build_rewrite(fields: Sequence[str]) -> str:
    taken = ", ".join(f"{field} = new.{field}" for field in fields)
    find = GameSnapshot._meta.get_field
    typed = ", ".join(f"{field} {find(field).db_type(connection)}" for field in fields)
    return f"""
    UPDATE memory_gamesnapshot AS kept SET {taken}
    FROM jsonb_to_recordset(%(rows)s::jsonb) AS new(id bigint, {typed})
    WHERE kept.id = new.id
    """  # noqa: S608 (no input in the text)


def _dump_fields(rows: Sequence[GameSnapshot], fields: Sequence[str]) -> str:
    return json.dumps(
        [
            {"id": row.pk} | {field: getattr(row, field) for field in fields}
            for row in rows
        ]
    )


# --- Ticks


def compute_tick(seen: Sighting | None, now: datetime) -> int | None:
    """The tick at a moment, by the configured length of a tick."""
    return clock.estimate_tick(seen, now, settings.ZOEA_SECONDS_PER_TICK)


def note_result(account: LockedAccount, result: Result) -> Sighting | None:
    """Keep the newest tick and the names that a result holds."""
    _learn(account, result.content)
    before = account.clock.sighting
    seen = clock.keep_newest_sighting(
        before,
        result.tick,
        account.now,
        is_current=result.tick_is_current,
        seconds_per_tick=settings.ZOEA_SECONDS_PER_TICK,
    )
    if seen is None or seen == before:
        return seen
    account.clock.tick, account.clock.seen_at = seen.tick, seen.at
    if clock.is_reset(before.tick if before else None, seen.tick):
        _forget_ticks(account.username)
        for action in account.actions:
            action.tick = None
    return seen


def find_own_tick(result: Result, seen: Sighting | None, now: datetime) -> int | None:
    """The tick that an answer says it is of, unless that cannot have come yet."""
    tick, pace = result.tick, settings.ZOEA_SECONDS_PER_TICK
    if tick is None or result.tick_is_current:
        return tick
    return tick if clock.is_reachable(seen, tick, now, pace) else None


def find_shown_tick(
    own: int | None, seen: Sighting | None, now: datetime
) -> int | None:
    """The tick whose outcomes an answer surely shows; ``own`` is the one it says.

    One from long before the newest tick seen is that of some entry in the answer.
    """
    sure = clock.find_certain_tick(seen, now, settings.ZOEA_SECONDS_PER_TICK)
    if own is None or sure is None or clock.is_reset(sure, own):
        return sure
    return min(own, sure)


def _forget_ticks(username: str) -> None:
    """Ticks from before a server reset mean nothing any more; the moments do."""
    rows = GameSnapshot.objects.filter(username=username)
    marked = list(rows.exclude(marks=[]).only("marks", *JOINED_MARK).order_by("pk"))
    for row in marked:
        row.set_marks([replace(mark, tick=None) for mark in parse_marks(row.marks)])
        if joined := row.get_joined_mark():
            causes = tuple(replace(each, tick=None) for each in joined.causes)
            row.set_joined_mark(replace(joined, tick=None, causes=causes))
    rewrite_rows(marked, ["marks", *JOINED_MARK])
    # What was merged is as old as what it was merged into.
    rows.update(game_tick=None, stale_tick=None, field_ticks={})
    ActionUnderWay.objects.filter(username=username).update(tick=None)
    GameEvent.objects.filter(username=username).update(tick=None, exact=False)


# --- The game's clock


def learn_offset(account: LockedAccount, seen: Offset | None) -> Offset | None:
    """Learn the offset of the game's clock from one more answer.

    A game on this machine has our clock, as long as no answer contradicts that.
    """
    row, now = account.clock, account.now
    known = _offset_of(row, now)
    host = urlsplit(settings.SPACEMOLT_MCP_URL).hostname or ""
    is_here = host in ("localhost", "::1") or host.startswith("127.")
    if is_here and (known is None or known.holds(0.0)):
        known = SAME_CLOCK
    found = seen if known is None else known.narrow(seen)
    if found is not None and seen is not None:
        row.offset_low, row.offset_high, row.offset_at = found.low, found.high, now
    return found


def _offset_of(row: AccountClock, now: datetime) -> Offset | None:
    if row.offset_low is None or row.offset_high is None:
        return None
    known = Offset(row.offset_low, row.offset_high, row.offset_at).widen(now)
    return known if known.is_possible() else None


# --- Names and sizes


def _learn(account: LockedAccount, content: object) -> None:
    if isinstance(content, str):
        content = unwrap_content(content)
    names, items = learn_names(content), learn_sizes(content)
    known = account.lexicon
    if names.items() <= known.names.items() and items.items() <= known.sizes.items():
        return
    known.names, known.sizes = _with(known.names, names), _with(known.sizes, items)
    known.save()


def _with(before: dict[str, T], new: dict[str, T]) -> dict[str, T]:
    """Both, the new ones last; only the last thousand are kept."""
    both = {key: value for key, value in before.items() if key not in new} | new
    return dict(list(both.items())[-KEPT_NAMES:])
