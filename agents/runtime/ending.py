"""The end of a turn: its outcome, and the decision about the next one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from agents import deliveries, events, scheduling
from agents.actions.states import state_event
from agents.events import Kind
from agents.models import Mysis, Turn
from memory import entries
from memory.gamestate.parse import clean_text
from memory.state import tick_of

from .holding import hold
from .pacing import Ending, Pace, Plan, plan
from .records import Begun, answer_open_calls, finish_turn, locked
from .stuck import Limits, Trail, Tried, follow

BY_ITSELF = (Turn.Outcome.DONE, Turn.Outcome.ITERATION_LIMIT)


@transaction.atomic
def finish(
    begun: Begun, ending: Ending, seen: int, calls: Sequence[Tried] = ()
) -> None:
    """Record the outcome and schedule what follows, in one transaction.

    A message that came while the turn ran, and that none of its calls showed,
    is answered at once. After a stop only the outcome is written.
    """
    mysis = locked(begun.mysis_id)
    turn = Turn.objects.filter(pk=begun.turn_id, outcome__isnull=True).first()
    if mysis is None or turn is None:
        return
    current = mysis.epoch == begun.epoch and mysis.state == Mysis.State.RUNNING
    outcome = ending.outcome if current else Turn.Outcome.STOPPED
    answer_open_calls(mysis)
    by_itself = outcome in BY_ITSELF
    # An answer that says nothing answers no message: the next one may.
    answered = deliveries.finish(mysis) if by_itself and not ending.error else []
    finish_turn(turn, outcome=outcome, error=ending.error, answered=answered)
    if current:
        _watch(mysis, calls, whole=by_itself)
    if current and ending.held:
        hold(mysis, ending.error)
    elif current:
        _go_on(mysis, ending, seen)


def _watch(mysis: Mysis, calls: Sequence[Tried], *, whole: bool) -> None:
    """Tell when it gets stuck, and when it does no longer."""
    before = Trail(tuple(mysis.trail.split()), mysis.empty_turns)
    limits = Limits(settings.ZOEA_STUCK_RESULTS, settings.ZOEA_STUCK_TURNS)
    trail, reason = follow(before, calls, limits, whole=whole)
    was = mysis.stuck
    mysis.trail, mysis.empty_turns = " ".join(trail.results), trail.empty_turns
    # A turn that was cut short without a call says nothing either way.
    mysis.stuck = reason if calls or whole else was
    mysis.save(update_fields=["trail", "empty_turns", "stuck"])
    if bool(mysis.stuck) == bool(was):
        return
    if mysis.stuck:
        data = {"code": "stuck", "detail": mysis.stuck}
        events.append(Kind.ERROR, mysis_id=mysis.pk, data=data)
    state_event(mysis, "runtime")


def _go_on(mysis: Mysis, ending: Ending, seen: int) -> None:
    username = mysis.account.username if mysis.account else None
    ending = _at_tick(ending, tick_of(username))
    pace = Pace(
        timezone.now(),
        settings.ZOEA_SECONDS_PER_TICK,
        settings.ZOEA_ERRORED_AFTER,
    )
    chosen = plan(ending, pace, nudges=mysis.nudges, failures=mysis.failures)
    mysis.failures = chosen.failures
    mysis.lost_turns = 0
    mysis.nudges = chosen.nudges
    mysis.last_error = clean_text(ending.error)
    mysis.activity = _activity(ending, chosen)[:200]
    fields = ["failures", "lost_turns", "nudges", "last_error", "activity"]
    mysis.save(update_fields=fields)
    if chosen.errored:
        rest(mysis, Mysis.State.ERRORED, ending.error)
    else:
        _schedule(mysis, chosen, seen)
    if ending.outcome == Turn.Outcome.DONE and ending.error:
        data = {"code": "empty_answer", "detail": mysis.last_error}
        events.append(Kind.ERROR, mysis_id=mysis.pk, data=data)


def _schedule(mysis: Mysis, chosen: Plan, seen: int) -> None:
    # A turn that a message queued meanwhile is needed only if no call showed it.
    if chosen.trigger != "retry" and _unseen(mysis, seen):
        scheduling.schedule(mysis, trigger="message")
    elif chosen.trigger is None:
        rest(mysis, Mysis.State.IDLE, mysis.last_error)
    else:
        scheduling.schedule(mysis, trigger=chosen.trigger, at=chosen.at)


def _at_tick(ending: Ending, tick: int | None) -> Ending:
    return ending if tick is None else replace(ending, tick=tick)


def _unseen(mysis: Mysis, seen: int) -> bool:
    newest = entries.newest_intent(mysis.pk)
    return newest is not None and newest.pk > seen


def rest(mysis: Mysis, state: Mysis.State, error: str = "") -> None:
    """Let a locked Mysis rest, idle or errored, and say so."""
    mysis.state = state
    mysis.activity = ""
    mysis.nudges = 0
    mysis.last_error = error
    mysis.save(update_fields=["state", "activity", "nudges", "last_error"])
    scheduling.unschedule(mysis)
    data = {"name": mysis.name, "state": str(state), "by": "runtime"}
    if error:
        data["error"] = error
    if state == Mysis.State.ERRORED:
        events.append(Kind.ERROR, mysis_id=mysis.pk, data={"detail": error})
    events.append(Kind.MYSIS_STATE, mysis_id=mysis.pk, data=data)


def _activity(ending: Ending, chosen: Plan) -> str:
    if chosen.errored or chosen.trigger is None:
        return ""
    if chosen.trigger == "retry":
        times = f"{chosen.failures} times in a row" if chosen.failures > 1 else "once"
        return f"waiting to try again, failed {times}: {clean_text(ending.error)}"
    if ending.resolve_tick is not None and chosen.at is not None:
        return f"waiting for tick {ending.resolve_tick}"
    return "between turns"
