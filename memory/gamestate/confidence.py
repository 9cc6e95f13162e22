"""How far a cached fact can be believed (GAME_STATE.md section 2).

Never more than the truth allows: an unknown age counts as ageing, a mark of an
action counts until a newer snapshot takes it away, and a snapshot is as good as
its worst field.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum

from memory.gamestate import values as gamestate_values
from memory.gamestate.clock import (
    STAMP_WITHIN_TICKS,
    elapsed_seconds,
    recency,
    ticks_in,
)
from memory.gamestate.types import (
    ANY_TOOL,
    SECONDS_PER_TICK,
    AccountState,
    Snapshot,
    Thresholds,
)

LOGGED_OUT = "captured before logout"

SHORT_LIVED = Thresholds(fresh=1, ageing=5)
NORMAL = Thresholds(fresh=5, ageing=20)
SLOW = Thresholds(fresh=20, ageing=60)
LONG_LIVED = Thresholds(fresh=24, ageing=49)
REFERENCE = Thresholds(fresh=500, ageing=2000)

DEFAULT_THRESHOLDS: Mapping[str, Thresholds] = {
    # Others change these at any time.
    "get_nearby": SHORT_LIVED,
    "view_market": SHORT_LIVED,
    "get_listings": SHORT_LIVED,
    "get_wrecks": SHORT_LIVED,
    "get_chat_history": SHORT_LIVED,
    "get_battle_status": SHORT_LIVED,
    "get_trades": SHORT_LIVED,
    "get_queue": SHORT_LIVED,
    # Only the account's own actions change these.
    "get_skills": SLOW,
    "get_active_missions": SLOW,
    "captains_log_list": SLOW,
    "captains_log_get": SLOW,
    "get_system": SLOW,
    "get_base": SLOW,
    # Mostly fixed: who is online and what was visited moves.
    "get_map": LONG_LIVED,
    # The rule book.
    "get_recipes": REFERENCE,
    "catalog": REFERENCE,
    "get_version": REFERENCE,
    "get_commands": REFERENCE,
    "get_guide": REFERENCE,
    "help": REFERENCE,
}


SHIELDS = ("ship.shield", "shield")


class Confidence(StrEnum):
    """How far to believe a fact, best first."""

    FRESH = "fresh"
    MERGED = "merged"
    AGEING = "ageing"
    STALE = "stale"
    INVALIDATED = "invalidated"


_ORDER = tuple(Confidence)


def worst(values: Iterable[Confidence]) -> Confidence:
    """The least believable of several, fresh for none."""
    return max(values, key=_ORDER.index, default=Confidence.FRESH)


@dataclass(frozen=True, slots=True)
class Moment:
    """The present, as an account sees it, and the thresholds to judge by."""

    current_tick: int | None
    now: datetime
    seconds_per_tick: float = SECONDS_PER_TICK
    thresholds: Mapping[str, Thresholds] = field(
        default_factory=lambda: DEFAULT_THRESHOLDS
    )

    @classmethod
    def of(cls, state: AccountState) -> Moment:
        """The moment of a state, its own thresholds over the defaults."""
        return cls.at(
            state.current_tick, state.now, state.seconds_per_tick, state.thresholds
        )

    @classmethod
    def at(
        cls,
        tick: int | None,
        now: datetime,
        seconds_per_tick: float,
        thresholds: Mapping[str, Thresholds],
    ) -> Moment:
        """A moment; ``thresholds`` go before the defaults."""
        limits = {**DEFAULT_THRESHOLDS, **thresholds}
        return cls(tick, now, seconds_per_tick, limits)


def thresholds_for(tool: str, moment: Moment) -> Thresholds:
    """The age limits of a tool's snapshots: its own, else those of any tool."""
    found = moment.thresholds.get(tool)
    return found or moment.thresholds.get(ANY_TOOL, NORMAL)


def age_in_ticks(snapshot: Snapshot, moment: Moment) -> int | None:
    """A snapshot's age in ticks, None where neither ticks nor the clock can tell.

    A snapshot from a tick that has not come yet is as old as the clock says.
    """
    age = recency(
        snapshot.tick,
        snapshot.captured_at,
        moment.current_tick,
        moment.now,
        moment.seconds_per_tick,
    )
    if age.ticks is not None and not age.skew:
        return age.ticks
    elapsed = elapsed_seconds(snapshot.captured_at, moment.now)
    if elapsed < -STAMP_WITHIN_TICKS * moment.seconds_per_tick:
        return None
    return ticks_in(elapsed, moment.seconds_per_tick)


def confidence(
    snapshot: Snapshot, moment: Moment, path: str | None = None
) -> Confidence:
    """How far to believe a snapshot, or the value at one path of it.

    Without a path it is the worst of its parts: one field that an action made
    untrue makes the snapshot invalidated.
    """
    if path is not None:
        return _of_path(snapshot, moment, path)
    marked = [Confidence.INVALIDATED] if stale_paths(snapshot) != () else []
    merged = [Confidence.MERGED] if snapshot.field_ticks else []
    grown = (
        [Confidence.AGEING]
        if any(recharges(snapshot, moment, path) for path in SHIELDS)
        else []
    )
    return worst([grade(snapshot, moment), *merged, *grown, *marked])


def _of_path(snapshot: Snapshot, moment: Moment, path: str) -> Confidence:
    merged_at = _merge_tick(snapshot, path)
    if _is_marked(snapshot, path, merged_at):
        return Confidence.INVALIDATED
    if recharges(snapshot, moment, path):
        return worst([grade(snapshot, moment), Confidence.AGEING])
    if merged_at is None:
        return grade(snapshot, moment)
    if snapshot.logged_out or moment.current_tick is None:
        return worst([grade(snapshot, moment), Confidence.MERGED])
    if merged_at > moment.current_tick + 1:
        # A tick that has not come yet says nothing: the clock does.
        return worst([grade(replace(snapshot, tick=None), moment), Confidence.MERGED])
    age = max(0, moment.current_tick - merged_at)
    told = _graded(age, snapshot.tool, moment)
    # A count is no younger than what it began with.
    base = [grade(snapshot, moment)] if _is_counted(snapshot, path) else []
    return worst([told, *base, Confidence.MERGED])


def _is_counted(snapshot: Snapshot, path: str) -> bool:
    return any(path == p or path.startswith(f"{p}.") for p in snapshot.counted)


def recharges(snapshot: Snapshot, moment: Moment, path: str) -> bool:
    """Whether a value may have grown by itself since: a shield that was not full."""
    head, _, name = path.rpartition(".")
    if name != "shield":
        return False
    merged_at = _merge_tick(snapshot, path)
    content = gamestate_values.primary(snapshot.current)
    limit = f"{head}.max_shield" if head else "max_shield"
    now, most = (
        gamestate_values.lookup(content, path),
        gamestate_values.lookup(content, limit),
    )
    if not isinstance(now, (int, float)) or not isinstance(most, (int, float)):
        return False
    if merged_at is not None and moment.current_tick is not None:
        return now < most and moment.current_tick > merged_at
    # Within the length of a tick, seconds do not tell whether one has begun.
    age = None if snapshot.tick is None else age_in_ticks(snapshot, moment)
    return now < most and (age is None or age > 0)


def grade(snapshot: Snapshot, moment: Moment) -> Confidence:
    """What a snapshot's age alone makes of it; before a logout it is stale."""
    if snapshot.logged_out:
        return Confidence.STALE
    age = age_in_ticks(snapshot, moment)
    if age is None:
        return Confidence.AGEING
    return _graded(age, snapshot.tool, moment)


def _graded(age: int, tool: str, moment: Moment) -> Confidence:
    limits = thresholds_for(tool, moment)
    if age <= limits.fresh:
        return Confidence.FRESH
    return Confidence.AGEING if age <= limits.ageing else Confidence.STALE


def stale_paths(snapshot: Snapshot) -> tuple[str, ...] | None:
    """The marked paths that apply to the content; None stands for all of it.

    Where the content has another shape than the paths were made for (a text, an
    older or newer server), nothing can be exempted: the whole snapshot is marked.
    """
    mark = snapshot.stale
    if mark is None:
        return ()
    content = gamestate_values.primary(snapshot.content)
    if not mark.fields or not isinstance(content, Mapping):
        return None
    if not any(gamestate_values.head(path) in content for path in mark.fields):
        return None
    return tuple(p for p in mark.fields if gamestate_values.names_something(content, p))


def _is_marked(snapshot: Snapshot, path: str, merged_at: int | None) -> bool:
    mark = snapshot.stale
    if mark is None:
        return False
    if merged_at is not None and mark.tick is not None and merged_at >= mark.tick:
        return False
    marked = stale_paths(snapshot)
    return marked is None or any(
        gamestate_values.overlap(path, other) for other in marked
    )


def _merge_tick(snapshot: Snapshot, path: str) -> int | None:
    """The tick of the merge that wrote the whole of a path, None where none did."""
    ticks = [
        tick
        for merged, tick in snapshot.field_ticks.items()
        if path == merged or path.startswith(f"{merged}.")
    ]
    return max(ticks, default=None)
