"""What answers and actions do to the snapshots of an account: the only writes of them.

Rows belong to the game account, never to the Mysis (G4).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from django.conf import settings
from django.db import transaction
from django.db.models import Max
from django.utils import timezone

from memory.gamestate import clock, extract, invalidation, values
from memory.gamestate.confidence import TouchedSnapshot
from memory.gamestate.extract import Result
from memory.gamestate.invalidation import Invalidation
from memory.gamestate.types import Stale
from memory.models import (
    AccountClock,
    ActionUnderWay,
    GameEvent,
    GameSnapshot,
    Lexicon,
    fetch_models,
)
from memory.models.game import BEFORE_LOGOUT, JOINED_MARK, LONG_COLUMNS, parse_marks
from memory.snapshots import under_way
from memory.snapshots.notifications import merge_recent
from memory.snapshots.rows import (
    LockedAccount,
    compute_tick,
    find_own_tick,
    find_shown_tick,
    lock_account,
    note_result,
    open_account,
)

_LONGEST_KEY = 300
# Rows of one tool and account, which differ by their arguments.
KEPT_PER_TOOL = 100
# All of one tool, and what has marks, without their contents.
_OUTLINES = """
SELECT id, tool_name, args_key, captured_at, asked_at, marks, stale_reason, stale_tick,
  stale_fields, credits
FROM memory_gamesnapshot
WHERE username = %s AND (tool_name = %s OR marks <> '[]') ORDER BY id
"""
_MARK_COLUMNS = ["marks", "field_ticks", *JOINED_MARK]


@transaction.atomic(savepoint=False)
def capture_snapshot(
    *,
    username: str,
    tool: str,
    args: Mapping[str, object],
    text: str,
    result: Result,
    asked_at: datetime | None = None,
) -> GameSnapshot | None:
    """Store a good answer of a state tool, free of the marks of actions that it shows.

    Returns None, and stores nothing, for an error, for an answer that names another
    account (A7, A22), and for one asked for before what is stored. The mark of an
    action stays that takes effect after this snapshot (era A), or was not over when
    this was asked for.
    """
    if result.is_error or not extract.belongs_to(result, username):
        return None
    account = open_account(username, asked_at)
    now, seen = account.now, note_result(account, result)
    key = tool, make_storage_key(args)
    others = list(GameSnapshot.objects.raw(_OUTLINES, [username, tool]))
    same = next((row for row in others if (row.tool_name, row.args_key) == key), None)
    if same is not None and _is_newer(same, asked_at, now):
        account.save()
        return None
    own = find_own_tick(result, seen, now)
    stamped = clock.choose_tick(own, seen, now, settings.ZOEA_SECONDS_PER_TICK)
    present = stamped if stamped is not None else compute_tick(seen, now)
    # The tick whose outcomes it shows is never one that was only estimated.
    shows = find_shown_tick(own, seen, now)
    if not args:
        under_way.update_flights(
            account, tool, result, asked_at or now, tick=present, sure_tick=shows
        )
    account.save()
    marks = _find_marks(account, others, tool, args, shows, asked_at)
    row = GameSnapshot(
        username=username,
        tool_name=tool,
        args_key=key[1],
        args=dict(args),
        content=text.replace("\x00", ""),
        game_tick=stamped,
        captured_at=now,
        asked_at=asked_at,
    )
    if tool == extract.CREDITS_TOOL and not args:
        row.credits = extract.read_credits(tool, values.parse_text(row.content))
    row.set_marks(marks)
    row.set_joined_mark(invalidation.join_marks(marks, present))
    if same is not None:
        row.replaced_mark = same.get_joined_mark()
        row.replaced_credits = same.credits
    _upsert(row)
    if sum(each.tool_name == tool for each in others) >= KEPT_PER_TOOL:
        _delete_oldest(username, tool)
    # Events that came while this was on its way: nobody knows whether it holds them.
    if account.heard and merge_recent(account, tool, asked_at or now, present):
        row.refresh_from_db(fields=[*JOINED_MARK, "credits"])
    return row


@transaction.atomic(savepoint=False)
def invalidate_snapshots(
    *,
    username: str,
    tool: str,
    args: Mapping[str, object],
    result: Result,
    mutation: bool | None = None,
    asked_at: datetime | None = None,
) -> tuple[list[TouchedSnapshot], int | None]:
    """Mark what an action made untrue (G6).

    Returns the rows that it made more doubtful (those that were untrue before are
    marked again, but are no news), and the tick at which a queued action takes effect.
    ``mutation`` is what the server says of the tool.
    """
    account = open_account(username, asked_at)
    now, seen = account.now, note_result(account, result)
    tick = compute_tick(seen, now)
    era = _learn_era(account, tool, result)
    around = invalidation.Circumstances(tick, era, mutation)
    hits = invalidation.find_invalidations(tool, args, result, around)
    asked = Stale(tool, tick, (), asked_at or now, done=now)
    resolves = max((h.resolve_tick or 0 for h in hits), default=0) or None
    if hits:
        if not result.is_error and not result.is_unknown:
            under_way.end_flights(
                account, tool, find_shown_tick(None, seen, now), asked_at or now
            )
        under_way.store_action(username, replace(asked, tick=resolves), result, args)
    touched = _mark_rows(account, hits, asked)
    return touched, resolves if result.queued else None


@transaction.atomic
def mark_lost_events(username: str, reason: str) -> list[TouchedSnapshot]:
    """Mark what events that were lost unread would have changed.

    ``reason`` is one of `invalidation.LOSSES`. Returns the rows made more doubtful.
    """
    account = open_account(username)
    tick, now = compute_tick(account.clock.sighting, account.now), account.now
    lost = Stale(reason, tick, (), now, done=now)
    under_way.store_action(username, lost, Result(content=None), {})
    return _mark_rows(account, invalidation.find_lost(reason), lost)


@transaction.atomic
def begin_account(username: str) -> None:
    """Delete all that is known of a newly registered name: it was another account's."""
    lock_account(username)
    for known in (GameSnapshot, GameEvent, Lexicon, ActionUnderWay, AccountClock):
        known.objects.filter(username=username).delete()


@transaction.atomic
def log_out_account(username: str) -> None:
    """Hide the account's snapshots; the rows stay as a tombstone (A19).

    With ZOEA_ON_LOGOUT they are deleted, or left as they are.
    """
    lock_account(username)
    rows = GameSnapshot.objects.filter(username=username)
    if settings.ZOEA_ON_LOGOUT == "delete":
        rows.delete()
    elif settings.ZOEA_ON_LOGOUT == "tombstone":
        rows.filter(logged_out_at=None).update(logged_out_at=timezone.now())


@transaction.atomic
def revive_snapshots(username: str) -> None:
    """Show the rows from before a logout again, flagged as such (A19)."""
    lock_account(username)
    GameSnapshot.objects.filter(username=username, logged_out_at__isnull=False).update(
        logged_out_at=None,
        stale_reason=BEFORE_LOGOUT,
        stale_tick=None,
        stale_fields=[],
        marks=[],
        announced="",
    )


@transaction.atomic
def note_tick(*, username: str, result: Result) -> None:
    """Store the newest tick that any result of the account has shown."""
    account = open_account(username)
    note_result(account, result)
    account.save()


def hold_clocks() -> None:
    """Restart every clock at its last tick, as if no time had passed since."""
    AccountClock.objects.update(seen_at=timezone.now())


def read_newest_tick() -> int | None:
    """The highest tick that any account has seen."""
    newest: int | None = AccountClock.objects.aggregate(tick=Max("tick"))["tick"]
    return newest


def make_storage_key(args: Mapping[str, object]) -> str:
    """Canonical arguments, short enough for an index: long ones by their hash."""
    key = extract.build_args_key(args)
    if len(key) <= _LONGEST_KEY:
        return key
    digest = hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()
    return f"{key[: _LONGEST_KEY - 65]}#{digest}"


# --- Marking


def _mark_rows(
    account: LockedAccount, hits: Sequence[Invalidation], action: Stale
) -> list[TouchedSnapshot]:
    """Mark the account's rows that an action hits; returns those it made more doubtful.

    What else has changed of the account is stored with them.
    """
    rows, changed, owner = [], [], [account.username]
    # In one order, so that no two writers wait for each other.
    found = (
        fetch_models(GameSnapshot, "username = %s", owner, without=LONG_COLUMNS)
        if hits
        else ()
    )
    for row in found:
        here = [hit for hit in hits if hit.hits(row.tool_name)]
        if not here:
            continue
        before = _read_doubts(row)
        touched = _mark_row(row, here, action)
        rows.append(row)
        if _read_doubts(row) != before:
            changed.append(touched)
    account.save(rows, _MARK_COLUMNS)
    return changed


def _read_doubts(row: GameSnapshot) -> tuple[bool, frozenset[str], frozenset[str]]:
    """What of a row is in doubt, and which of its fields events have set."""
    mark = row.get_joined_mark()
    doubted = frozenset(mark.fields if mark else ())
    return bool(row.stale_reason), doubted, frozenset(row.field_ticks)


def _mark_row(
    row: GameSnapshot, hits: Iterable[Invalidation], action: Stale
) -> TouchedSnapshot:
    """Add an action's mark to a row, and drop what events had merged of its fields."""
    made = [hit.make_mark(action) for hit in hits]
    new = invalidation.join_marks(made, action.tick) or action
    new = replace(new, at=action.at, done=action.done)
    row.set_marks((*parse_marks(row.marks), new))
    if row.stale_reason != BEFORE_LOGOUT:
        before = filter(None, [row.get_joined_mark()])
        row.set_joined_mark(invalidation.join_marks([*before, new], action.tick))
    row.field_ticks = {
        path: tick
        for path, tick in row.field_ticks.items()
        if new.fields and not any(values.paths_overlap(path, f) for f in new.fields)
    }
    return TouchedSnapshot(row.tool_name, row.args, new)


def _learn_era(account: LockedAccount, tool: str, result: Result) -> str:
    """How the game answers actions: "A" queued and done later, "C" done at once."""
    if result.queued:
        era = "A"
    elif tool in invalidation.PACED and not (result.is_error or result.is_unknown):
        era = "C"
    else:
        # One server has one era: what another account learnt counts as well.
        return account.era or _guess_era(account.username, tool)
    account.clock.era = era
    return era


def _guess_era(username: str, tool: str) -> str:
    row = GameSnapshot.objects.filter(
        username=username, tool_name="get_status", args_key=""
    ).first()
    status = row.to_snapshot().current if row else None
    return "C" if invalidation.may_have_moved_dock(tool, status) else "A"


# --- Capturing


def _is_newer(same: GameSnapshot, asked_at: datetime | None, now: datetime) -> bool:
    """Whether the stored answer was asked for after this one.

    One stored in the future was so before our clock went back: it does not count.
    """
    if asked_at is None or same.asked_at is None or same.captured_at > now:
        return False
    return same.asked_at > asked_at


def _find_marks(
    account: LockedAccount,
    others: Sequence[GameSnapshot],
    tool: str,
    args: Mapping[str, object],
    tick: int | None,
    asked_at: datetime | None,
) -> tuple[Stale, ...]:
    """The marks of a new snapshot: one for each action that it may not show yet.

    Such an action takes effect later, or was not over when this was asked for.
    """
    marks = sorted((m for row in others for m in parse_marks(row.marks)), key=_sort_key)
    live = [mark for mark in marks if invalidation.carry_mark(mark, tick)]
    late = under_way.select_pending(account, tick, timezone.now())
    late += under_way.select_unanswered(account, asked_at) if asked_at else []
    live += map(under_way.to_mark, late)
    found = invalidation.build_marks(live, tool, args)
    once = {(mark.reason, mark.at, mark.fields): mark for mark in found}
    return tuple(sorted(once.values(), key=_sort_key))


def _sort_key(mark: Stale) -> str:
    return mark.at.isoformat() if mark.at else ""


def _upsert(row: GameSnapshot) -> None:
    identity = ["username", "tool_name", "args_key"]
    known = {*identity, "id", "version"}
    fields = (field.name for field in GameSnapshot._meta.concrete_fields)
    changed: list[str] = [name for name in fields if name not in known]
    GameSnapshot.objects.bulk_create(
        [row], update_conflicts=True, unique_fields=identity, update_fields=changed
    )


def _delete_oldest(username: str, tool: str) -> None:
    """Bound the rows of one tool: an agent may ask with ever new arguments."""
    rows = GameSnapshot.objects.filter(username=username, tool_name=tool)
    kept = rows.order_by("-captured_at", "-pk").values_list("pk")[:KEPT_PER_TOOL]
    rows.exclude(pk__in=list(kept.values_list("pk", flat=True))).delete()
