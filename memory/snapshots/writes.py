"""Rows that something made untrue: by an action, or by events that were lost."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from django.conf import settings
from django.db import transaction
from django.db.models import Max, QuerySet
from django.utils import timezone

from memory.gamestate import clock, extract, invalidation, values
from memory.gamestate.extract import Result
from memory.gamestate.invalidation import Invalidation
from memory.gamestate.types import Stale
from memory.models import AccountClock, ActionUnderWay, GameEvent, GameSnapshot, Lexicon
from memory.snapshots import in_flight
from memory.snapshots.notifications import merge_into
from memory.snapshots.rows import (
    BEFORE_LOGOUT,
    lock,
    marks_of,
    note,
    own_tick,
    put_marks,
    put_stale,
    rewrite,
    shown_tick,
    sighting_of,
    snapshot_of,
    stale_of,
    tick_now,
)

MARKED = ["marks", "stale_reason", "stale_tick", "stale_fields", "field_ticks"]


@dataclass(frozen=True, slots=True)
class Touched:
    """A snapshot that an action made untrue, wholly or in some fields."""

    tool: str
    args: Mapping[str, object]
    fields: tuple[str, ...]
    reason: str
    tick: int | None


def mark_rows(
    username: str, hits: Sequence[Invalidation], action: Stale
) -> list[Touched]:
    """Mark the account's rows that an action hits; the caller holds its lock.

    Returns those whose confidence changed by it: what was untrue before is marked
    anew, but it is no news.
    """
    rows, changed = [], []
    for row in _in_order(username) if hits else ():
        here = [hit for hit in hits if hit.hits(row.tool_name)]
        if not here:
            continue
        before = _doubts(row)
        touched = _mark(row, here, action)
        rows.append(row)
        if _doubts(row) != before:
            changed.append(touched)
    rewrite(rows, MARKED)
    return changed


def _in_order(username: str) -> QuerySet[GameSnapshot]:
    """An account's rows without their long texts, in the one order of their locks."""
    rows = GameSnapshot.objects.filter(username=username)
    return rows.defer("content", "merged").order_by("pk")


def _doubts(row: GameSnapshot) -> tuple[bool, frozenset[str], frozenset[str]]:
    """What of a row is in doubt, and what of it events have told."""
    doubted = frozenset(row.stale_fields)
    return bool(row.stale_reason), doubted, frozenset(row.field_ticks)


def _mark(row: GameSnapshot, hits: Iterable[Invalidation], action: Stale) -> Touched:
    """Give a row the mark of an action, and take back what was merged of it."""
    new: Stale | None = None
    for hit in hits:
        new = invalidation.mark(new, hit, action.reason, action.tick)
    assert new is not None  # noqa: S101 (there is at least one hit)
    new = replace(new, at=action.at, done=action.done)
    put_marks(row, (*marks_of(row.marks), new))
    if row.stale_reason != BEFORE_LOGOUT:
        before = filter(None, [stale_of(row)])
        put_stale(row, invalidation.joined([*before, new], action.tick))
    row.field_ticks = {
        path: tick
        for path, tick in row.field_ticks.items()
        if new.fields and not any(values.overlap(path, f) for f in new.fields)
    }
    return Touched(row.tool_name, row.args, new.fields, new.reason, new.tick)


# SECTION The snapshots of game accounts: capture, invalidate, merge, read, log out.
#
# Rows belong to the game account, never to the Mysis (G4). The rules are in
# ``memory.gamestate``; here they meet the rows. Every write of an account runs
# under one lock, so that a capture and an invalidation have one order.

LONGEST_KEY = 300
DOUBT = ("stale_reason", "stale_fields", "stale_tick")
# Stored of one tool and account, by arguments.
KEPT_PER_TOOL = 100


@transaction.atomic(savepoint=False)
def capture(
    *,
    username: str,
    tool: str,
    args: Mapping[str, object],
    text: str,
    result: Result,
    asked_at: datetime | None = None,
) -> GameSnapshot | None:
    """Store a good answer of a state tool; a stale mark goes, unless it is early.

    Returns None, and stores nothing, for an error or for an answer that names
    another account (A7, A22), or was asked for before what is stored. A mark stays
    whose action takes effect only after this snapshot (era A), or was not over when
    this was asked for. ``asked_at`` is when the call was sent.
    """
    if result.is_error or not extract.belongs_to(result, username):
        return None
    lock(username)
    now = timezone.now()
    seen = note(username, result, now)
    if _is_overtaken(username, tool, args, asked_at, now):
        return None
    own = own_tick(result, seen, now)
    stamped = clock.stamp(own, seen, now, settings.ZOEA_SECONDS_PER_TICK)
    present = stamped if stamped is not None else tick_now(seen, now)
    # What the answer may show already: never by an estimate that nobody confirmed.
    shows = shown_tick(own, seen, now)
    if not args:
        ticks = in_flight.Ticks(present, shows)
        in_flight.see(username, tool, result, ticks, asked_at or now)
    marks = _inherited(username, tool, args, shows, asked_at)
    row = GameSnapshot(
        username=username,
        tool_name=tool,
        args_key=storage_key(args),
        args=dict(args),
        content=text.replace("\x00", ""),
        game_tick=stamped,
        captured_at=now,
        asked_at=asked_at,
    )
    put_marks(row, marks)
    put_stale(row, invalidation.joined(marks, present))
    _upsert(row)
    _forget_oldest(username, tool)
    # Events told while this was on its way: nobody knows whether it holds them.
    merge_into(username, tool, asked_at or now, present)
    return row


@transaction.atomic(savepoint=False)
def invalidate(
    *,
    username: str,
    tool: str,
    args: Mapping[str, object],
    result: Result,
    mutation: bool | None = None,
    asked_at: datetime | None = None,
) -> list[Touched]:
    """Mark what an action made untrue (G6).

    Returns the rows whose confidence changed by it: what was untrue before is marked
    anew, but it is no news. ``mutation`` is the server's own word on the tool,
    ``asked_at`` when the call was sent.
    """
    lock(username)
    now = timezone.now()
    seen = note(username, result, now)
    tick = tick_now(seen, now)
    around = invalidation.Circumstances(tick, _era(username, tool, result), mutation)
    hits = invalidation.touched(tool, args, result, around)
    asked = Stale(tool, tick, (), asked_at or now, done=now)
    if hits:
        if not result.is_error and not result.is_unknown:
            in_flight.act(username, tool, shown_tick(None, seen, now), asked_at or now)
        resolves = max((h.resolve_tick or 0 for h in hits), default=0) or None
        in_flight.keep(username, replace(asked, tick=resolves), result, args)
    return mark_rows(username, hits, asked)


def _era(username: str, tool: str, result: Result) -> str:
    """How the game answers actions, as far as its answers have told.

    "A": queued, done later. "C": done when the answer comes.
    """
    if result.queued:
        told = "A"
    elif tool in invalidation.PACED and not (result.is_error or result.is_unknown):
        told = "C"
    else:
        # One server has one era: what another account learnt counts as well.
        known = AccountClock.objects.exclude(era="").order_by("-seen_at")
        found = known.values_list("era", flat=True).first()
        return found or _guessed_era(username, tool)
    AccountClock.objects.filter(pk=username).exclude(era=told).update(era=told)
    return told


def _guessed_era(username: str, tool: str) -> str:
    row = GameSnapshot.objects.filter(
        username=username, tool_name="get_status", args_key=""
    ).first()
    status = snapshot_of(row).current if row else None
    return "C" if invalidation.may_have_moved_dock(tool, status) else "A"


@transaction.atomic
def lose_events(username: str, reason: str) -> list[Touched]:
    """Events were lost that nobody has read: what they would have told is in doubt.

    ``reason`` is one of `invalidation.LOSSES`. Returns the rows whose confidence
    changed by it.
    """
    lock(username)
    now = timezone.now()
    tick = tick_now(sighting_of(username), now)
    lost = Stale(reason, tick, (), now, done=now)
    in_flight.keep(username, lost, Result(content=None), {})
    return mark_rows(username, invalidation.lost(reason), lost)


def doubt_of(
    username: str, tool: str, args: Mapping[str, object]
) -> tuple[str, tuple[str, ...], int | None]:
    """What of a stored answer is in doubt: the reason ("" for none), fields, tick."""
    rows = GameSnapshot.objects.filter(username=username, tool_name=tool)
    row = rows.filter(args_key=storage_key(args)).only(*DOUBT).first()
    stale = stale_of(row) if row is not None else None
    return (stale.reason, stale.fields, stale.tick) if stale else ("", (), None)


@transaction.atomic
def note_tick(*, username: str, result: Result) -> None:
    """Remember the newest tick that any result of the account carried."""
    lock(username)
    note(username, result, timezone.now())


@transaction.atomic
def logout(username: str) -> None:
    """Empty the account's list at once; the rows stay as a tombstone (A19).

    ZOEA_ON_LOGOUT may say to delete the rows, or to leave them as they are.
    """
    lock(username)
    rows = GameSnapshot.objects.filter(username=username)
    if settings.ZOEA_ON_LOGOUT == "delete":
        rows.delete()
    elif settings.ZOEA_ON_LOGOUT == "tombstone":
        rows.filter(logged_out_at=None).update(logged_out_at=timezone.now())


@transaction.atomic
def begin(username: str) -> None:
    """An account was registered: whatever is known of its name was another's."""
    lock(username)
    for known in (GameSnapshot, GameEvent, Lexicon, ActionUnderWay, AccountClock):
        known.objects.filter(username=username).delete()


@transaction.atomic
def revive(username: str) -> None:
    """After a new login: show the old rows again, flagged (A19)."""
    lock(username)
    GameSnapshot.objects.filter(username=username, logged_out_at__isnull=False).update(
        logged_out_at=None,
        stale_reason=BEFORE_LOGOUT,
        stale_tick=None,
        stale_fields=[],
        marks=[],
        announced="",
    )


def hold_clocks() -> None:
    """Go on from the last ticks seen as if no time had passed since."""
    AccountClock.objects.update(seen_at=timezone.now())


def newest_tick() -> int | None:
    """The highest tick that any account has seen."""
    newest: int | None = AccountClock.objects.aggregate(tick=Max("tick"))["tick"]
    return newest


def storage_key(args: Mapping[str, object]) -> str:
    """Canonical arguments, short enough for an index: long ones by their hash."""
    key = extract.args_key(args)
    if len(key) <= LONGEST_KEY:
        return key
    digest = hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()
    return f"{key[: LONGEST_KEY - 65]}#{digest}"


def _forget_oldest(username: str, tool: str) -> None:
    """Keep so many calls of one tool: an agent may ask with ever new arguments."""
    rows = GameSnapshot.objects.filter(username=username, tool_name=tool)
    kept = rows.order_by("-captured_at", "-pk").values_list("pk")[:KEPT_PER_TOOL]
    rows.exclude(pk__in=list(kept.values_list("pk", flat=True))).delete()


def _inherited(
    username: str,
    tool: str,
    args: Mapping[str, object],
    tick: int | None,
    asked_at: datetime | None,
) -> tuple[Stale, ...]:
    """The marks of a new snapshot: one for each action that it may not show yet.

    Such an action takes effect only later, or was not over when this was asked for.
    Action by action: one under way keeps no older doubt alive.
    """
    known = invalidation.inherited_marks(_known_marks(username), tool, args, tick)
    late = in_flight.still_to_come(username, tick, timezone.now())
    late += in_flight.not_over(username, asked_at) if asked_at else []
    new = invalidation.marks_for(map(in_flight.mark_of, late), tool, args)
    once = {(mark.reason, mark.at, mark.fields): mark for mark in (*known, *new)}
    return tuple(sorted(once.values(), key=_asked_of))


def _asked_of(mark: Stale) -> str:
    return mark.at.isoformat() if mark.at else ""


def _known_marks(username: str) -> list[Stale]:
    """The marks of all the account's rows, the oldest action first."""
    rows = GameSnapshot.objects.filter(username=username).exclude(marks=[])
    known = [mark for (marks,) in rows.values_list("marks") for mark in marks_of(marks)]
    return sorted(known, key=_asked_of)


def _is_overtaken(
    username: str,
    tool: str,
    args: Mapping[str, object],
    asked_at: datetime | None,
    now: datetime,
) -> bool:
    """Whether what is stored was asked for after this answer was.

    What is stored from the future was written before our clock went back.
    """
    if asked_at is None:
        return False
    rows = GameSnapshot.objects.filter(username=username, tool_name=tool)
    rows = rows.filter(args_key=storage_key(args), captured_at__lte=now)
    return rows.filter(asked_at__gt=asked_at).exists()


def _upsert(row: GameSnapshot) -> None:
    identity = ["username", "tool_name", "args_key"]
    changed: list[str] = [
        field.name
        for field in GameSnapshot._meta.concrete_fields
        if not field.primary_key and field.name not in identity
    ]
    row.pk = None
    GameSnapshot.objects.bulk_create(
        [row], update_conflicts=True, unique_fields=identity, update_fields=changed
    )
