"""When the next turn comes: at once, at a tick, after a pause, or not at all."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from agents.models import Turn

# A turn that ended by itself is followed by a nudge after this pause.
NUDGE_SECONDS = 1.0
FRUITLESS_LIMIT = 3
# A retry waits twice as long as the one before, up to the longest pause.
FIRST_PAUSE_SECONDS = 2.0
LONGEST_PAUSE_SECONDS = 300.0
LONGEST_WAIT_SECONDS = 600.0
# What a provider asks for is believed up to a day.
LONGEST_RETRY_SECONDS = 86_400.0


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


@dataclass(frozen=True, slots=True)
class Pace:
    """The clock, the game's tick, and how long failures are put up with, in seconds."""

    now: datetime
    seconds_per_tick: float
    patience: float


def plan(ending: Ending, pace: Pace, *, nudges: int, failures: int) -> Plan:
    """Decide from how the turn ended and what came before it."""
    if ending.outcome == Turn.Outcome.ERRORED:
        return _after_error(ending, pace, nudges, failures)
    if ending.outcome == Turn.Outcome.INTERRUPTED:
        # It was cut by our side: that says nothing about what it was at.
        return Plan("interrupted", nudges=nudges, failures=failures)
    nudges = 0 if ending.acted else nudges + 1
    if nudges >= FRUITLESS_LIMIT:
        return Plan(None)
    if ending.outcome == Turn.Outcome.ITERATION_LIMIT:
        # It had more to do: at once, but not before what it queued has happened.
        wait = _arrival(ending, pace)
        at = pace.now + timedelta(seconds=wait) if wait > 0 else None
        return Plan("continue", at=at, nudges=nudges)
    pause = max(_arrival(ending, pace), NUDGE_SECONDS)
    return Plan("nudge", at=pace.now + timedelta(seconds=pause), nudges=nudges)


def _arrival(ending: Ending, pace: Pace) -> float:
    """Seconds until what was queued takes effect; 0 where nothing is waited for."""
    if ending.resolve_tick is None or ending.tick is None:
        return 0.0
    wait = (ending.resolve_tick - ending.tick) * pace.seconds_per_tick
    return min(max(wait, 0.0), LONGEST_WAIT_SECONDS)


def _after_error(ending: Ending, pace: Pace, nudges: int, failures: int) -> Plan:
    if ending.fatal or waited(failures) >= pace.patience:
        return Plan(None, errored=True)
    asked = min(ending.retry_after or 0.0, LONGEST_RETRY_SECONDS)
    wait = max(_pause(failures), asked)
    at = pace.now + timedelta(seconds=wait)
    return Plan("retry", at=at, nudges=nudges, failures=failures + 1)


def waited(failures: int) -> float:
    """The pauses, in seconds, that so many failures in a row were given.

    Not the time on the clock: an hour without any worker is no hour of failures, and
    neither is one that the provider asked to wait.
    """
    return sum(_pause(number) for number in range(failures))


def _pause(failures: int) -> float:
    # The exponent is bounded: a float has no room for all powers of two.
    doubled = FIRST_PAUSE_SECONDS * 2.0 ** min(failures, 30)
    return min(doubled, LONGEST_PAUSE_SECONDS)
