"""Write events into snapshots (GAME_STATE.md section 4).

A snapshot is always made anew from what was recorded and all events since, in the
order in which they happened: so they may arrive in any order, and again, with the
same result. Values given as they are overwrite; counts apply only to what is older
than they are; what cannot be told is in doubt.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from enum import Enum

from memory.gamestate import invalidation
from memory.gamestate.clock import count_seconds
from memory.gamestate.draft import Draft
from memory.gamestate.extract import find_tick
from memory.gamestate.facts import learn_sizes
from memory.gamestate.notices import Notice
from memory.gamestate.outcomes import Doubt, unwrap_result
from memory.gamestate.reactions import (
    RESULT_TYPE,
    STATUS_TOOLS,
    YIELD_TYPE,
    Owner,
    apply_event,
    build_yield_key,
    can_change,
    find_outcome,
)
from memory.gamestate.types import Snapshot, Stale
from memory.gamestate.values import find_first, is_deep, paths_overlap, unwrap_content

_NEVER = datetime.min.replace(tzinfo=UTC)
# Snapshots that events write into; others they can only make doubtful.
MERGEABLE = frozenset(
    {"get_status", "get_state", "get_ship", "get_cargo", "get_poi", "get_nearby"}
    | {"get_skills"}
)
# The newest events that are written; older ones only put in doubt what they touch.
MOST_WRITTEN = 1000
_SHIP = {"hull": 1, "shield": 1, "fuel": 1, "cargo_used": 0, "cargo": []}
# The JSON form of snapshots that came as a text, to find what events change in them.
_TEXT_FORMS: Mapping[str, object] = {
    "get_status": {
        "player": {"credits": 1, "current_poi": "", "current_system": "", "skills": {}},
        "ship": _SHIP,
    },
    "get_ship": {"ship": _SHIP},
    "get_cargo": {"cargo": [], "used": 0, "available": 0},
    "get_nearby": {"nearby": [], "count": 1, "pirates": [], "pirate_count": 1},
}


class EventOrder(Enum):
    """When an event happened, seen from a snapshot."""

    BEFORE = "before"
    AFTER = "after"
    UNSURE = "unsure"


def learn_account(
    username: str,
    snapshots: Iterable[Snapshot],
    sizes: Mapping[str, float] | None = None,
) -> Owner:
    """What all snapshots of an account tell of it; ``sizes`` are those known before."""
    ids: set[str] = set()
    found = dict(sizes or {})
    for snapshot in snapshots:
        content = unwrap_content(snapshot.content)
        if snapshot.tool in MERGEABLE:
            found |= learn_sizes(content)
        own = find_first(content, "player.id", "player_id")
        if snapshot.tool in STATUS_TOOLS and isinstance(own, str) and own:
            ids.add(own)
    return Owner(username, frozenset(ids), found)


def write_events(
    snapshot: Snapshot,
    ordered: Sequence[Notice],
    me: Owner,
    current_tick: int | None = None,
) -> Snapshot:
    """The snapshot after all events since; `arrange_events` puts them in order."""
    draft = _make_draft(snapshot, me)
    draft.tick = snapshot.tick or 0
    marks = _marks(snapshot)
    doubts: list[tuple[Stale, int | None]] = []
    named = find_tick(snapshot.content)
    # Any other tick in an answer may be of something else in it.
    own_tick = named is not None and named[1]
    concerned = [n for n in ordered if can_change(n, snapshot.tool)]
    only_doubted = len(concerned) - MOST_WRITTEN
    # Asked with arguments it may be of another ship, or another place.
    only_doubts = only_doubted > 0 or bool(snapshot.args)
    scratch = _make_draft(snapshot, me) if only_doubts else draft
    for place, notice in enumerate(concerned):
        command = find_outcome(notice)
        own = _find_answered_mark(marks, command, notice) if command else None
        if own is not None:
            marks.remove(own)
        when = compare_event(snapshot, notice, own_tick=own_tick)
        asked = own.at if own is not None else None
        if asked is not None and count_seconds(snapshot.captured_at, asked) > 0:
            when = EventOrder.AFTER
        if when is EventOrder.BEFORE:
            continue
        if place < only_doubted or snapshot.args:
            doubt = _find_changes(scratch, notice, me)
        else:
            doubt = _apply(draft, notice, me, sure=when is EventOrder.AFTER)
        if doubt is not None:
            reason = command or notice.kind
            stale = Stale(reason, _earlier_tick(notice.tick, current_tick), doubt)
            doubts.append((stale, _lifted_after(notice, stale)))
    all_marks = [*((mark, mark.tick) for mark in marks), *doubts]
    return _finish(snapshot, draft, all_marks, current_tick)


def _lifted_after(notice: Notice, doubt: Stale) -> int | None:
    """The tick after which a value given as it is lifts a doubt.

    An event with a moment but no tick is older than all that have one: no tick was
    known yet, or the server has begun to count anew.
    """
    return -1 if notice.tick is None and notice.at is not None else doubt.tick


def arrange_events(notices: Iterable[Notice]) -> list[Notice]:
    """Events in the order in which they happened, each once."""
    return _drop_doubled_yields(
        sorted({n.id: n for n in notices}.values(), key=_moment_of)
    )


def may_change(notice: Notice, tool: str, marks: Iterable[Stale], me: Owner) -> bool:
    """Whether an event may change a snapshot of a tool with these marks, whatever it
    holds; of a tool that events only make doubtful this is exact."""
    command = find_outcome(notice)
    if command and any(mark.reason == command for mark in marks):
        return True
    if tool in MERGEABLE:
        return can_change(notice, tool)
    draft = Draft(tool, {})
    return apply_event(draft, notice, me) is not None or bool(draft.written)


def doubt_all(snapshot: Snapshot, current_tick: int | None) -> Snapshot:
    """The snapshot when some of its events are not kept any more: all is in doubt."""
    if snapshot.stale and not snapshot.stale.fields and not snapshot.field_ticks:
        return snapshot
    doubt = Stale(invalidation.SEVERAL, current_tick)
    left = [*sorted(_marks(snapshot), key=_age_of), doubt]
    return replace(
        snapshot,
        shown=None,
        field_ticks={},
        counted=(),
        stale=invalidation.join_marks(left, current_tick),
    )


def compare_event(
    snapshot: Snapshot, notice: Notice, *, own_tick: bool = False
) -> EventOrder:
    """Whether an event happened before or after a snapshot was taken.

    A tick that was estimated (not ``own_tick``) is often one behind: where the moments
    say otherwise, it is unsure.
    """
    by_clock = _by_clock(snapshot, notice)
    if not notice.exact or snapshot.tick is None or notice.tick is None:
        return by_clock or _by_tick(snapshot, notice)
    by_tick = _by_tick(snapshot, notice)
    if own_tick or by_clock in (None, by_tick):
        return by_tick
    near = notice.tick - snapshot.tick in (0, 1)
    return EventOrder.UNSURE if near or by_clock is not EventOrder.UNSURE else by_tick


def _by_clock(snapshot: Snapshot, notice: Notice) -> EventOrder | None:
    if notice.at is None:
        return None
    if count_seconds(snapshot.captured_at, notice.at) > notice.slack:
        return EventOrder.AFTER
    asked = snapshot.asked_at or snapshot.captured_at
    if count_seconds(notice.at, asked) > notice.slack:
        return EventOrder.BEFORE
    return EventOrder.UNSURE


def _by_tick(snapshot: Snapshot, notice: Notice) -> EventOrder:
    if snapshot.tick is None or notice.tick is None:
        return EventOrder.UNSURE
    return EventOrder.AFTER if notice.tick > snapshot.tick else EventOrder.BEFORE


def _marks(snapshot: Snapshot) -> list[Stale]:
    return list(snapshot.marks) or ([snapshot.stale] if snapshot.stale else [])


def _make_draft(snapshot: Snapshot, me: Owner) -> Draft:
    content = snapshot.content
    if snapshot.tool not in MERGEABLE or is_deep(content):
        return Draft(snapshot.tool, {})
    if isinstance(content, str):
        # Written into what is read in it; the text stays as it was recorded.
        content = unwrap_content(content)
    return Draft(snapshot.tool, content, me.sizes)


def _drop_doubled_yields(ordered: Sequence[Notice]) -> list[Notice]:
    """The events without the yields that an ``action_result`` tells too (era C)."""
    results = [
        e for e in ordered if e.kind == RESULT_TYPE and find_outcome(e) == "mine"
    ]
    yields: dict[tuple[object, ...], dict[int | None, list[Notice]]] = {}
    for each in ordered if results else ():
        if each.kind == YIELD_TYPE:
            at_tick = yields.setdefault(build_yield_key(each.data), {})
            at_tick.setdefault(each.tick, []).append(each)
    told: set[str] = set()
    for each in results:
        at_tick = yields.get(build_yield_key(unwrap_result(each.data)), {})
        near = _ticks_near(each.tick, at_tick)
        same = [n for tick in near for n in at_tick.get(tick, ())]
        if same:
            nearest = min(same, key=lambda n: (_distance(n, each), n.id))
            at_tick[nearest.tick].remove(nearest)
            told.add(nearest.id)
    return [each for each in ordered if each.id not in told]


def _ticks_near(tick: int | None, known: Iterable[int | None]) -> list[int | None]:
    """The ticks of what may be the same event: at most one apart, or none."""
    return list(known) if tick is None else [tick - 1, tick, tick + 1, None]


def _distance(one: Notice, other: Notice) -> float:
    first, second = one.sent_at or one.at, other.sent_at or other.at
    if first is not None and second is not None:
        return abs(count_seconds(first, second))
    return float(abs((one.tick or 0) - (other.tick or 0)))


def _earlier_tick(tick: int | None, current: int | None) -> int | None:
    return min((t for t in (tick, current) if t is not None), default=None)


def _moment_of(notice: Notice) -> tuple[int, datetime, str]:
    tick = -1 if notice.tick is None else notice.tick
    return tick, notice.sent_at or notice.at or _NEVER, notice.id


def _find_answered_mark(
    marks: Sequence[Stale], command: str, notice: Notice
) -> Stale | None:
    if notice.at is None:
        return None
    for each in marks:
        if each.reason != command or each.at is None:
            continue
        if count_seconds(each.at, notice.at) > notice.slack:
            return each
    return None


# --- One event


def _apply(draft: Draft, notice: Notice, me: Owner, *, sure: bool) -> Doubt:
    if not isinstance(draft.root, dict):
        return _doubt_text(draft.tool, notice, me)
    if sure and notice.tick is not None:
        draft.tick, draft.failed = max(draft.tick, notice.tick), []
        return _add_paths(apply_event(draft, notice, me), draft.failed)
    return _find_changes(Draft(draft.tool, draft.content, draft.sizes), notice, me)


def _find_changes(scratch: Draft, notice: Notice, me: Owner) -> Doubt:
    """What an event would change, tried on a draft that is thrown away."""
    if not isinstance(scratch.root, dict):
        return _doubt_text(scratch.tool, notice, me)
    scratch.written, scratch.failed = {}, []
    doubt = apply_event(scratch, notice, me)
    return _add_paths(doubt, [*scratch.written, *scratch.failed])


def _add_paths(doubt: Doubt, more: Sequence[str]) -> Doubt:
    """A doubt with more paths; one of everything stays as it is."""
    if doubt == () or not more:
        return doubt
    return tuple(dict.fromkeys((*(doubt or ()), *more)))


def _doubt_text(tool: str, notice: Notice, me: Owner) -> Doubt:
    """Nothing can be written into a text: an event puts all of it in doubt."""
    attempt = Draft(tool, _TEXT_FORMS.get(tool, {}), me.sizes)
    doubt = apply_event(attempt, notice, me)
    return None if doubt is None and not attempt.written else ()


def _finish(
    snapshot: Snapshot,
    draft: Draft,
    marks: Sequence[tuple[Stale, int | None]],
    current_tick: int | None,
) -> Snapshot:
    kept = (_lift_doubt(mark, since, draft) for mark, since in marks)
    left = [each for each in kept if each is not None]
    whole = any(not each.fields for each in left)
    doubted = [path for each in left for path in each.fields]
    ticks = {
        path: tick
        for path, tick in draft.written.items()
        if not whole and not any(paths_overlap(path, other) for other in doubted)
    }
    return replace(
        snapshot,
        shown=draft.content if draft.written else None,
        field_ticks=ticks,
        counted=tuple(path for path in ticks if path not in draft.fixed),
        stale=invalidation.join_marks(sorted(left, key=_age_of), current_tick),
    )


def _age_of(mark: Stale) -> tuple[int, datetime, str]:
    tick = -1 if mark.tick is None else mark.tick
    return tick, mark.at or _NEVER, mark.reason


def _lift_doubt(mark: Stale, since: int | None, draft: Draft) -> Stale | None:
    """A mark without the fields that were set since; None where none is left."""
    if not mark.fields:
        return mark
    left = tuple(
        path
        for path in mark.fields
        if since is None or draft.fixed.get(path, since) <= since
    )
    if not left:
        return None
    return mark if len(left) == len(mark.fields) else replace(mark, fields=left)
