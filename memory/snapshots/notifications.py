"""The events that the game reports to an account: stored, and merged into its snapshots.

Every event is stored once, under its id. A snapshot is made anew from what was recorded
and all events since, so the result does not depend on the order in which they came.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from memory.gamestate import merge as rules
from memory.gamestate.confidence import TouchedSnapshot
from memory.gamestate.extract import Result, read_credits
from memory.gamestate.notices import Notice, read_notices, read_offset
from memory.gamestate.reactions import Owner, find_outcome, list_unheard
from memory.gamestate.types import Snapshot, Stale
from memory.models import (
    GameEvent,
    GameSnapshot,
    build_insert,
    fetch_models,
    fetch_rows,
    list_values,
)
from memory.models.game import BEFORE_LOGOUT, JOINED_MARK, SAME_IN_NOTICE, parse_marks
from memory.snapshots import under_way
from memory.snapshots.rows import (
    LockedAccount,
    compute_tick,
    learn_offset,
    note_result,
    open_account,
)

KEPT_EVENTS = 2000
_LONGEST_DATA = 64_000
# A snapshot from further in the future was taken before our clock went back: nobody
# can tell what happened since.
_SKEW = timedelta(seconds=2)
_STORE_NEW = """
WITH new AS (
  {insert} ON CONFLICT (username, event_id) DO NOTHING RETURNING event_id
), old AS (
  DELETE FROM memory_gameevent WHERE username = %s AND id <= (
    SELECT id FROM memory_gameevent WHERE username = %s
    ORDER BY id DESC OFFSET (SELECT greatest(0, %s - count(*)) FROM new) LIMIT 1
  ) AND EXISTS (SELECT FROM new)
)
SELECT event_id FROM new
"""
# With each the moment since when all are stored: that of the oldest that is kept.
_SINCE = f"""
SELECT received_at, event_id, data, {", ".join(SAME_IN_NOTICE)}, (
  SELECT received_at FROM memory_gameevent WHERE username = %(username)s
  ORDER BY id DESC OFFSET %(kept)s LIMIT 1
)
FROM memory_gameevent
WHERE username = %(username)s AND received_at > %(since)s
  AND kind <> ALL(%(unheard)s::text[]) ORDER BY id
"""  # noqa: S608 (no input in the text)
# All but what a logout hides, without their contents.
_KEPT = """
SELECT id, tool_name, marks, stale_reason FROM memory_gamesnapshot
WHERE username = %s AND logged_out_at IS NULL AND stale_reason <> %s ORDER BY id
"""
_WRITTEN = ["merged", "field_ticks", "counted", "credits", *JOINED_MARK]


@dataclass(frozen=True, slots=True)
class ChangedSnapshot:
    """A snapshot that events changed.

    ``merged`` are the paths that they wrote, with the tick of each; ``doubt`` is what
    they made doubtful, None where nothing new is. ``credits`` are what the account has
    since, None where they are as before, and ``events`` the new ones.
    """

    tool: str
    args: Mapping[str, Any]
    merged: Mapping[str, int]
    doubt: TouchedSnapshot | None
    credits: int | None = None
    events: Sequence[Notice] = ()


@transaction.atomic(savepoint=False)
def merge_notifications(
    *, username: str, result: Result, asked_at: datetime | None = None
) -> list[ChangedSnapshot]:
    """Store the events of an answer of get_notifications and merge the new ones."""
    if result.is_error:
        return []
    account = open_account(username, asked_at)
    now = account.now
    tick = compute_tick(note_result(account, result), now)
    pace = settings.ZOEA_SECONDS_PER_TICK
    offset = learn_offset(account, read_offset(result.content, asked_at, now))
    notices = read_notices(result.content, now, pace, tick, offset)
    new = _store_new(username, notices, now)
    _end_actions(account, new)
    return _merge_all(account, new, tick)


def _end_actions(account: LockedAccount, notices: Sequence[Notice]) -> None:
    """An action whose outcome is reported is not under way any more."""
    waiting, ended = under_way.select_waiting(account), []
    for notice in notices:
        tool = find_outcome(notice)
        if notice.kind == "action_error":
            tool = str(notice.data.get("command"))
        for row in waiting:
            if row.tool == tool and notice.at and row.asked_at < notice.at:
                waiting.remove(row)
                ended.append(row)
                break
    under_way.end_actions(account, ended)


def _store_new(
    username: str, notices: Sequence[Notice], now: datetime
) -> Sequence[Notice]:
    """Store the events that are new, and delete the oldest; the new ones."""
    rows = [_to_row(username, notice, now) for notice in notices]
    if not rows:
        return ()
    values = [value for row in rows for value in list_values(row)]
    sql = _STORE_NEW.format(insert=build_insert(GameEvent, len(rows)))
    values += [username, username, KEPT_EVENTS]
    found = fetch_rows(sql, values, prepare=True)
    stored = {event_id for (event_id,) in found}
    return [notice for notice in notices if notice.id in stored]


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
    account: LockedAccount, tool: str, asked_at: datetime, tick: int | None
) -> list[ChangedSnapshot]:
    """Merge the events that came while an answer was on its way; needs the lock."""
    rows = GameEvent.objects.filter(
        username=account.username, received_at__gte=asked_at
    )
    notices = [row.to_notice() for row in rows.order_by("pk")]
    return _merge_all(account, notices, tick, tool)


# --- Merging


def _merge_all(
    account: LockedAccount, new: Sequence[Notice], tick: int | None, tool: str = ""
) -> list[ChangedSnapshot]:
    """Rewrite the snapshots that a new event concerns; only those of ``tool``, if given.

    What else has changed of the account is stored with them.
    """
    changes = _find_changes(account, new, tick, tool) if new else ()
    account.save([row for row, _ in changes], _WRITTEN)
    return [change for _, change in changes]


def _find_changes(
    account: LockedAccount, new: Sequence[Notice], tick: int | None, tool: str
) -> list[tuple[GameSnapshot, ChangedSnapshot]]:
    username = account.username
    kept = fetch_rows(_KEPT, [username, BEFORE_LOGOUT], prepare=True)
    me = Owner(username)
    hit = {
        pk
        for pk, name, stored, reason in kept
        for marks in [parse_marks(json.loads(stored)) or (Stale(reason),)]
        if tool in ("", name)
        and any(rules.may_change(each, name, marks, me) for each in new)
    }
    if not hit:
        return []
    # The mergeable ones together say who the player is, and how large items are.
    wanted = hit.union(pk for pk, name, *_ in kept if name in rules.MERGEABLE)
    rows = fetch_models(GameSnapshot, "id = ANY(%s)", [list(wanted)])
    snapshots = {row.pk: row.to_snapshot() for row in rows}
    known = rules.learn_account(username, snapshots.values(), account.lexicon.sizes)
    rows = [row for row in rows if row.pk in hit]
    events, complete_since = _read_events_since(username, rows)
    changes = []
    for row in rows:
        before = snapshots[row.pk]
        gone = complete_since is not None and complete_since > _asked_at(row)
        if gone or _asked_at(row) > timezone.now() + _SKEW:
            after = rules.doubt_all(before, tick)
        else:
            since = [notice for at, notice in events if at > _asked_at(row)]
            after = rules.write_events(before, since, known, tick)
        if after != before:
            credits, written = row.credits, _set_merged(row, after)
            change = _list_changes(before, after)
            if written.credits != credits:
                change = replace(change, credits=written.credits, events=new)
            changes.append((written, change))
    return changes


def _asked_at(row: GameSnapshot) -> datetime:
    """Events that came before this moment are in the snapshot already."""
    return row.asked_at or row.captured_at


def _read_events_since(
    username: str, snapshots: Sequence[GameSnapshot]
) -> tuple[list[tuple[datetime, Notice]], datetime | None]:
    """The events that these may hear of, in order with their receipts, and since when
    all are kept, if not ever."""
    values = {
        "username": username,
        "since": min(map(_asked_at, snapshots)),
        "unheard": list(list_unheard({row.tool_name for row in snapshots})),
        "kept": KEPT_EVENTS - 1,
    }
    rows = fetch_rows(_SINCE, values, prepare=True)
    received = {}
    notices = {}
    for received_at, event_id, data, *rest, _ in rows:
        told = dict(zip(SAME_IN_NOTICE, rest, strict=True))
        notices[event_id] = Notice(id=event_id, data=json.loads(data), **told)
        received[event_id] = received_at
    ordered = rules.arrange_events(notices.values())
    complete_since = rows[-1][-1] if rows else None
    return [(received[each.id], each) for each in ordered], complete_since


def _set_merged(row: GameSnapshot, after: Snapshot) -> GameSnapshot:
    row.merged = "" if after.shown is None else json.dumps(after.shown)
    row.field_ticks = dict(after.field_ticks)
    row.counted = list(after.counted)
    row.credits = None if row.args_key else read_credits(row.tool_name, after.current)
    row.set_joined_mark(after.stale)
    return row


def _list_changes(before: Snapshot, after: Snapshot) -> ChangedSnapshot:
    new = None if after.stale == before.stale else after.stale
    doubt = TouchedSnapshot(after.tool, after.args, new) if new else None
    known, written = before.field_ticks, after.field_ticks
    merged = {path: tick for path, tick in written.items() if known.get(path) != tick}
    return ChangedSnapshot(after.tool, after.args, merged, doubt)
