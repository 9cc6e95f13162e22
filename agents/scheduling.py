"""When the next turn of a Mysis is due: at most one waiting job.

``Mysis.next_job`` names it. Scheduling again deletes the job that waited, so a
message brings forward a turn that would have waited for a tick; a job that a
worker took in that very moment finds that it is no longer the one, and ends.
"""

from __future__ import annotations

from datetime import datetime

from django.conf import settings
from procrastinate.contrib.django import app

from .models import Mysis

TURN_TASK = "agents.tasks.take_turn"
TURN_QUEUE = "turns"


def schedule(mysis: Mysis, *, trigger: str, at: datetime | None = None) -> None:
    """Queue the next turn of a locked row, at once or at a moment."""
    _forget(mysis)
    mysis.next_job = app.configure_task(
        TURN_TASK, queue=queue_of(mysis.pk), lock=f"mysis-{mysis.pk}", schedule_at=at
    ).defer(mysis_id=mysis.pk, trigger=trigger)
    mysis.wake_at = at
    mysis.save(update_fields=["next_job", "wake_at"])


def queue_of(mysis_id: int) -> str:
    """The queue of a Mysis's turns: one for all, or that of its shard.

    A worker without ``--queues`` takes from all of them.
    """
    shards: int = settings.ZOEA_TURN_SHARDS
    return TURN_QUEUE if shards == 1 else f"{TURN_QUEUE}-{mysis_id % shards}"


def unschedule(mysis: Mysis) -> None:
    """No next turn, until somebody schedules one."""
    _forget(mysis)
    mysis.next_job = None
    mysis.wake_at = None
    mysis.save(update_fields=["next_job", "wake_at"])


def _forget(mysis: Mysis) -> None:
    if mysis.next_job is not None:
        app.job_manager.cancel_job_by_id(mysis.next_job, delete_job=True)
