"""Many snapshots written at once: one statement of plain SQL.

The ORM builds a CASE for each column and row, which takes longer than all the rest of
what an answer of the game sets off.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TypeVar
from urllib.parse import urlsplit

from django.conf import settings
from django.db import connection
from django.utils import timezone

from memory.gamestate import clock
from memory.gamestate.clock import SAME, Offset, Sighting
from memory.gamestate.extract import Result
from memory.gamestate.facts import learnt, sizes
from memory.gamestate.notices import Notice
from memory.gamestate.types import Snapshot, Stale
from memory.gamestate.values import parse_text
from memory.models import AccountClock, ActionUnderWay, GameEvent, GameSnapshot, Lexicon

TYPES: Mapping[str, str] = {
    "merged": "text",
    "field_ticks": "jsonb",
    "counted": "jsonb",
    "marks": "jsonb",
    "stale_reason": "text",
    "stale_tick": "bigint",
    "stale_fields": "jsonb",
}


def rewrite(rows: Sequence[GameSnapshot], fields: Sequence[str]) -> None:
    """Write these fields of the rows. Raises KeyError for a field of no known type."""
    if not rows:
        return
    taken = ", ".join(f"{field} = new.{field}" for field in fields)
    typed = ", ".join(f"{field} {TYPES[field]}" for field in fields)
    body = [
        {"id": row.pk} | {field: getattr(row, field) for field in fields}
        for row in rows
    ]
    sql = f"""
    UPDATE memory_gamesnapshot AS kept SET {taken}
    FROM jsonb_to_recordset(%s::jsonb) AS new(id bigint, {typed})
    WHERE kept.id = new.id
    """  # noqa: S608 (no input in the text)
    with connection.cursor() as cursor:
        cursor.execute(sql, [json.dumps(body)])


# SECTION Rows of game state as the pure rules see them, and the clock of an account.

BEFORE_LOGOUT = "captured before logout"
KEPT_NAMES = 1000
MOST_MARKS = 20

T = TypeVar("T")

# Asked in each call: written out, as the ORM would take several times as long for them.
SEEN = "SELECT tick, seen_at FROM memory_accountclock WHERE username = %s"
NAMES = "SELECT * FROM memory_lexicon WHERE username = %s"
LOCK = "SELECT pg_advisory_xact_lock(hashtext('game state'), hashtext(%s))"


def lock(username: str) -> None:
    """Let the writes of one account have one order, until the transaction ends."""
    with connection.cursor() as cursor:
        cursor.execute(LOCK, [username])


# -- snapshots -----------------------------------------------------------------


def snapshot_of(row: GameSnapshot) -> Snapshot:
    """A stored row as the pure rules see it."""
    flagged = row.stale_reason == BEFORE_LOGOUT
    return Snapshot(
        tool=row.tool_name,
        args=row.args,
        content=parse_text(row.content),
        tick=row.game_tick,
        captured_at=row.captured_at,
        stale=None if flagged else stale_of(row),
        field_ticks=row.field_ticks,
        logged_out=flagged,
        shown=parse_text(row.merged) if row.merged else None,
        marks=marks_of(row.marks),
        asked_at=row.asked_at,
        counted=tuple(row.counted),
    )


def stale_of(row: GameSnapshot) -> Stale | None:
    """What a row's marks come to; a logout is no mark."""
    if not row.stale_reason or row.stale_reason == BEFORE_LOGOUT:
        return None
    return Stale(row.stale_reason, row.stale_tick, tuple(row.stale_fields))


def put_stale(row: GameSnapshot, stale: Stale | None) -> None:
    """Write what a row's marks come to."""
    row.stale_reason = stale.reason if stale else ""
    row.stale_tick = stale.tick if stale else None
    row.stale_fields = list(stale.fields) if stale else []


def marks_of(stored: Iterable[Mapping[str, object]]) -> tuple[Stale, ...]:
    """The marks of a row, one for each action."""
    return tuple(_mark(each) for each in stored)


def _mark(stored: Mapping[str, object]) -> Stale:
    tick, fields = stored.get("tick"), stored.get("fields")
    return Stale(
        reason=str(stored.get("reason")),
        tick=tick if isinstance(tick, int) else None,
        fields=tuple(fields) if isinstance(fields, list) else (),
        at=_moment(stored.get("at")),
        done=_moment(stored.get("done")),
    )


def _moment(stored: object) -> datetime | None:
    return datetime.fromisoformat(stored) if isinstance(stored, str) else None


def put_marks(row: GameSnapshot, marks: Iterable[Stale]) -> None:
    """Write the marks; of very many the oldest are joined and answered no more."""
    listed = list(marks)
    while len(listed) > MOST_MARKS:
        first, second, *rest = listed
        whole = not first.fields or not second.fields
        both = () if whole else tuple(dict.fromkeys((*first.fields, *second.fields)))
        ticks = [mark.tick for mark in (first, second) if mark.tick is not None]
        listed = [Stale(second.reason, max(ticks, default=None), both), *rest]
    row.marks = [
        {
            "reason": each.reason,
            "tick": each.tick,
            "fields": list(each.fields),
            "at": each.at.isoformat() if each.at else None,
            "done": each.done.isoformat() if each.done else None,
        }
        for each in listed
    ]


def notice_of(row: GameEvent) -> Notice:
    """A stored event as the pure rules see it."""
    return Notice(
        id=row.event_id,
        kind=row.kind,
        data=row.data,
        category=row.category,
        tick=row.tick,
        exact=row.exact,
        at=row.at,
        slack=row.slack,
        sent_at=row.sent_at,
    )


# -- ticks ---------------------------------------------------------------------


def tick_now(seen: Sighting | None, now: datetime) -> int | None:
    """The tick at a moment, by the configured length of a tick."""
    return clock.current_tick(seen, now, settings.ZOEA_SECONDS_PER_TICK)


def sighting_of(username: str | None) -> Sighting | None:
    """The newest tick seen for an account."""
    if not username:
        return None
    with connection.cursor() as cursor:
        cursor.execute(SEEN, [username])
        row = cursor.fetchone()
    return Sighting(*row) if row else None


def sighting(row: AccountClock | None) -> Sighting | None:
    """A stored clock as the pure rules see it."""
    return Sighting(row.tick, row.seen_at) if row else None


def tick_of(username: str | None) -> int | None:
    """The account's tick now, by its clock; None where none was ever seen."""
    return tick_now(sighting_of(username), timezone.now())


def note(username: str, result: Result, now: datetime) -> Sighting | None:
    """Keep the newest tick and the names that a result tells; under the lock."""
    _learn(username, result.content)
    before = sighting_of(username)
    seen = clock.newest(
        before,
        result.tick,
        now,
        is_current=result.tick_is_current,
        seconds_per_tick=settings.ZOEA_SECONDS_PER_TICK,
    )
    if seen is None or seen == before:
        return seen
    _see(username, seen)
    if clock.is_reset(before.tick if before else None, seen.tick):
        _forget_ticks(username)
    return seen


def _see(username: str, seen: Sighting) -> None:
    # Under the lock nobody else makes the row, so it needs no savepoint.
    told = {"tick": seen.tick, "seen_at": seen.at}
    if not AccountClock.objects.filter(pk=username).update(**told):
        AccountClock.objects.create(username=username, **told)


def own_tick(result: Result, seen: Sighting | None, now: datetime) -> int | None:
    """The tick that an answer tells of itself, where it can have come by now."""
    tick, pace = result.tick, settings.ZOEA_SECONDS_PER_TICK
    if tick is None or result.tick_is_current:
        return tick
    return tick if clock.in_reach(seen, tick, now, pace) else None


def shown_tick(own: int | None, seen: Sighting | None, now: datetime) -> int | None:
    """The tick whose outcomes an answer surely shows; ``own`` is the one it tells.

    One from long before what was seen is some entry's, not the answer's.
    """
    sure = clock.sure_tick(seen, now, settings.ZOEA_SECONDS_PER_TICK)
    if own is None or sure is None or clock.is_reset(sure, own):
        return sure
    return min(own, sure)


def _forget_ticks(username: str) -> None:
    """Ticks from before a server reset say nothing any more: the moments remain."""
    rows = GameSnapshot.objects.filter(username=username)
    marked = list(rows.exclude(marks=[]).only("marks").order_by("pk"))
    for row in marked:
        put_marks(row, [replace(mark, tick=None) for mark in marks_of(row.marks)])
    rewrite(marked, ["marks"])
    # What was merged is as old as what it was merged into.
    rows.update(game_tick=None, stale_tick=None, field_ticks={})
    ActionUnderWay.objects.filter(username=username).update(tick=None)
    GameEvent.objects.filter(username=username).update(tick=None, exact=False)


# -- the game's clock ------------------------------------------------------------


def learn_offset(username: str, seen: Offset | None, now: datetime) -> Offset | None:
    """What is known of the game's clock with one more answer; under the lock.

    A game on this machine has our clock, as long as no answer speaks against it.
    """
    row = AccountClock.objects.filter(pk=username).first()
    known = _offset_of(row, now)
    if _is_here() and (known is None or known.holds(0.0)):
        known = SAME
    found = seen if known is None else known.and_seen(seen)
    if row is not None and found is not None and seen is not None:
        row.offset_low, row.offset_high = found.low, found.high
        row.offset_at = now
        row.save(update_fields=["offset_low", "offset_high", "offset_at"])
    return found


def _offset_of(row: AccountClock | None, now: datetime) -> Offset | None:
    if row is None or row.offset_low is None or row.offset_high is None:
        return None
    known = Offset(row.offset_low, row.offset_high, row.offset_at).known_at(now)
    return known if known.is_possible() else None


def _is_here() -> bool:
    host = urlsplit(settings.SPACEMOLT_MCP_URL).hostname or ""
    return host == "localhost" or host == "::1" or host.startswith("127.")


# -- names ---------------------------------------------------------------------


def names_of(username: str) -> dict[str, str]:
    """The names by id that earlier answers to an account have told."""
    return dict(_lexicon(username).names)


def sizes_of(username: str) -> dict[str, float]:
    """The sizes of items that earlier answers to an account have told."""
    return dict(_lexicon(username).sizes)


def _lexicon(username: str) -> Lexicon:
    found = Lexicon.objects.raw(NAMES, [username])
    return next(iter(found), None) or Lexicon(username=username)


def _learn(username: str, content: object) -> None:
    names, items = learnt(content), sizes(content)
    if not names and not items:
        return
    kept = _lexicon(username)
    if names.items() <= kept.names.items() and items.items() <= kept.sizes.items():
        return
    kept.names, kept.sizes = _with(kept.names, names), _with(kept.sizes, items)
    kept.save()


def _with(before: dict[str, T], told: dict[str, T]) -> dict[str, T]:
    """The newest last, and of very many the newest alone."""
    both = {key: value for key, value in before.items() if key not in told} | told
    return dict(list(both.items())[-KEPT_NAMES:])
