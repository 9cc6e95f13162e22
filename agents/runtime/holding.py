"""Myses that make no call because a budget has no room for one.

They run on: at 00:00 UTC, or when a budget is raised, their next turn comes by itself.
"""

from __future__ import annotations

from agents import budgets, events, scheduling
from agents.actions.states import state_event
from agents.events import Kind
from agents.models import Mysis

ACTIVITY = "held by a budget"


def hold(mysis: Mysis, reason: str) -> None:
    """Let a locked, running Mysis wait for its budget; the event comes once."""
    first = not mysis.hold
    mysis.hold = reason
    mysis.activity = ACTIVITY
    # What failed before was the provider or the game; it may be well again by then.
    mysis.failures = 0
    mysis.save(update_fields=["hold", "activity", "failures"])
    scheduling.schedule(mysis, trigger="budget", at=budgets.next_look(mysis.pk))
    if first:
        data = {"code": "budget", "detail": reason}
        events.append(Kind.ERROR, mysis_id=mysis.pk, data=data)
        state_event(mysis, "runtime")


def release(mysis: Mysis) -> None:
    """A call is let through again: say so, if there was a hold."""
    if mysis.hold:
        mysis.hold = ""
        mysis.save(update_fields=["hold"])
        state_event(mysis, "runtime")
