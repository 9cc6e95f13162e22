"""What a write is refused with, and the check of every text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agents import events, scheduling
from agents.events import Kind
from agents.models import Mysis
from memory.gamestate.values import clean_text as without_odd_characters
from memory.models import Memory

MAX_TEXT = 100_000


class ActionError(Exception):
    """A write that cannot be done: one sentence that names the remedy."""

    def __init__(self, detail: str, *, code: str, status: int = 409) -> None:
        super().__init__(detail)
        self.detail = detail
        self.code = code
        self.status = status


def clean_text(text: str, field: str) -> str:
    """Text as it is stored: valid, not empty, of a bounded length."""
    kept = without_odd_characters(text).replace("\r\n", "\n").replace("\r", "\n")
    if not kept.strip():
        raise ActionError(
            f"{field} is empty: write something.", code="empty", status=422
        )
    if len(kept) > MAX_TEXT:
        raise ActionError(
            f"{field} has {len(kept):,} characters, at most {MAX_TEXT:,} are taken.",
            code="too_long",
            status=422,
        )
    return kept


# SECTION The row of a Mysis: locked, set running, woken, and told of.

ANEW = (
    "state",
    "epoch",
    "nudges",
    "failures",
    "lost_turns",
    "last_error",
    "last_error_code",
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
    mysis.last_error = mysis.last_error_code = ""
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


# SECTION Many Myses woken at once, by a few statements for all of them.


def wake_all(myses: Sequence[Mysis], *, trigger: str, by: str) -> None:
    """Let locked, open Myses look at what came, each as ``states.wake`` would."""
    idle = [mysis for mysis in myses if mysis.state == Mysis.State.IDLE]
    busy = [mysis for mysis in myses if mysis.state != Mysis.State.IDLE]
    for mysis in idle:
        set_running(mysis)
    Mysis.objects.bulk_update(idle, ANEW)
    Mysis.objects.filter(pk__in=[mysis.pk for mysis in busy]).update(nudges=0)
    # Without a job it is in a turn, at whose end what came meanwhile is seen.
    waiting = [mysis for mysis in busy if mysis.next_job is not None]
    scheduling.schedule_all([*idle, *waiting], trigger=trigger)
    events.append_all(
        [(Kind.MYSIS_STATE, mysis.pk, state_line(mysis, by)) for mysis in idle]
    )
