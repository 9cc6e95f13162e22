"""The row of a Mysis: locked, set running, woken, and told of."""

from __future__ import annotations

from typing import Any

from agents import events, scheduling
from agents.events import Kind
from agents.models import Mysis
from memory.models import Memory

from .errors import ActionError

ANEW = (
    "state",
    "epoch",
    "nudges",
    "failures",
    "lost_turns",
    "last_error",
    "hold",
    "stuck",
    "trail",
    "empty_turns",
)
OPEN_STATES = (Mysis.State.IDLE, Mysis.State.RUNNING)


def lock(mysis: Mysis) -> Mysis:
    """The row as it is now, locked until the transaction ends."""
    try:
        return Mysis.objects.select_for_update(of=("self",)).get(pk=mysis.pk)
    except Mysis.DoesNotExist:
        raise ActionError(
            f"{mysis.name} was deleted.", code="not_found", status=404
        ) from None


def run(mysis: Mysis, *, trigger: str) -> None:
    """Set a locked Mysis running, and its first turn due."""
    set_running(mysis)
    mysis.save(update_fields=ANEW)
    scheduling.schedule(mysis, trigger=trigger)


def set_running(mysis: Mysis) -> None:
    """Change the columns ``ANEW`` of a row; the caller stores them."""
    mysis.state = Mysis.State.RUNNING
    mysis.epoch += 1
    mysis.nudges = 0
    mysis.failures = mysis.lost_turns = 0
    mysis.last_error = ""
    mysis.hold = mysis.stuck = mysis.trail = ""
    mysis.empty_turns = 0


def wake(mysis: Mysis, *, trigger: str, by: str) -> None:
    """Let a locked Mysis look at what came: at once, or after its call.

    A retry is never brought forward: whatever comes, the provider or the game is to
    be left alone for as long. A start by a person begins anew, as another model does.
    """
    if mysis.state == Mysis.State.IDLE:
        run(mysis, trigger=trigger)
        state_event(mysis, by)
    else:
        mysis.nudges = 0
        mysis.save(update_fields=["nudges"])
        # Without a job it is in a turn, at whose end what came meanwhile is seen.
        if mysis.next_job is not None and not _backs_off(mysis):
            scheduling.schedule(mysis, trigger=trigger)


def retry_anew(mysis: Mysis) -> None:
    """Try a locked Mysis's other model at once: the failures were the former one's."""
    backs_off = _backs_off(mysis)
    # Also while a retry is under way, whose failure would count on from there.
    mysis.failures = 0
    mysis.save(update_fields=["failures"])
    if backs_off:
        scheduling.schedule(mysis, trigger="retry")


def _backs_off(mysis: Mysis) -> bool:
    """Whether its next turn is a retry that waits."""
    return mysis.failures > 0 and mysis.wake_at is not None


def state_event(mysis: Mysis, by: str, **more: Any) -> None:
    """Say how a Mysis stands now, and who made it so."""
    data = state_line(mysis, by, **more)
    events.append(Kind.MYSIS_STATE, mysis_id=mysis.pk, data=data)


def state_line(mysis: Mysis, by: str, **more: Any) -> dict[str, Any]:
    """What the mysis.state event says of a Mysis."""
    data = {"name": mysis.name, "state": mysis.state, "by": by, **more}
    if mysis.last_error:
        data["error"] = mysis.last_error
    if mysis.hold:
        data["hold"] = mysis.hold
    if mysis.stuck:
        data["stuck"] = mysis.stuck
    return data


def memory_line(row: Memory) -> dict[str, Any]:
    """What the memory.added event says of a row; the text stays in the log."""
    return {"memory_id": row.pk, "role": row.role, "origin": row.origin}
