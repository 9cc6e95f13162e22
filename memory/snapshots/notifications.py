"""The events that the game tells an account: kept, and merged into its snapshots.

Every event is stored once, under its id. A snapshot is made anew from what was
recorded and all events that came in since, so that nothing depends on when which
of them was told.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from memory.gamestate import merge as rules
from memory.gamestate.extract import Result
from memory.gamestate.notices import Notice, offset_seen, read_notices
from memory.gamestate.reactions import Self, outcome_of
from memory.gamestate.types import Snapshot, Stale
from memory.models import GameEvent, GameSnapshot
from memory.snapshots import in_flight
from memory.snapshots.rows import (
    BEFORE_LOGOUT,
    learn_offset,
    lock,
    marks_of,
    note,
    notice_of,
    put_stale,
    rewrite,
    sizes_of,
    snapshot_of,
    tick_now,
)

KEPT_EVENTS = 2000
LONGEST_DATA = 64_000
# A snapshot from further in the future was taken before our clock went back: nobody
# can tell what happened since.
SKEW = timedelta(seconds=2)
WRITTEN = [
    "merged",
    "field_ticks",
    "counted",
    "stale_reason",
    "stale_tick",
    "stale_fields",
]


@dataclass(frozen=True, slots=True)
class Changed:
    """A snapshot that events changed: what they wrote, and what they made doubtful.

    ``doubted`` is null where nothing new is in doubt, () for the whole snapshot;
    ``reason`` and ``tick`` are the doubt's.
    """

    tool: str
    args: Mapping[str, Any]
    merged: tuple[str, ...]
    merged_tick: int | None
    doubted: tuple[str, ...] | None
    reason: str
    tick: int | None


@transaction.atomic(savepoint=False)
def merge(
    *, username: str, result: Result, asked_at: datetime | None = None
) -> list[Changed]:
    """Keep the events of an answer of get_notifications and merge what is new.

    ``asked_at`` is when the call was sent.
    """
    if result.is_error:
        return []
    lock(username)
    now = timezone.now()
    tick = tick_now(note(username, result, now), now)
    pace = settings.ZOEA_SECONDS_PER_TICK
    offset = learn_offset(username, offset_seen(result.content, asked_at, now), now)
    notices = read_notices(result.content, now, pace, tick, asked_at, offset)
    new = _keep(username, notices, now)
    if not new:
        return []
    _end_actions(username, new)
    return _merged(username, new, tick)


def _end_actions(username: str, notices: Sequence[Notice]) -> None:
    """An action whose outcome is told is not under way any more."""
    waiting, ended = in_flight.waiting(username), []
    for notice in notices:
        told = outcome_of(notice)
        if notice.kind == "action_error":
            told = str(notice.data.get("command"))
        for row in waiting:
            if row.tool == told and notice.at and row.asked_at < notice.at:
                waiting.remove(row)
                ended.append(row)
                break
    in_flight.end(ended)


def _keep(username: str, notices: Sequence[Notice], now: datetime) -> Sequence[Notice]:
    """Store the events that are not known yet, and return them."""
    kept = GameEvent.objects.filter(username=username)
    known = set(
        kept.filter(event_id__in=[n.id for n in notices]).values_list(
            "event_id", flat=True
        )
    )
    new = [notice for notice in notices if notice.id not in known]
    GameEvent.objects.bulk_create([_event(username, n, now) for n in new])
    if new:
        oldest = kept.order_by("-pk").values_list("pk", flat=True)
        for too_old in oldest[KEPT_EVENTS : KEPT_EVENTS + 1]:
            kept.filter(pk__lte=too_old).delete()
    return new


def _event(username: str, notice: Notice, now: datetime) -> GameEvent:
    data: dict[str, Any] = dict(notice.data)
    length = len(json.dumps(data))
    return GameEvent(
        username=username,
        event_id=notice.id,
        category=notice.category,
        kind=notice.kind,
        data=data if length <= LONGEST_DATA else {"too_long": length},
        tick=notice.tick,
        exact=notice.exact,
        at=notice.at,
        slack=notice.slack,
        sent_at=notice.sent_at,
        received_at=now,
    )


def merge_into(
    username: str, tool: str, asked_at: datetime, tick: int | None
) -> list[Changed]:
    """Merge the events that were told while an answer was on its way, under the lock."""
    told = GameEvent.objects.filter(username=username, received_at__gte=asked_at)
    notices = [notice_of(row) for row in told.order_by("pk")]
    return _merged(username, notices, tick, tool) if notices else []


def _merged(
    username: str, new: Sequence[Notice], tick: int | None, tool: str = ""
) -> list[Changed]:
    """Make the snapshots anew that a new event concerns, and leave all others alone.

    ``tool`` is the only one to look at, "" for all.
    """
    kept = GameSnapshot.objects.filter(username=username, logged_out_at=None)
    kept = kept.exclude(stale_reason=BEFORE_LOGOUT).order_by("pk")
    only = kept.filter(tool_name=tool) if tool else kept
    hit = _concerned(username, only, new)
    if not hit:
        return []
    # What is mergeable tells together who the player is, and how large items are.
    rows = list(kept.filter(Q(pk__in=hit) | Q(tool_name__in=rules.MERGEABLE)))
    snapshots = {row.pk: snapshot_of(row) for row in rows}
    known = rules.known(username, snapshots.values(), sizes_of(username))
    rows = [row for row in rows if row.pk in hit]
    events = _events_since(username, min(_asked(row) for row in rows))
    complete_since = _complete_since(username)
    written, changed = [], []
    for row in rows:
        before = snapshots[row.pk]
        gone = complete_since is not None and complete_since > _asked(row)
        if gone or _asked(row) > timezone.now() + SKEW:
            after = rules.overrun(before, tick)
        else:
            told = [notice for at, notice in events if at > _asked(row)]
            after = rules.written(before, told, known, tick)
        if after != before:
            written.append(_with(row, after))
            changed.append(_changed(before, after))
    rewrite(written, WRITTEN)
    return changed


def _asked(row: GameSnapshot) -> datetime:
    """What was told before this happened before it, and is in the snapshot."""
    return row.asked_at or row.captured_at


def _concerned(
    username: str, kept: QuerySet[GameSnapshot], new: Sequence[Notice]
) -> set[int]:
    """The rows that a new event may change, found without their contents."""
    me = Self(username, frozenset())
    columns = kept.values_list("pk", "tool_name", "marks", "stale_reason")
    found = set()
    for key, tool, stored, reason in columns:
        marks = marks_of(stored) or (Stale(reason),)
        if any(rules.concerns(notice, tool, marks, me) for notice in new):
            found.add(key)
    return found


def _events_since(username: str, since: datetime) -> list[tuple[datetime, Notice]]:
    """The kept events in their order, each with when it was told."""
    rows = GameEvent.objects.filter(username=username, received_at__gt=since)
    told = {row.event_id: row for row in rows.order_by("pk")}
    ordered = rules.arranged(notice_of(row) for row in told.values())
    return [(told[notice.id].received_at, notice) for notice in ordered]


def _complete_since(username: str) -> datetime | None:
    """From when on all events are kept; None where none has ever given way."""
    kept = GameEvent.objects.filter(username=username).order_by("-pk")
    oldest = kept.values_list("received_at", flat=True)[KEPT_EVENTS - 1 : KEPT_EVENTS]
    return oldest.first()


def _with(row: GameSnapshot, after: Snapshot) -> GameSnapshot:
    row.merged = "" if after.shown is None else json.dumps(after.shown)
    row.field_ticks = dict(after.field_ticks)
    row.counted = list(after.counted)
    put_stale(row, after.stale)
    return row


def _changed(before: Snapshot, after: Snapshot) -> Changed:
    new = None if after.stale == before.stale else after.stale
    written = {
        path: tick
        for path, tick in after.field_ticks.items()
        if before.field_ticks.get(path) != tick
    }
    return Changed(
        tool=after.tool,
        args=after.args,
        merged=tuple(written),
        merged_tick=max(written.values(), default=None),
        doubted=new.fields if new else None,
        reason=new.reason if new else "",
        tick=new.tick if new else None,
    )


def newest_events(username: str, limit: int = 20) -> list[Notice]:
    """The events that an account was told last, the newest first."""
    rows = GameEvent.objects.filter(username=username).order_by("-pk")
    return [notice_of(row) for row in rows[:limit]]
