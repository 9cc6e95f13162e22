"""Whether an event happened before a snapshot was taken, or after, or nobody knows."""

from __future__ import annotations

from enum import Enum

from memory.gamestate.clock import elapsed_seconds
from memory.gamestate.notices import Notice
from memory.gamestate.types import Snapshot


class When(Enum):
    """When an event happened, seen from a snapshot."""

    BEFORE = "before"
    AFTER = "after"
    UNSURE = "unsure"


def relation(snapshot: Snapshot, notice: Notice, *, own_tick: bool = False) -> When:
    """Whether an event happened before or after a snapshot was taken.

    A tick that the snapshot was given by the clock (not ``own_tick``) may be wrong, by
    one behind as a rule: where the moments say otherwise nobody knows.
    """
    by_clock = _by_clock(snapshot, notice)
    if not notice.exact or snapshot.tick is None or notice.tick is None:
        return by_clock or _by_tick(snapshot, notice)
    by_tick = _by_tick(snapshot, notice)
    if own_tick or by_clock in (None, by_tick):
        return by_tick
    near = notice.tick - snapshot.tick in (0, 1)
    return When.UNSURE if near or by_clock is not When.UNSURE else by_tick


def _by_clock(snapshot: Snapshot, notice: Notice) -> When | None:
    if notice.at is None:
        return None
    if elapsed_seconds(snapshot.captured_at, notice.at) > notice.slack:
        return When.AFTER
    asked = snapshot.asked_at or snapshot.captured_at
    if elapsed_seconds(notice.at, asked) > notice.slack:
        return When.BEFORE
    return When.UNSURE


def _by_tick(snapshot: Snapshot, notice: Notice) -> When:
    if snapshot.tick is None or notice.tick is None:
        return When.UNSURE
    return When.AFTER if notice.tick > snapshot.tick else When.BEFORE
