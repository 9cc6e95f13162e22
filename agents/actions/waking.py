"""Many Myses woken at once, by a few statements for all of them."""

from __future__ import annotations

from collections.abc import Sequence

from agents import events, scheduling
from agents.events import Kind
from agents.models import Mysis

from .states import ANEW, set_running, state_line


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
