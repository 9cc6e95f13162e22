"""The snapshots of game accounts: capture, invalidate, read, log out.

Rows belong to the game account, never to the Mysis (G4). The rules are in
``memory.gamestate``; here they meet the rows. Every write of an account runs
under a lock on its clock row, so that a capture and an invalidation have one
order.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.db import transaction
from django.db.models import Max, Window
from django.db.models.functions import RowNumber
from django.utils import timezone

from .gamestate import clock, extract, invalidation
from .gamestate.clock import Sighting
from .gamestate.extract import Result
from .gamestate.parse import parse_text
from .gamestate.rows import StateRow, rows
from .gamestate.types import AccountState, Snapshot, Stale
from .models import AccountClock, GameSnapshot

BEFORE_LOGOUT = "captured before logout"
LONGEST_KEY = 300
# Stored of one tool and account, by arguments; and of these read for a view.
KEPT_PER_TOOL = 100
READ_PER_TOOL = 4
PLACE = Window(RowNumber(), partition_by="tool_name", order_by=["-captured_at", "-pk"])


@dataclass(frozen=True, slots=True)
class Touched:
    """A snapshot that an action made untrue, wholly or in some fields."""

    tool: str
    args: Mapping[str, object]
    fields: tuple[str, ...]
    reason: str
    tick: int | None


@transaction.atomic
def capture(
    *, username: str, tool: str, args: Mapping[str, object], text: str, result: Result
) -> GameSnapshot | None:
    """Store a good answer of a state tool; a stale mark goes, unless it is early.

    Returns None, and stores nothing, for an error or for an answer that names
    another account (A7, A22). A mark whose action takes effect only after this
    snapshot stays (era A).
    """
    if result.is_error or not extract.belongs_to(result, username):
        return None
    now = timezone.now()
    seen = _note(username, result, now)
    key = storage_key(args)
    row = GameSnapshot.objects.filter(
        username=username, tool_name=tool, args_key=key
    ).first() or GameSnapshot(username=username, tool_name=tool, args_key=key)
    stamped = clock.stamp(result.tick, seen, now, settings.ZOEA_SECONDS_PER_TICK)
    present = stamped if stamped is not None else tick_now(seen, now)
    _mark(
        row,
        # Action by action: one under way keeps no older doubt alive.
        invalidation.inherited(
            [*filter(None, [_stale_of(row)]), *_under_way(username, present)],
            tool,
            args,
            present,
        ),
    )
    row.args = dict(args)
    row.content = text.replace("\x00", "")
    row.merged = ""
    row.game_tick = stamped
    row.captured_at = now
    row.field_ticks = {}
    row.logged_out_at = None
    _upsert(row)
    _forget_oldest(username, tool)
    return row


@transaction.atomic
def invalidate(
    *,
    username: str,
    tool: str,
    args: Mapping[str, object],
    result: Result,
    mutation: bool | None = None,
) -> list[Touched]:
    """Mark what an action made untrue; returns what was marked (G6)."""
    now = timezone.now()
    tick = tick_now(_note(username, result, now), now)
    around = invalidation.Circumstances(current_tick=tick, mutation=mutation)
    hits = invalidation.touched(tool, args, result, around)
    marked = []
    for row in GameSnapshot.objects.filter(username=username):
        for hit in (h for h in hits if h.hits(row.tool_name)):
            _mark(row, invalidation.mark(_stale_of(row), hit, tool, tick))
            marked.append(
                Touched(row.tool_name, row.args, hit.fields, tool, row.stale_tick)
            )
            row.save(update_fields=["stale_reason", "stale_tick", "stale_fields"])
    return marked


@transaction.atomic
def note_tick(*, username: str, result: Result) -> None:
    """Remember the newest tick that any result of the account carried."""
    _note(username, result, timezone.now())


@transaction.atomic
def logout(username: str) -> None:
    """Empty the account's list at once; the rows stay as a tombstone (A19)."""
    _lock(username)
    GameSnapshot.objects.filter(username=username, logged_out_at=None).update(
        logged_out_at=timezone.now()
    )


@transaction.atomic
def revive(username: str) -> None:
    """After a new login: show the old rows again, flagged (A19)."""
    _lock(username)
    GameSnapshot.objects.filter(username=username, logged_out_at__isnull=False).update(
        logged_out_at=None,
        stale_reason=BEFORE_LOGOUT,
        stale_tick=None,
        stale_fields=[],
    )


def account_state(
    username: str | None,
    *,
    now: datetime | None = None,
    last_shown: Mapping[str, str] | None = None,
    newest_only: bool = False,
) -> AccountState:
    """All that is known of an account now; ``None``: nobody is logged in.

    With ``newest_only`` a tool that was called with many arguments counts with
    its newest calls alone, so that a view costs the same however many there are.
    """
    moment = now or timezone.now()
    found: Iterable[GameSnapshot] = ()
    seen = None
    if username is not None:
        found = GameSnapshot.objects.filter(username=username, logged_out_at=None)
        if newest_only:
            found = found.annotate(place=PLACE).filter(place__lte=READ_PER_TOOL)
        seen = _sighting(AccountClock.objects.filter(pk=username).first())
    return AccountState(
        username=username,
        snapshots=tuple(snapshot_of(row) for row in found),
        current_tick=tick_now(seen, moment),
        now=moment,
        seconds_per_tick=settings.ZOEA_SECONDS_PER_TICK,
        last_shown=dict(last_shown or {}),
    )


def state_rows(username: str | None) -> tuple[StateRow, ...]:
    """The recency table of an account; empty where nobody is logged in."""
    return rows(account_state(username)) if username else ()


def tick_of(username: str | None) -> int | None:
    """The account's tick now, by its clock; None where none was ever seen."""
    row = AccountClock.objects.filter(pk=username).first() if username else None
    return tick_now(_sighting(row), timezone.now())


def hold_clocks() -> None:
    """Go on from the last ticks seen as if no time had passed since."""
    AccountClock.objects.update(seen_at=timezone.now())


def newest_tick() -> int | None:
    """The highest tick that any account has seen."""
    newest: int | None = AccountClock.objects.aggregate(tick=Max("tick"))["tick"]
    return newest


def tick_now(seen: Sighting | None, now: datetime) -> int | None:
    """The tick at a moment, by the configured length of a tick."""
    return clock.current_tick(seen, now, settings.ZOEA_SECONDS_PER_TICK)


def snapshot_of(row: GameSnapshot) -> Snapshot:
    """A stored row as the pure rules see it."""
    flagged = row.stale_reason == BEFORE_LOGOUT
    return Snapshot(
        tool=row.tool_name,
        args=row.args,
        content=parse_text(row.content),
        tick=row.game_tick,
        captured_at=row.captured_at,
        stale=None if flagged else _stale_of(row),
        field_ticks=row.field_ticks,
        logged_out=flagged,
        shown=parse_text(row.merged) if row.merged else None,
    )


def storage_key(args: Mapping[str, object]) -> str:
    """Canonical arguments, short enough for an index: long ones by their hash."""
    key = extract.args_key(args)
    if len(key) <= LONGEST_KEY:
        return key
    digest = hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()
    return f"{key[: LONGEST_KEY - 65]}#{digest}"


def _stale_of(row: GameSnapshot) -> Stale | None:
    if not row.stale_reason or row.stale_reason == BEFORE_LOGOUT:
        return None
    return Stale(row.stale_reason, row.stale_tick, tuple(row.stale_fields))


def _forget_oldest(username: str, tool: str) -> None:
    """Keep so many calls of one tool: an agent may ask with ever new arguments."""
    rows = GameSnapshot.objects.filter(username=username, tool_name=tool)
    kept = rows.order_by("-captured_at", "-pk").values_list("pk")[:KEPT_PER_TOOL]
    rows.exclude(pk__in=list(kept.values_list("pk", flat=True))).delete()


def _under_way(username: str, tick: int | None) -> list[Stale]:
    """Marks of actions that have still to take effect."""
    if tick is None:
        return []
    rows = GameSnapshot.objects.filter(username=username, stale_tick__gt=tick)
    return [
        stale for row in rows.defer("content", "merged") if (stale := _stale_of(row))
    ]


def _mark(row: GameSnapshot, stale: Stale | None) -> None:
    row.stale_reason = stale.reason if stale else ""
    row.stale_tick = stale.tick if stale else None
    row.stale_fields = list(stale.fields) if stale else []


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


def _lock(username: str) -> AccountClock | None:
    return AccountClock.objects.select_for_update().filter(pk=username).first()


def _sighting(row: AccountClock | None) -> Sighting | None:
    return Sighting(row.tick, row.seen_at) if row else None


def _note(username: str, result: Result, now: datetime) -> Sighting | None:
    before = _sighting(_lock(username))
    seen = clock.newest(before, result.tick, now, is_current=result.tick_is_current)
    if seen is None or seen == before:
        return seen
    AccountClock.objects.update_or_create(
        username=username, defaults={"tick": seen.tick, "seen_at": seen.at}
    )
    if clock.is_reset(before.tick if before else None, seen.tick):
        # Ticks from before a server reset say nothing any more: age by the clock.
        GameSnapshot.objects.filter(username=username).update(game_tick=None)
    return seen
