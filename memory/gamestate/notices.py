"""The answer of get_notifications as notices, the game's events (API.md section 5).

Its tick is the one that it names, else that of its moment by the answer's own clock.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import islice

from memory.gamestate.clock import (
    FARTHEST,
    RESET_AFTER_TICKS,
    Offset,
    check_stamp,
    count_seconds,
    count_ticks,
    read_offset_bound,
)
from memory.gamestate.extract import ENVELOPES, find_tick, parse_tick
from memory.gamestate.types import SECONDS_PER_TICK
from memory.gamestate.values import (
    is_number,
    make_storable,
    repair_text,
    unwrap_content,
)

# More notices than the game ever keeps for one session.
MOST = 1000
# So many notices the game keeps for one session; then the oldest are dropped.
QUEUE_LENGTH = 100
_NO_EVENTS = "no notifications"
_LONGEST_ID = 100
_LONGEST_KIND = 100
# How the id of an event begins that has none of its own.
_MADE_UP = "sha:"
# Seconds that the game's clock may differ from ours where nothing tells.
_SAME_CLOCK = 2.5
# Ticks that an event may be ahead of a tick that was only estimated.
_MOST_BEYOND = RESET_AFTER_TICKS


@dataclass(frozen=True, slots=True)
class Notice:
    """One event of the game.

    ``tick`` is None where unknown; ``exact`` says that the event named it. ``at`` is
    when it happened by our own clock, give or take ``slack`` seconds, and ``sent_at``
    by the game's clock, which alone orders events that are close.
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
    """The game's clock at an answer, and our own; no event is later than ``newest``."""

    tick: int | None
    server: datetime | None
    ours: datetime
    pace: float
    newest: int | None = None
    offset: Offset | None = None

    def local(self, moment: datetime) -> tuple[datetime | None, float]:
        """A moment of the game's clock by ours, and how far that may be off."""
        if self.offset is None:
            age = count_seconds(moment, self.ours)
            return (moment, _SAME_CLOCK) if -1.0 <= age <= FARTHEST else (None, 0.0)
        known = self.offset.narrow_by_event(moment, self.ours)
        at = known.convert(moment)
        if not -FARTHEST <= count_seconds(at, self.ours) <= FARTHEST:
            return None, 0.0
        return at, known.slack

    def tick_at(self, moment: datetime | None) -> int | None:
        """The tick of a moment of the game's clock."""
        if self.tick is None or moment is None:
            return None
        passed = count_seconds(moment, self.server or self.ours)
        return max(0, self.tick - count_ticks(passed, self.pace))


def read_notices(
    content: object,
    received_at: datetime,
    seconds_per_tick: float = SECONDS_PER_TICK,
    tick: int | None = None,
    offset: Offset | None = None,
) -> tuple[Notice, ...]:
    """The notices of an answer, in its order.

    ``tick`` is the account's, for an answer that names none; an event from a tick that
    has not come yet counts as one that names none. ``offset`` is what is known of the
    game's clock.
    """
    named_tick = find_tick(content)
    own = named_tick[0] if named_tick and named_tick[1] else None
    now = tick if own is None else own
    beyond = _MOST_BEYOND if own is None else 1
    clock = _Clock(
        tick=now,
        server=_server_time(content, received_at),
        ours=received_at,
        pace=seconds_per_tick,
        newest=None if now is None else now + beyond,
        offset=offset,
    )
    found: dict[str, Notice] = {}
    named: dict[str, int] = {}
    for item in islice(_items(content), MOST):
        notice = _notice(item, clock)
        if notice is None:
            continue
        if notice.id.startswith(_MADE_UP):
            notice = replace(notice, id=_numbered(notice.id, named))
        found.setdefault(notice.id, notice)
    return tuple(found.values())


def read_offset(
    content: object, asked_at: datetime | None, received_at: datetime
) -> Offset | None:
    """The offset of the game's clock by an answer's stamp; None where it has none."""
    stamp = _server_time(content, received_at)
    return read_offset_bound(stamp, asked_at or received_at, received_at)


def _numbered(identity: str, named: dict[str, int]) -> str:
    """Tell equal events of one answer apart, by the same numbers each time."""
    count = named[identity] = named.get(identity, 0) + 1
    return identity if count == 1 else f"{identity}#{count}"


def may_lack_events(content: object) -> bool:
    """Whether events may be lost: the answer is a text, or the game's queue was full."""
    if isinstance(content, str):
        said = content.strip().lower()
        if not said or said.startswith(_NO_EVENTS):
            return False
        content = unwrap_content(content)
        if isinstance(content, str):
            return True
    for part in _parts(content):
        listed = _listed(part)
        left = parse_tick(part.get("remaining")) or 0
        if listed is not None and len(listed) + left >= QUEUE_LENGTH:
            return True
    return False


def _items(content: object) -> Iterator[Mapping[str, object]]:
    """The items of an answer, of several content blocks, or of a bare list."""
    for part in _parts(content):
        listed = _listed(part)
        for item in [part] if listed is None else listed:
            if isinstance(item, Mapping):
                yield item


def _parts(content: object) -> Iterator[Mapping[str, object]]:
    parts = content if isinstance(content, list) else [_unwrap_text(content)]
    return (part for part in parts if isinstance(part, Mapping))


def _unwrap_text(content: object) -> object:
    """A text of API v2 as what it says; other values as they are."""
    return unwrap_content(content) if isinstance(content, str) else content


def _listed(part: Mapping[str, object]) -> list[object] | None:
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
    moment = check_stamp(_moment(item.get("timestamp")), clock.server or clock.ours)
    local, slack = (None, 0.0) if moment is None else clock.local(moment)
    named = parse_tick(data.get("tick"))
    own = named if clock.newest is None or (named or 0) <= clock.newest else None
    category = item.get("type")
    category = repair_text(category) if isinstance(category, str) else ""
    return Notice(
        id=_identity(item),
        kind=repair_text(kind)[:_LONGEST_KIND],
        data={
            repair_text(str(key)): make_storable(value) for key, value in data.items()
        },
        category=category[:_LONGEST_KIND],
        tick=clock.tick_at(moment) if own is None else own,
        exact=own is not None,
        at=local,
        slack=slack,
        sent_at=moment,
    )


def _identity(item: Mapping[str, object]) -> str:
    """The event's own id, else a hash of all it says."""
    own = item.get("id")
    if isinstance(own, (str, int)) and not isinstance(own, bool) and str(own):
        name = repair_text(str(own))
        if len(name) <= _LONGEST_ID and not name.startswith(_MADE_UP):
            return name
    text = json.dumps(make_storable(item), sort_keys=True, ensure_ascii=False)
    return _MADE_UP + hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def _server_time(content: object, now: datetime) -> datetime | None:
    for part in _parts(content):
        if "notifications" in part:
            return check_stamp(_moment(part.get("timestamp")), now)
    return None


def _moment(value: object) -> datetime | None:
    """RFC 3339 or seconds since 1970; None for anything else."""
    try:
        if isinstance(value, str):
            moment = datetime.fromisoformat(value)
            return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        if is_number(value):
            return datetime.fromtimestamp(value, UTC)
    except (ValueError, OverflowError, OSError):
        pass
    return None
