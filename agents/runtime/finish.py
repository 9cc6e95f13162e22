"""The end of a turn: its outcome, when the next one comes, and whether the Mysis is stuck.

Stuck means: the same call with the same result again and again, or turns in a row that
brought nothing. An action that the game carried out is progress, and so is a new
answer; an error is not. It is shown as a badge, never a reason to end anything.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from hashlib import blake2b

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from agents import db, events, scheduling, statements
from agents.actions import messages
from agents.actions.base import describe_state
from agents.events import Kind
from agents.models import Mysis, Turn
from agents.runtime.turn_rows import (
    TurnHandle,
    answer_open_calls,
    count_actions,
    describe_end,
    lock_mysis,
    pause_for_budget,
)
from agents.tools.request import Outcome
from memory.gamestate.values import make_storable, repair_text
from memory.snapshots.reads import compute_present_tick

# A turn that ended by itself is followed by a nudge after this pause.
NUDGE_SECONDS = 1.0

FRUITLESS_LIMIT = 3
FRUITLESS = f"{FRUITLESS_LIMIT} turns in a row did nothing"

# A retry waits twice as long as the one before, up to the longest pause.
FIRST_PAUSE_SECONDS = 2.0

LONGEST_PAUSE_SECONDS = 300.0
LONGEST_WAIT_SECONDS = 600.0

# What a provider asks for is believed up to a day.
LONGEST_RETRY_SECONDS = 86_400.0

# How many times as many results are looked back over as make a loop.
TRAIL_FACTOR = 4

# How a turn ends that did not come to its own end.
CUT_SHORT = (Turn.Outcome.STOPPED, Turn.Outcome.INTERRUPTED)

REMEDY = "Send it a message, or look at its prompt and at its context."


@dataclass(frozen=True, slots=True)
class Ending:
    """How a turn ended, as far as the next one depends on it.

    ``acted`` tells whether any tool call succeeded. ``resolve_tick`` is the latest
    tick at which something queued takes effect; ``tick`` the tick now. ``code`` is the
    ErrorCode of ``error``; ``fatal`` means that trying again cannot help.
    ``retry_after`` is in seconds. ``held`` means that a budget has no room for the
    next call.
    """

    outcome: Turn.Outcome
    acted: bool = False
    tick: int | None = None
    resolve_tick: int | None = None
    error: str = ""
    code: str = ""
    fatal: bool = False
    retry_after: float | None = None
    held: bool = False


@transaction.atomic
def finish_turn(
    handle: TurnHandle, ending: Ending, seen: int, calls: Sequence[CallRecord] = ()
) -> None:
    """Record the outcome and schedule what follows, in one transaction.

    A message that came while the turn ran, and that none of its calls showed, is
    answered at once. After a stop only the outcome is written.
    """
    mysis = lock_mysis(handle.mysis_id)
    ids = {"mysis": handle.mysis_id, "turn": handle.turn_id, "seen": seen}
    found = db.fetch_row(statements.FIND_AT_END, ids, prepare=True)
    if mysis is None or found is None:
        return
    number, iterations, now, left_open, shown, unheard = found
    current = mysis.epoch == handle.epoch and mysis.state == Mysis.State.RUNNING
    outcome = ending.outcome if current else Turn.Outcome.STOPPED
    turn = Turn(pk=handle.turn_id, mysis=mysis, number=number, iterations=iterations)
    if outcome in CUT_SHORT:
        # Of a call that was given up while its answer was stored, only the log knows.
        count_actions(turn)
    else:
        turn.actions = sum(call.is_action for call in calls)
        turn.failed_actions = sum(call.is_action and call.is_error for call in calls)
    if left_open:
        answer_open_calls(mysis)
    by_itself = outcome in (Turn.Outcome.DONE, Turn.Outcome.ITERATION_LIMIT)
    # An answer that says nothing answers no message: the next one may.
    answered = shown if by_itself and not ending.error else []
    messages.finish_shown(answered)
    stuck = _check_stuck(mysis, calls, whole=by_itself) if current else []
    chosen = _plan_next(mysis, ending, now, unheard=unheard) if current else None
    _end_turn(turn, outcome, ending.error, answered)
    events.append_all(stuck)
    if chosen is not None:
        _begin_rest(mysis, ending, chosen)
    elif current:
        pause_for_budget(mysis, ending.error)


def _end_turn(
    turn: Turn, outcome: Turn.Outcome, error: str, answered: Sequence[int]
) -> None:
    kind, _, data = describe_end(turn, outcome, error, answered)
    own = {name: getattr(turn.mysis, name) for name in statements.END_COLUMNS}
    values = {
        "mysis": turn.mysis_id,
        "turn": turn.pk,
        "outcome": str(outcome),
        "error": repair_text(error),
        "actions": turn.actions,
        "failed_actions": turn.failed_actions,
        "now": timezone.now(),
        "kind": str(kind),
        "data": json.dumps(make_storable(data)),
    }
    db.fetch_row(statements.END_TURN, own | values, prepare=True)
    events.send_hint()


def _plan_next(
    mysis: Mysis, ending: Ending, now: datetime, *, unheard: bool
) -> NextTurn | None:
    """Queue what is to follow, None where a budget holds it; the caller stores the row."""
    if ending.held:
        return None
    joined = vars(mysis)
    tick = compute_present_tick(joined["clock_tick"], joined["clock_seen_at"])
    if tick is not None:
        ending = replace(ending, tick=tick)
    pace = read_pace(now)
    chosen = plan_next_turn(ending, pace, nudges=mysis.nudges, failures=mysis.failures)
    mysis.failures = chosen.failures
    mysis.lost_turns = 0
    mysis.nudges = chosen.nudges
    mysis.last_error = repair_text(ending.error)
    mysis.last_error_code = ending.code
    mysis.activity = _activity(ending, chosen)[:200]
    # A turn that a message queued meanwhile is needed only if no call showed it.
    if unheard and not chosen.errored and chosen.trigger != "retry":
        chosen = replace(chosen, trigger="message", at=None)
    if chosen.trigger is not None:
        scheduling.defer_turn(mysis, trigger=chosen.trigger, at=chosen.at)
    return chosen


def _begin_rest(mysis: Mysis, ending: Ending, chosen: NextTurn) -> None:
    """Put to rest a Mysis that no turn follows for; report an empty answer."""
    if chosen.errored:
        put_to_rest(mysis, Mysis.State.ERRORED, ending.error, ending.code)
    elif chosen.trigger is None:
        put_to_rest(
            mysis,
            Mysis.State.IDLE,
            mysis.last_error,
            mysis.last_error_code,
            reason=FRUITLESS,
        )
    if ending.outcome == Turn.Outcome.DONE and ending.error:
        events.append_error(mysis.pk, mysis.last_error, code="empty_answer")


def _activity(ending: Ending, chosen: NextTurn) -> str:
    if chosen.errored or chosen.trigger is None:
        return ""
    if chosen.trigger == "retry":
        times = f"{chosen.failures} times in a row" if chosen.failures > 1 else "once"
        return f"waiting to try again, failed {times}: {repair_text(ending.error)}"
    if ending.resolve_tick is not None and chosen.at is not None:
        return f"waiting for tick {ending.resolve_tick}"
    return "between turns"


def put_to_rest(
    mysis: Mysis,
    state: Mysis.State,
    error: str = "",
    code: str = "",
    reason: str = "",
) -> None:
    """Put a locked Mysis to rest, idle or errored, with its events; ``reason`` is why."""
    before, mysis.state = str(mysis.state), state
    mysis.activity = ""
    mysis.nudges = 0
    mysis.last_error, mysis.last_error_code = error, code
    fields = ["state", "activity", "nudges", "last_error", "last_error_code"]
    mysis.save(update_fields=fields)
    scheduling.unschedule(mysis)
    data = {"name": mysis.name, "state": str(state), "by": "runtime", "before": before}
    if reason:
        data["reason"] = reason
    if error:
        data["error"] = error
    if state == Mysis.State.ERRORED:
        events.append_error(mysis.pk, error, **({"code": code} if code else {}))
    events.append(Kind.MYSIS_STATE, mysis_id=mysis.pk, data=data)


# --- When the next turn comes


@dataclass(frozen=True, slots=True)
class NextTurn:
    """The next turn: ``at`` None is at once; no trigger, no turn."""

    trigger: str | None
    at: datetime | None = None
    nudges: int = 0
    failures: int = 0
    errored: bool = False


@dataclass(frozen=True, slots=True)
class Pace:
    """The database's clock, and the seconds of a tick and of pauses before a Mysis is errored."""

    now: datetime
    seconds_per_tick: float
    patience: float


def read_pace(now: datetime) -> Pace:
    """The pace by the settings; a simulation puts one by its own clock here."""
    return Pace(now, settings.ZOEA_SECONDS_PER_TICK, settings.ZOEA_ERRORED_AFTER)


def plan_next_turn(
    ending: Ending, pace: Pace, *, nudges: int, failures: int
) -> NextTurn:
    """Decide when the next turn comes."""
    if ending.outcome == Turn.Outcome.ERRORED:
        return _after_error(ending, pace, nudges, failures)
    if ending.outcome == Turn.Outcome.INTERRUPTED:
        # It was cut by our side: that says nothing about what it was at.
        return NextTurn("interrupted", nudges=nudges, failures=failures)
    nudges = 0 if ending.acted else nudges + 1
    if nudges >= FRUITLESS_LIMIT:
        return NextTurn(None)
    if ending.outcome == Turn.Outcome.ITERATION_LIMIT:
        # It had more to do: at once, but not before what it queued has happened.
        wait = _seconds_to_effect(ending, pace)
        at = pace.now + timedelta(seconds=wait) if wait > 0 else None
        return NextTurn("continue", at=at, nudges=nudges)
    pause = max(_seconds_to_effect(ending, pace), NUDGE_SECONDS)
    return NextTurn("nudge", at=pace.now + timedelta(seconds=pause), nudges=nudges)


def _after_error(ending: Ending, pace: Pace, nudges: int, failures: int) -> NextTurn:
    if ending.fatal or sum_back_off(failures) >= pace.patience:
        return NextTurn(None, errored=True)
    asked = min(ending.retry_after or 0.0, LONGEST_RETRY_SECONDS)
    wait = max(_pause(failures), asked)
    at = pace.now + timedelta(seconds=wait)
    return NextTurn("retry", at=at, nudges=nudges, failures=failures + 1)


def _seconds_to_effect(ending: Ending, pace: Pace) -> float:
    if ending.resolve_tick is None or ending.tick is None:
        return 0.0
    wait = (ending.resolve_tick - ending.tick) * pace.seconds_per_tick
    return min(max(wait, 0.0), LONGEST_WAIT_SECONDS)


def sum_back_off(failures: int) -> float:
    """Total back-off in seconds after so many consecutive failures.

    Not the time on the clock: an hour without any worker is no hour of failures, and
    neither is one that the provider asked to wait.
    """
    return sum(_pause(number) for number in range(failures))


def _pause(failures: int) -> float:
    # The exponent is bounded: a float has no room for all powers of two.
    doubled = FIRST_PAUSE_SECONDS * 2.0 ** min(failures, 30)
    return min(doubled, LONGEST_PAUSE_SECONDS)


# --- Loops and standstill


@dataclass(frozen=True, slots=True)
class CallRecord:
    """A tool call and its result as digests; ``is_action``: it would change something."""

    name: str
    call: str
    result: str
    is_error: bool
    is_action: bool

    @property
    def acted(self) -> bool:
        """Whether it was an action, and worked."""
        return self.is_action and not self.is_error


@dataclass(frozen=True, slots=True)
class Limits:
    """After how many equal results, and how many empty turns, a Mysis is stuck."""

    repeats: int
    turns: int


@dataclass(frozen=True, slots=True)
class Trail:
    """What is kept of former turns: results as "call:result", and empty turns in a row."""

    results: tuple[str, ...] = ()
    empty_turns: int = 0


def digest_call(
    name: str, arguments: str, result: Outcome, *, read_only: bool
) -> CallRecord:
    """Digest a call and its result for the search for loops."""
    return CallRecord(
        name,
        call=_digest(f"{name} {arguments}"),
        result=_digest(result.text),
        is_error=result.is_error,
        is_action=not read_only,
    )


def _check_stuck(
    mysis: Mysis, calls: Sequence[CallRecord], *, whole: bool
) -> list[events.Line]:
    """Whether a Mysis is stuck after a turn, and the events where that is another than
    before; the caller stores the row."""
    before = Trail(tuple(mysis.trail.split()), mysis.empty_turns)
    limits = Limits(settings.ZOEA_STUCK_RESULTS, settings.ZOEA_STUCK_TURNS)
    trail, reason = update_trail(before, calls, limits, whole=whole)
    was = mysis.stuck
    mysis.trail, mysis.empty_turns = " ".join(trail.results), trail.empty_turns
    # A turn that was cut short without a call says nothing either way.
    mysis.stuck = reason if calls or whole else was
    if bool(mysis.stuck) == bool(was):
        return []
    state = describe_state(mysis, "runtime", before=mysis.state)
    if not mysis.stuck:
        return [state]
    return [events.describe_error(mysis.pk, mysis.stuck, code="stuck"), state]


def update_trail(
    trail: Trail, calls: Sequence[CallRecord], limits: Limits, *, whole: bool
) -> tuple[Trail, str]:
    """The trail after one more turn, and why the Mysis is stuck, or "".

    ``whole`` is a turn that ended by itself: others say nothing about progress.
    """
    results = list(trail.results)
    progress = False
    for one in calls:
        key = f"{one.call}:{one.result}"
        progress |= one.acted or (not one.is_error and key not in results)
        results = [] if one.acted else [*results, key]
    kept = tuple(results[-limits.repeats * TRAIL_FACTOR :])
    empty = 0 if progress else trail.empty_turns + whole
    return Trail(kept, empty), _stuck_reason(kept, calls, empty, limits)


def _stuck_reason(
    kept: Sequence[str], calls: Sequence[CallRecord], empty: int, limits: Limits
) -> str:
    times = kept.count(kept[-1]) if kept and calls else 0
    if times and times >= limits.repeats:
        return f"{calls[-1].name} brought the same result {times} times. {REMEDY}"
    if empty >= limits.turns:
        return f"{empty} turns in a row brought nothing new. {REMEDY}"
    return ""


def _digest(text: str) -> str:
    return blake2b(text.encode(errors="replace"), digest_size=5).hexdigest()
