"""The event log: append in a transaction, read after a cursor, hint other processes.

Ids are drawn before their transactions commit, so a reader that trusts ids alone can
step over an event that commits late. Every event therefore also carries its transaction
id, drawn *before* its own id, and readers follow (xid, id) below the oldest transaction
still running: what turns up later sorts after all that was read. A cursor is an event id.

A hint tells web processes that there is something new, and nothing else. A NOTIFY in a
busy transaction serialises commits across the server, so it goes out after commit, from a
connection of its own, once in 20 ms at most. A lost one costs readers one poll interval.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, NamedTuple, TypedDict

import psycopg
from django.db import connections, transaction

from agents.db import fetch_row
from agents.models import Event
from memory.gamestate.values import make_storable
from memory.handles import find_owner, parse_id
from memory.models import fetch_rows
from memory.redaction import hide_secrets_in_value

CHANNEL = "zoea_events"
DEBOUNCE = 0.02
logger = logging.getLogger(__name__)
LARGEST_ID = 2**63 - 1
# So long a transaction may be open that writes events.
OUT_OF_ORDER = timedelta(minutes=1)

# Bodies are binary, as the driver takes long to escape the quotes of JSON in an array.
APPEND = """
WITH stamp AS MATERIALIZED (SELECT txid_current() AS xid)
INSERT INTO agents_event (xid, kind, mysis_id, data, created_at)
SELECT stamp.xid, line.kind, line.mysis_id, line.data::jsonb, clock_timestamp()
FROM stamp, unnest(%s::text[], %s::bigint[], %b::text[])
  WITH ORDINALITY AS line(kind, mysis_id, data, place)
ORDER BY line.place
"""

# One statement for every reader, with the filters that a page or a program
# may add; the watermark is the last condition.
READ = """
SELECT xid, id, kind, created_at, mysis_id, data FROM agents_event
WHERE (xid, id) > (%(xid)s, %(id)s)
  AND (%(mysis)s::bigint IS NULL OR mysis_id = %(mysis)s)
  AND (%(kinds)s::text[] IS NULL OR kind = ANY(%(kinds)s))
  AND xid < txid_snapshot_xmin(txid_current_snapshot())
ORDER BY xid, id LIMIT %(limit)s
"""

# Where the settled part of the log ends.
NEWEST = (
    "SELECT xid, id FROM agents_event "
    "WHERE xid < txid_snapshot_xmin(txid_current_snapshot()) "
    "ORDER BY xid DESC, id DESC LIMIT 1"
)

# Of each kind, up to a place in the stream. Only the index of kinds is in this order: for
# a kind that nobody ever told of, that of the stream would be walked to its end.
NEWEST_BY_KIND = """
SELECT newest.kind, newest.id FROM unnest(%s::text[]) AS asked(kind), LATERAL (
  SELECT kind, id FROM agents_event
  WHERE agents_event.kind <= asked.kind AND (xid, id) <= (%s, %s)
  ORDER BY agents_event.kind DESC, xid DESC, id DESC LIMIT 1
) AS newest WHERE newest.kind = asked.kind
"""

# By the primary key; where an event is gone, that of the one before it.
PLACE = "SELECT xid FROM agents_event WHERE id <= %s ORDER BY id DESC LIMIT 1"

# The transaction of the first event since a moment. Ids rise with time, so halving their
# range finds it by the primary key alone; nothing has to be kept in order by time.
XID_AT = """
WITH RECURSIVE halves(low, high) AS (
  SELECT min(id), max(id) + 1 FROM agents_event
  UNION ALL
  SELECT CASE WHEN probe.created_at < %(moment)s THEN probe.id + 1 ELSE low END,
    CASE WHEN probe.created_at < %(moment)s THEN high ELSE (low + high) / 2 END
  FROM halves CROSS JOIN LATERAL (SELECT id, created_at FROM agents_event
    WHERE id >= (low + high) / 2 ORDER BY id LIMIT 1) AS probe
  WHERE low < high
)
SELECT xid FROM agents_event
WHERE id >= (SELECT low FROM halves WHERE low >= high LIMIT 1) ORDER BY id LIMIT 1
"""

# A transaction id that this server has not given out yet came with the rows,
# by a restore from another server: they are old, and must not hold others up.
SETTLE_FOREIGN = """
UPDATE agents_event SET xid = 0
WHERE xid >= txid_snapshot_xmax(txid_current_snapshot()) RETURNING id
"""
# Who read on from there follows them.
SETTLE_CURSORS = """
UPDATE agents_alerttarget SET cursor_xid = 0
WHERE cursor_xid >= txid_snapshot_xmax(txid_current_snapshot())
"""


class Kind(StrEnum):
    """The closed set of event kinds (SURFACES section 3)."""

    MYSIS_STATE = "mysis.state"
    MYSIS_BRANCHED = "mysis.branched"
    TURN_STARTED = "turn.started"
    TURN_FINISHED = "turn.finished"
    MEMORY_ADDED = "memory.added"
    TOOL_CALLED = "tool.called"
    SNAPSHOT_UPDATED = "snapshot.updated"
    SNAPSHOT_STALE = "snapshot.stale"
    CONTEXT_COMPACTED = "context.compacted"
    BROADCAST_SENT = "broadcast.sent"
    ORDER_CHANGED = "order.changed"
    PROMPT_CHANGED = "prompt.changed"
    ERROR = "error"
    ALERT_RAISED = "alert.raised"
    ALERT_CLEARED = "alert.cleared"
    REPLAY_CHANGED = "replay.changed"


Line = tuple[Kind, int | None, dict[str, Any]]
"""An event to append: its kind, the number of its Mysis, and what happened."""


class Item(TypedDict):
    """One event as programs see it; ``mysis`` is the number, or null."""

    id: int
    kind: str
    at: str
    mysis: int | None
    data: dict[str, Any]


class Position(NamedTuple):
    """A place in the stream: all events up to and including (xid, id)."""

    xid: int
    id: int


START = Position(0, 0)
END = Position(2**63 - 1, 2**63 - 1)


def append(
    kind: Kind, *, mysis_id: int | None = None, data: dict[str, Any] | None = None
) -> None:
    """Append one event in the caller's transaction."""
    append_all([(kind, mysis_id, data or {})])


def append_error(mysis_id: int, detail: str, **more: str) -> None:
    """Append an error of a Mysis; ``detail`` is one sentence for an operator."""
    append_all([describe_error(mysis_id, detail, **more)])


def describe_error(mysis_id: int, detail: str, **more: str) -> Line:
    """The event of `append_error`, for who appends it with others."""
    return Kind.ERROR, mysis_id, {"detail": detail, **more}


def append_all(lines: Sequence[Line]) -> None:
    """Append several events in one statement; the hint goes after commit."""
    if not lines:
        return
    kinds, owners, bodies = zip(*lines, strict=True)
    texts = [json.dumps(make_storable(body)) for body in bodies]
    values = [[str(k) for k in kinds], list(owners), texts]
    fetch_row(APPEND, values, prepare=True)
    send_hint()


def send_hint() -> None:
    """Have readers look once the caller's transaction has appended its events."""
    transaction.on_commit(hinter.send)


def read_after(
    after: int,
    *,
    mysis_id: int | None = None,
    kinds: Iterable[str] = (),
    limit: int = 500,
) -> list[Item]:
    """Settled events after the event ``after`` (0: from the beginning)."""
    rows = read_from(find_position(after), mysis_id=mysis_id, kinds=kinds, limit=limit)
    return [item for _, item in rows]


def read_from(
    position: Position,
    *,
    mysis_id: int | None = None,
    kinds: Iterable[str] = (),
    limit: int = 500,
) -> list[tuple[Position, Item]]:
    """Settled events after a position, in stream order."""
    values = build_read_parameters(position, mysis_id, kinds, limit)
    return [make_item(row) for row in fetch_rows(READ, values)]


def find_position(after: int) -> Position:
    """The stream position of a cursor; an unknown id stands where it would."""
    if after <= 0:
        return START
    row = fetch_row(PLACE, [min(after, LARGEST_ID)])
    return Position(row[0] if row else 0, after)


def read_settled_end() -> Position:
    """Where the settled part of the log ends; who reads on from it misses none."""
    row = fetch_row(NEWEST, ())
    return Position(*row) if row else START


def find_xids(since: datetime, until: datetime) -> tuple[int, int]:
    """Transactions between which all events of a span of time lie, and few others.

    Ids are in the order of time but for moments: what is read still has to be compared.
    """
    first, last = (
        fetch_row(XID_AT, {"moment": moment})
        for moment in (since - OUT_OF_ORDER, until + OUT_OF_ORDER)
    )
    return first[0] if first else LARGEST_ID, last[0] if last else LARGEST_ID


def find_newest(
    kinds: Iterable[str], through: Position | None = None
) -> dict[str, int]:
    """The id of the newest event of each of these kinds that there is one of.

    Without ``through``, the last place that is looked at, also of those that are not
    settled yet: others may still come before them.
    """
    asked = [str(kind) for kind in kinds]
    return dict(fetch_rows(NEWEST_BY_KIND, [asked, *(through or END)]))


def find_mysis_number(reference: str) -> int | None:
    """The number of a Mysis that a reader names, of a deleted one too, else None."""
    owner = find_owner(reference)
    if owner is not None:
        return owner.pk
    number = parse_id(reference)
    if number is None or not Event.objects.filter(mysis_id=number).exists():
        return None
    return number


def settle_foreign() -> int:
    """Settle events restored from another server; returns how many."""
    fetch_rows(SETTLE_CURSORS)
    return len(fetch_rows(SETTLE_FOREIGN))


def build_read_parameters(
    position: Position, mysis_id: int | None, kinds: Iterable[str], limit: int
) -> dict[str, Any]:
    """The parameters of ``READ``."""
    return {
        "xid": position.xid,
        "id": position.id,
        "mysis": mysis_id,
        "kinds": list(kinds) or None,
        "limit": limit,
    }


def make_item(row: Sequence[Any]) -> tuple[Position, Item]:
    """A row of ``READ`` as its position and what programs see."""
    xid, number, kind, at, mysis_id, data = row
    item = Item(
        id=number,
        kind=kind,
        at=format_moment(at),
        mysis=mysis_id,
        data=hide_secrets_in_value(json.loads(data) if isinstance(data, str) else data),
    )
    return Position(xid, number), item


def format_moment(moment: datetime) -> str:
    """A moment in UTC to the millisecond, as all surfaces write it."""
    utc = moment.astimezone(UTC)
    return utc.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Hinter:
    """Sends few NOTIFYs for many calls, in a thread; close it before its database goes."""

    def __init__(self) -> None:
        self._wanted = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._database: psycopg.Connection[Any] | None = None
        self._closing = False

    def send(self) -> None:
        """Ask for a hint; returns at once."""
        self._wanted.set()
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._closing = False
                self._thread = threading.Thread(
                    target=self._run, name="event-hints", daemon=True
                )
                self._thread.start()

    def close(self) -> None:
        """End the thread and its connection; a later hint starts them again."""
        if self._thread is not None:
            self._closing = True
            self._wanted.set()
            self._thread.join()

    def _run(self) -> None:
        self._database = None
        while True:
            self._wanted.wait()
            if self._closing:
                break
            self._wanted.clear()
            self._notify()
            time.sleep(DEBOUNCE)
        if self._database is not None:
            self._database.close()

    def _notify(self) -> None:
        try:
            if self._database is None or self._database.closed:
                self._database = psycopg.connect(
                    **get_connection_parameters(), autocommit=True
                )
            self._database.execute(f"NOTIFY {CHANNEL}")
        except psycopg.Error as error:
            logger.warning("Event hint not sent, readers will poll: %s", error)
            self._database = None


hinter = Hinter()


def get_connection_parameters() -> dict[str, Any]:
    """Psycopg's parameters for a connection of its own."""
    params = connections["default"].get_connection_params()
    for key in ("pool", "cursor_factory", "context"):
        params.pop(key, None)
    return params
