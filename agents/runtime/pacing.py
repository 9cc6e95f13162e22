"""When the next turn comes: at once, at a tick, after a pause, or not at all."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from agents.models import Turn

# A turn that ended by itself is followed by a nudge after this pause.
NUDGE_SECONDS = 1.0
FRUITLESS_LIMIT = 3
BACK_OFF_SECONDS = (2.0, 4.0, 8.0, 16.0, 30.0)
FAILURE_LIMIT = 5
LONGEST_WAIT_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Ending:
    """How a turn ended, as far as the next one depends on it.

    ``acted`` tells whether any tool call succeeded. ``resolve_tick`` is the latest
    tick at which something queued takes effect; ``tick`` the tick now.
    ``fatal`` means that trying again cannot help. ``retry_after`` is in seconds.
    ``held`` means that a budget has no room for the next call.
    """

    outcome: Turn.Outcome
    acted: bool = False
    tick: int | None = None
    resolve_tick: int | None = None
    error: str = ""
    fatal: bool = False
    retry_after: float | None = None
    held: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do next. ``at`` None means at once; no trigger means no turn."""

    trigger: str | None
    at: datetime | None = None
    nudges: int = 0
    failures: int = 0
    errored: bool = False


def plan(
    ending: Ending,
    *,
    now: datetime,
    seconds_per_tick: float,
    nudges: int,
    failures: int,
) -> Plan:
    """Decide from how the turn ended and what came before it."""
    if ending.outcome == Turn.Outcome.ERRORED:
        return _after_error(ending, now, failures)
    if ending.outcome == Turn.Outcome.INTERRUPTED:
        return Plan("interrupted", nudges=nudges)
    if ending.outcome == Turn.Outcome.ITERATION_LIMIT:
        return Plan("continue")
    if not ending.acted and nudges + 1 >= FRUITLESS_LIMIT:
        return Plan(None)
    pause = _pause(ending, seconds_per_tick)
    return Plan(
        "nudge",
        at=now + timedelta(seconds=pause),
        nudges=0 if ending.acted else nudges + 1,
    )


def _pause(ending: Ending, seconds_per_tick: float) -> float:
    if ending.resolve_tick is None or ending.tick is None:
        return NUDGE_SECONDS
    wait = (ending.resolve_tick - ending.tick) * seconds_per_tick
    return min(max(wait, NUDGE_SECONDS), LONGEST_WAIT_SECONDS)


def _after_error(ending: Ending, now: datetime, failures: int) -> Plan:
    if ending.fatal or failures + 1 >= FAILURE_LIMIT:
        return Plan(None, errored=True)
    wait = BACK_OFF_SECONDS[min(failures, len(BACK_OFF_SECONDS) - 1)]
    if ending.retry_after is not None:
        wait = min(max(wait, ending.retry_after), LONGEST_WAIT_SECONDS)
    return Plan("retry", at=now + timedelta(seconds=wait), failures=failures + 1)
