"""The answer of get_notifications as a list of notices (API.md section 5).

A notice is one event of the game. Its tick is the one it names, else the one at
which it happened by the answer's own clock.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from memory.gamestate.clock import (
    FARTHEST,
    RESET_AFTER_TICKS,
    SAME,
    Offset,
    elapsed_seconds,
    near,
    seen_in,
    ticks_in,
)
from memory.gamestate.extract import ENVELOPES, as_tick, find_tick
from memory.gamestate.types import SECONDS_PER_TICK
from memory.gamestate.values import clean_text, storable

LONGEST_ID = 100
MADE_UP = "sha:"
"""How the id of an event begins that has none of its own."""

LONGEST_KIND = 100
MOST = 1000
"""More notices than the game ever keeps for one session."""

QUEUE_LENGTH = 100
"""So many notices the game keeps for one session; then the oldest give way."""

NO_EVENTS = "no notifications"

SAME_CLOCK = 2.5
"""Seconds that the game's clock may differ from ours where nothing tells it."""

MOST_BEYOND = RESET_AFTER_TICKS
"""Ticks that an event may be ahead of a tick that was only estimated."""


@dataclass(frozen=True, slots=True)
class Notice:
    """One event of the game.

    ``tick`` is null where nothing tells it; ``exact`` says that the event named it.
    ``at`` is when it happened by our own clock, give or take ``slack`` seconds, and
    ``sent_at`` by the game's, which alone tells events apart that are close.
    """

    id: str
    kind: str
    data: Mapping[str, object] = field(default_factory=dict)
    category: str = ""
    tick: int | None = None
    exact: bool = False
    at: datetime | None = None
    slack: float = 0.0
    sent_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class _Clock:
    """The game's clock at the moment of an answer, and our own."""

    tick: int | None
    server: datetime | None
    ours: datetime
    pace: float
    newest: int | None = None
    offset: Offset | None = None

    def is_possible(self, tick: int) -> bool:
        """Whether an event can be from that tick; a later one has not come yet."""
        return self.newest is None or tick <= self.newest

    def local(self, moment: datetime) -> tuple[datetime | None, float]:
        """A moment of the game's clock by ours, and how far that may be off."""
        if self.offset is None:
            age = elapsed_seconds(moment, self.ours)
            return (moment, SAME_CLOCK) if -1.0 <= age <= FARTHEST else (None, 0.0)
        known = self.offset.not_after(moment, self.ours)
        at = known.ours(moment)
        if not -FARTHEST <= elapsed_seconds(at, self.ours) <= FARTHEST:
            return None, 0.0
        return at, known.slack

    def tick_at(self, moment: datetime | None) -> int | None:
        """The tick of a moment of the game's clock."""
        if self.tick is None or moment is None:
            return None
        passed = elapsed_seconds(moment, self.server or self.ours)
        return max(0, self.tick - ticks_in(passed, self.pace))


def read_notices(
    content: object,
    received_at: datetime,
    seconds_per_tick: float = SECONDS_PER_TICK,
    tick: int | None = None,
    asked_at: datetime | None = None,
    offset: Offset | None = None,
) -> tuple[Notice, ...]:
    """The notices of an answer, in its order; none where it holds none.

    ``tick`` is the account's at that moment, for an answer that names none. An event
    from a tick that has not come yet counts as one that names none. ``asked_at`` is when
    the call was sent: the answer's own clock was read between then and its arrival.
    ``offset`` is what is known of that clock with this answer; else its own stamp tells,
    and where that allows one clock for both, it is taken for one.
    """
    own = _current_tick(content)
    now = tick if own is None else own
    beyond = MOST_BEYOND if own is None else 1
    clock = _Clock(
        tick=now,
        server=_server_time(content, received_at),
        ours=received_at,
        pace=seconds_per_tick,
        newest=None if now is None else now + beyond,
        offset=offset or _own_offset(content, asked_at, received_at),
    )
    found: dict[str, Notice] = {}
    named: dict[str, int] = {}
    for item in _items(content):
        notice = _notice(item, clock)
        if notice is None:
            continue
        if notice.id.startswith(MADE_UP):
            notice = replace(notice, id=_numbered(notice.id, named))
        found.setdefault(notice.id, notice)
    return tuple(found.values())


def offset_seen(
    content: object, asked_at: datetime | None, received_at: datetime
) -> Offset | None:
    """What an answer tells of the game's clock; None where it has no stamp."""
    stamp = _server_time(content, received_at)
    return seen_in(stamp, asked_at or received_at, received_at)


def _own_offset(
    content: object, asked_at: datetime | None, received_at: datetime
) -> Offset | None:
    seen = offset_seen(content, asked_at, received_at)
    return None if seen is None else SAME.and_seen(seen)


def _numbered(identity: str, named: dict[str, int]) -> str:
    """Tell equal events of one answer apart: they are as many as they are told.

    The same answer gives the same numbers again, in whatever order it tells them.
    """
    count = named[identity] = named.get(identity, 0) + 1
    return identity if count == 1 else f"{identity}#{count}"


def is_incomplete(content: object) -> bool:
    """Whether events are gone that an answer does not tell.

    It is a text, which nobody can merge, or the game's queue was full, so that older
    events may have given way.
    """
    if isinstance(content, str):
        said = content.strip().lower()
        return bool(said) and not said.startswith(NO_EVENTS)
    parts = content if isinstance(content, list) else [content]
    for part in parts:
        listed = _listed(part) if isinstance(part, Mapping) else None
        left = as_tick(part.get("remaining")) if isinstance(part, Mapping) else None
        if listed is not None and len(listed) + (left or 0) >= QUEUE_LENGTH:
            return True
    return False


def _items(content: object) -> Iterator[Mapping[str, object]]:
    """The items of an answer, of several content blocks, or of a bare list."""
    parts = content if isinstance(content, list) else [content]
    count = 0
    for part in parts:
        if not isinstance(part, Mapping):
            continue
        listed = _listed(part)
        for item in [part] if listed is None else listed:
            if isinstance(item, Mapping) and count < MOST:
                count += 1
                yield item


def _listed(part: Mapping[str, object]) -> list[object] | None:
    """The list of an answer; None for a single item."""
    for place in (part, *(part.get(name) for name in ENVELOPES)):
        if isinstance(place, Mapping) and "notifications" in place:
            listed = place["notifications"]
            return listed if isinstance(listed, list) else []
    return None


def _notice(item: Mapping[str, object], clock: _Clock) -> Notice | None:
    kind = item.get("msg_type") or item.get("type")
    if not isinstance(kind, str) or not kind:
        return None
    data = item.get("data")
    data = data if isinstance(data, Mapping) else item.get("payload")
    data = data if isinstance(data, Mapping) else {}
    moment = near(_moment(item.get("timestamp")), clock.server or clock.ours)
    local, slack = (None, 0.0) if moment is None else clock.local(moment)
    named = as_tick(data.get("tick"))
    own = named if named is not None and clock.is_possible(named) else None
    category = item.get("type")
    return Notice(
        id=_identity(item),
        kind=clean_text(kind)[:LONGEST_KIND],
        data={clean_text(str(key)): storable(value) for key, value in data.items()},
        category=clean_text(category)[:LONGEST_KIND]
        if isinstance(category, str)
        else "",
        tick=clock.tick_at(moment) if own is None else own,
        exact=own is not None,
        at=local,
        slack=slack,
        sent_at=moment,
    )


def _identity(item: Mapping[str, object]) -> str:
    """The event's own id, else one made of all it says."""
    own = item.get("id")
    if isinstance(own, (str, int)) and not isinstance(own, bool) and str(own):
        name = clean_text(str(own))
        if len(name) <= LONGEST_ID and not name.startswith(MADE_UP):
            return name
    text = json.dumps(storable(item), sort_keys=True, ensure_ascii=False)
    return MADE_UP + hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def _current_tick(content: object) -> int | None:
    found = find_tick(content)
    return found[0] if found and found[1] else None


def _server_time(content: object, now: datetime) -> datetime | None:
    parts = content if isinstance(content, list) else [content]
    for part in parts:
        if isinstance(part, Mapping) and "notifications" in part:
            return near(_moment(part.get("timestamp")), now)
    return None


def _moment(value: object) -> datetime | None:
    """RFC 3339 or seconds since 1970; None for anything else."""
    try:
        if isinstance(value, str):
            moment = datetime.fromisoformat(value)
            return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return datetime.fromtimestamp(value, UTC)
    except (ValueError, OverflowError, OSError):
        pass
    return None
