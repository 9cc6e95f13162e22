"""The events that the game reports to an account: stored, and merged into its snapshots.

Every event is stored once, under its id. A snapshot is made anew from what was recorded
and all events since, so the result does not depend on the order in which they came.
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
from memory.gamestate.notices import Notice, read_notices, read_offset
from memory.gamestate.reactions import Owner, find_outcome
from memory.gamestate.types import Snapshot, Stale
from memory.models import GameEvent, GameSnapshot
from memory.models.game import BEFORE_LOGOUT, JOINED_MARK, SAME_IN_NOTICE, parse_marks
from memory.snapshots import under_way
from memory.snapshots.rows import (
    compute_tick,
    find_lexicon,
    learn_offset,
    lock_account,
    note_result,
    rewrite_rows,
)

KEPT_EVENTS = 2000
_LONGEST_DATA = 64_000
# A snapshot from further in the future was taken before our clock went back: nobody
# can tell what happened since.
_SKEW = timedelta(seconds=2)
_WRITTEN = ["merged", "field_ticks", "counted", *JOINED_MARK]


@dataclass(frozen=True, slots=True)
class ChangedSnapshot:
    """A snapshot that events changed: what they wrote, and what they made doubtful.

    ``doubted`` is None where nothing new is in doubt, () for the whole snapshot;
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
def merge_notifications(
    *, username: str, result: Result, asked_at: datetime | None = None
) -> list[ChangedSnapshot]:
    """Store the events of an answer of get_notifications and merge the new ones.

    ``asked_at`` is when the call was sent.
    """
    if result.is_error:
        return []
    lock_account(username)
    now = timezone.now()
    tick = compute_tick(note_result(username, result, now), now)
    pace = settings.ZOEA_SECONDS_PER_TICK
    offset = learn_offset(username, read_offset(result.content, asked_at, now), now)
    notices = read_notices(result.content, now, pace, tick, asked_at, offset)
    new = _store_new(username, notices, now)
    if not new:
        return []
    _end_actions(username, new)
    return _merge_all(username, new, tick)


def _end_actions(username: str, notices: Sequence[Notice]) -> None:
    """An action whose outcome is reported is not under way any more."""
    waiting, ended = under_way.find_waiting(username), []
    for notice in notices:
        tool = find_outcome(notice)
        if notice.kind == "action_error":
            tool = str(notice.data.get("command"))
        for row in waiting:
            if row.tool == tool and notice.at and row.asked_at < notice.at:
                waiting.remove(row)
                ended.append(row)
                break
    under_way.end_actions(ended)


def _store_new(
    username: str, notices: Sequence[Notice], now: datetime
) -> Sequence[Notice]:
    kept = GameEvent.objects.filter(username=username)
    same = kept.filter(event_id__in=[notice.id for notice in notices])
    known = set(same.values_list("event_id", flat=True))
    new = [notice for notice in notices if notice.id not in known]
    GameEvent.objects.bulk_create([_to_row(username, n, now) for n in new])
    if new:
        oldest = kept.order_by("-pk").values_list("pk", flat=True)
        for too_old in oldest[KEPT_EVENTS : KEPT_EVENTS + 1]:
            kept.filter(pk__lte=too_old).delete()
    return new


def _to_row(username: str, notice: Notice, now: datetime) -> GameEvent:
    data: dict[str, Any] = dict(notice.data)
    length = len(json.dumps(data))
    return GameEvent(
        username=username,
        event_id=notice.id,
        data=data if length <= _LONGEST_DATA else {"too_long": length},
        received_at=now,
        **{name: getattr(notice, name) for name in SAME_IN_NOTICE},
    )


def merge_recent(
    username: str, tool: str, asked_at: datetime, tick: int | None
) -> list[ChangedSnapshot]:
    """Merge the events that came while an answer was on its way; needs the lock."""
    rows = GameEvent.objects.filter(username=username, received_at__gte=asked_at)
    notices = [row.to_notice() for row in rows.order_by("pk")]
    return _merge_all(username, notices, tick, tool) if notices else []


# --- Merging


def _merge_all(
    username: str, new: Sequence[Notice], tick: int | None, tool: str = ""
) -> list[ChangedSnapshot]:
    """Rewrite the snapshots that a new event concerns; only those of ``tool``, if given."""
    kept = GameSnapshot.objects.filter(username=username, logged_out_at=None)
    kept = kept.exclude(stale_reason=BEFORE_LOGOUT).order_by("pk")
    only = kept.filter(tool_name=tool) if tool else kept
    hit = _concerned(username, only, new)
    if not hit:
        return []
    # The mergeable ones together say who the player is, and how large items are.
    rows = list(kept.filter(Q(pk__in=hit) | Q(tool_name__in=rules.MERGEABLE)))
    snapshots = {row.pk: row.to_snapshot() for row in rows}
    sizes = find_lexicon(username).sizes
    known = rules.learn_account(username, snapshots.values(), sizes)
    rows = [row for row in rows if row.pk in hit]
    events = _events_since(username, min(_asked_at(row) for row in rows))
    complete_since = _complete_since(username)
    written, changed = [], []
    for row in rows:
        before = snapshots[row.pk]
        gone = complete_since is not None and complete_since > _asked_at(row)
        if gone or _asked_at(row) > timezone.now() + _SKEW:
            after = rules.doubt_all(before, tick)
        else:
            since = [notice for at, notice in events if at > _asked_at(row)]
            after = rules.write_events(before, since, known, tick)
        if after != before:
            written.append(_set_merged(row, after))
            changed.append(_list_changes(before, after))
    rewrite_rows(written, _WRITTEN)
    return changed


def _asked_at(row: GameSnapshot) -> datetime:
    """Events that came before this moment are in the snapshot already."""
    return row.asked_at or row.captured_at


def _concerned(
    username: str, kept: QuerySet[GameSnapshot], new: Sequence[Notice]
) -> set[int]:
    """The rows that a new event may change, found without their contents."""
    me = Owner(username, frozenset())
    columns = kept.values_list("pk", "tool_name", "marks", "stale_reason")
    found = set()
    for key, tool, stored, reason in columns:
        marks = parse_marks(stored) or (Stale(reason),)
        if any(rules.may_change(notice, tool, marks, me) for notice in new):
            found.add(key)
    return found


def _events_since(username: str, since: datetime) -> list[tuple[datetime, Notice]]:
    """The stored events in their order, each with when it was received."""
    rows = GameEvent.objects.filter(username=username, received_at__gt=since)
    known = {row.event_id: row for row in rows.order_by("pk")}
    ordered = rules.arrange_events(row.to_notice() for row in known.values())
    return [(known[notice.id].received_at, notice) for notice in ordered]


def _complete_since(username: str) -> datetime | None:
    """From when on all events are stored; None where none was ever deleted."""
    kept = GameEvent.objects.filter(username=username).order_by("-pk")
    oldest = kept.values_list("received_at", flat=True)[KEPT_EVENTS - 1 : KEPT_EVENTS]
    return oldest.first()


def _set_merged(row: GameSnapshot, after: Snapshot) -> GameSnapshot:
    row.merged = "" if after.shown is None else json.dumps(after.shown)
    row.field_ticks = dict(after.field_ticks)
    row.counted = list(after.counted)
    row.set_joined_mark(after.stale)
    return row


def _list_changes(before: Snapshot, after: Snapshot) -> ChangedSnapshot:
    new = None if after.stale == before.stale else after.stale
    written = {
        path: tick
        for path, tick in after.field_ticks.items()
        if before.field_ticks.get(path) != tick
    }
    return ChangedSnapshot(
        tool=after.tool,
        args=after.args,
        merged=tuple(written),
        merged_tick=max(written.values(), default=None),
        doubted=new.fields if new else None,
        reason=new.reason if new else "",
        tick=new.tick if new else None,
    )
