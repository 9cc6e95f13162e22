"""How far a cached fact can be believed (GAME_STATE.md section 2).

In doubt, less: an unknown age counts as ageing, the mark of an action counts until a
newer snapshot takes it away, and a snapshot is as good as its worst field.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache

from memory.gamestate.clock import (
    STAMP_WITHIN_TICKS,
    count_passed_ticks,
    count_seconds,
    count_ticks,
)
from memory.gamestate.invalidation import SEVERAL
from memory.gamestate.types import ANY_TOOL, Moment, Snapshot, Stale, Thresholds
from memory.gamestate.values import (
    applies_to,
    find_value,
    paths_overlap,
    unwrap_content,
)

LOGGED_OUT = "captured before logout"

NORMAL = Thresholds(fresh=5, ageing=20)
_BY_TOOL: tuple[tuple[Thresholds, str], ...] = (
    # Others change these at any time.
    (Thresholds(fresh=1, ageing=5), "get_nearby view_market get_listings get_wrecks"),
    (Thresholds(fresh=1, ageing=5), "get_chat_history get_battle_status get_trades"),
    (Thresholds(fresh=1, ageing=5), "get_queue"),
    # Only a jump changes what is shown of this, and marks it.
    (Thresholds(fresh=300, ageing=900), "get_system"),
    # Only the account's own actions change these.
    (Thresholds(fresh=20, ageing=60), "get_skills get_active_missions"),
    (Thresholds(fresh=20, ageing=60), "get_base captains_log_list captains_log_get"),
    # Mostly fixed: who is online and what was visited moves.
    (Thresholds(fresh=24, ageing=49), "get_map"),
    # The rule book.
    (Thresholds(fresh=500, ageing=2000), "get_recipes catalog get_version"),
    (Thresholds(fresh=500, ageing=2000), "get_commands get_guide help"),
)
DEFAULT_THRESHOLDS: Mapping[str, Thresholds] = {
    tool: limits for limits, tools in _BY_TOOL for tool in tools.split()
}
# Only own actions, and events that the program asks for, change the account itself: both
# put a mark on what they touch. The numbers: docs/measured.md, "How old is still true".
OWN_THRESHOLDS: Mapping[str, Thresholds] = dict.fromkeys(
    ("get_status", "get_state", "get_ship", "get_cargo"), Thresholds(60, 180)
)
_SHIELDS = ("ship.shield", "shield")


class Confidence(StrEnum):
    """How far to believe a fact, best first."""

    FRESH = "fresh"
    MERGED = "merged"
    AGEING = "ageing"
    STALE = "stale"
    INVALIDATED = "invalidated"


_ORDER = tuple(Confidence)


@dataclass(frozen=True, slots=True)
class TouchedSnapshot:
    """A snapshot that is to be believed less, for the mark's reason."""

    tool: str
    args: Mapping[str, object]
    mark: Stale
    confidence: Confidence = Confidence.INVALIDATED


def choose_worst(values: Iterable[Confidence]) -> Confidence:
    """The least believable of several, fresh for none."""
    return max(values, key=_ORDER.index, default=Confidence.FRESH)


def count_age_in_ticks(snapshot: Snapshot, moment: Moment) -> int | None:
    """A snapshot's age by its tick, else by the clock; None where neither can tell."""
    ticks = count_passed_ticks(snapshot.tick, moment.current_tick)
    if ticks is not None and ticks >= 0:
        return ticks
    elapsed = count_seconds(snapshot.captured_at, moment.now)
    if elapsed < -STAMP_WITHIN_TICKS * moment.seconds_per_tick:
        return None
    return count_ticks(elapsed, moment.seconds_per_tick)


def judge_confidence(
    snapshot: Snapshot, moment: Moment, path: str | None = None
) -> Confidence:
    """How far to believe the value at a path; without one, the worst of all parts."""
    return Judge(snapshot, moment).judge(path)


class Judge:
    """Judges a snapshot at a moment; what all its paths share is worked out once.

    ``marked`` are the `find_stale_paths` of the snapshot.
    """

    def __init__(self, snapshot: Snapshot, moment: Moment) -> None:
        self.snapshot, self.moment = snapshot, moment
        self.marked = find_stale_paths(snapshot)
        self._age = judge_age(snapshot, moment)

    def judge(self, path: str | None = None) -> Confidence:
        """How far to believe the value at a path; without one, all of the parts."""
        return self._judge_whole() if path is None else self._judge_path(path)

    def _judge_whole(self) -> Confidence:
        snapshot, moment = self.snapshot, self.moment
        found = [self._age]
        if snapshot.field_ticks:
            found.append(Confidence.MERGED)
        if any(may_have_recharged(snapshot, moment, path) for path in _SHIELDS):
            found.append(Confidence.AGEING)
        if self.marked != ():
            found.append(Confidence.INVALIDATED)
        return choose_worst(found)

    def _judge_path(self, path: str) -> Confidence:
        snapshot, moment = self.snapshot, self.moment
        if find_causes(snapshot, path, self.marked):
            return Confidence.INVALIDATED
        if may_have_recharged(snapshot, moment, path):
            return choose_worst([self._age, Confidence.AGEING])
        merged_at = _merge_tick(snapshot, path)
        if merged_at is None:
            return self._age
        if snapshot.logged_out or moment.current_tick is None:
            return choose_worst([self._age, Confidence.MERGED])
        if merged_at > moment.current_tick + 1:
            # A tick that has not come yet says nothing: the clock does.
            by_clock = judge_age(replace(snapshot, tick=None), moment)
            return choose_worst([by_clock, Confidence.MERGED])
        age = max(0, moment.current_tick - merged_at)
        told = _grade_ticks(age, snapshot.tool, moment)
        # A count is no younger than what it began with.
        is_counted = any(
            path == p or path.startswith(f"{p}.") for p in snapshot.counted
        )
        base = [self._age] if is_counted else []
        return choose_worst([told, *base, Confidence.MERGED])


def may_have_recharged(snapshot: Snapshot, moment: Moment, path: str) -> bool:
    """Whether a path is a shield that was not full, so that it may have grown since."""
    parent, _, name = path.rpartition(".")
    if name != "shield":
        return False
    merged_at = _merge_tick(snapshot, path)
    content = unwrap_content(snapshot.current)
    limit = f"{parent}.max_shield" if parent else "max_shield"
    now, most = find_value(content, path), find_value(content, limit)
    if not isinstance(now, (int, float)) or not isinstance(most, (int, float)):
        return False
    if merged_at is not None and moment.current_tick is not None:
        return now < most and moment.current_tick > merged_at
    # Within the length of a tick, seconds do not tell whether one has begun.
    age = None if snapshot.tick is None else count_age_in_ticks(snapshot, moment)
    return now < most and (age is None or age > 0)


def judge_age(snapshot: Snapshot, moment: Moment) -> Confidence:
    """The confidence by age alone; what is from before a logout is stale."""
    if snapshot.logged_out:
        return Confidence.STALE
    age = count_age_in_ticks(snapshot, moment)
    if age is None:
        return Confidence.AGEING
    return _grade_ticks(age, snapshot.tool, moment)


def _grade_ticks(age: int, tool: str, moment: Moment) -> Confidence:
    limits = (
        moment.thresholds.get(tool)
        or DEFAULT_THRESHOLDS.get(tool)
        or moment.thresholds.get(ANY_TOOL)
        or OWN_THRESHOLDS.get(tool, NORMAL)
    )
    if age <= limits.fresh:
        return Confidence.FRESH
    return Confidence.AGEING if age <= limits.ageing else Confidence.STALE


def find_stale_paths(snapshot: Snapshot) -> tuple[str, ...] | None:
    """The marked paths that apply to the content; None stands for all of it.

    All of it is marked where the content has another shape than the paths were made
    for: a text, or the answer of another server version.
    """
    mark = snapshot.stale
    if mark is None:
        return ()
    content = unwrap_content(snapshot.content)
    if not mark.fields or not isinstance(content, Mapping):
        return None
    if not any(path.split(".")[0] in content for path in mark.fields):
        return None
    return tuple(p for p in mark.fields if applies_to(content, p))


def find_causes(
    snapshot: Snapshot, path: str, marked: tuple[str, ...] | None
) -> tuple[Stale, ...]:
    """The actions and events that made a path untrue, the newest last; none where it
    is not. ``marked`` are the snapshot's `find_stale_paths`."""
    mark = snapshot.stale
    if mark is None:
        return ()
    if marked is not None and not _overlaps_any(path, marked):
        return ()
    touching = [
        part
        for part in mark.parts
        if any(
            not field or paths_overlap(path, field)
            for field in _list_touched(snapshot, part, marked)
        )
    ]
    merged_at = _merge_tick(snapshot, path)
    # Rows of older versions kept no cause of what very many actions touched.
    return tuple(
        part
        for part in touching or [replace(mark, reason=SEVERAL, causes=())]
        if not _is_told_since(merged_at, part)
    )


def _list_touched(
    snapshot: Snapshot, part: Stale, marked: tuple[str, ...] | None
) -> tuple[str, ...]:
    """What of the content a cause touches, as paths; an empty one stands for all."""
    mark = snapshot.stale
    # Paths that do not fit the content say nothing of where in it they apply.
    misfits = marked is None and mark is not None and bool(mark.fields)
    if misfits or not part.fields:
        return ("",)
    if marked is not None:
        return _select_marked(part.fields, marked)
    content = unwrap_content(snapshot.content)
    return tuple(field for field in part.fields if applies_to(content, field))


@lru_cache(maxsize=4_096)
def _select_marked(fields: tuple[str, ...], marked: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(field for field in fields if field in marked)


def find_cause(
    snapshot: Snapshot, paths: Iterable[str], marked: tuple[str, ...] | None
) -> Stale | None:
    """The newest action or event that made one of the paths untrue; None for none.

    ``marked`` are the snapshot's `find_stale_paths`.
    """
    mark = snapshot.stale
    if mark is None or marked == ():
        return None
    found = [part for path in paths for part in find_causes(snapshot, path, marked)]
    known = next((part for part in reversed(mark.parts) if part in found), None)
    return known or next(iter(found), None)


def list_causes(
    snapshot: Snapshot, marked: tuple[str, ...] | None
) -> tuple[Stale, ...]:
    """All that put something of a snapshot in doubt, the newest first.

    What touches nothing of its content is left out, and what events have told of since.
    ``marked`` are the snapshot's `find_stale_paths`.
    """
    if snapshot.stale is None or marked == ():
        return ()
    return tuple(
        part
        for part in reversed(snapshot.stale.parts)
        if any(
            not _is_told_since(_merge_tick(snapshot, field), part)
            for field in _list_touched(snapshot, part, marked)
        )
    )


def _is_told_since(merged_at: int | None, mark: Stale) -> bool:
    """Whether an event told a value at or after a mark's tick."""
    return merged_at is not None and mark.tick is not None and merged_at >= mark.tick


@lru_cache(maxsize=4_096)
def _overlaps_any(path: str, others: tuple[str, ...]) -> bool:
    # The paths of facts and of effects are few, and compared for every snapshot.
    return any(paths_overlap(path, other) for other in others)


def _merge_tick(snapshot: Snapshot, path: str) -> int | None:
    """The tick of the merge that wrote the whole of a path, None where none did."""
    ticks = [
        tick
        for merged, tick in snapshot.field_ticks.items()
        if path == merged or path.startswith(f"{merged}.")
    ]
    return max(ticks, default=None)
