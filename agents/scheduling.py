"""When the next turn of a Mysis is due: at most one waiting job.

``Mysis.next_job`` names it. Scheduling again deletes the job that waited, so a
message brings forward a turn that would have waited for a tick; a job that a
worker took in that very moment finds that it is no longer the one, and ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from django.conf import settings
from procrastinate.contrib.django.django_connector import DjangoConnector
from procrastinate.jobs import JobDeferrer
from procrastinate.manager import JobManager
from procrastinate.tasks import configure_task

from agents.db import fetch_row
from agents.models import Mysis

# In the caller's transaction, with its connection. That of the app has others in a
# worker, which belong to the worker's event loop, and no step runs in it.
_jobs = JobManager(DjangoConnector())

TURN_TASK = "agents.tasks.take_turn"
TURN_QUEUE = "turns"
# The priority of work that can wait: turns have 0.
BEHIND_TURNS = -1
# The states of a job that waits or is worked on.
LIVE = ("todo", "doing")

# For a whole fleet at once: what would be a query for each Mysis.
ASSIGN = """
UPDATE agents_mysis AS mysis SET next_job = job.id, wake_at = NULL
FROM procrastinate_jobs AS job
WHERE job.id = ANY(%s) AND mysis.id = (job.args->>'mysis_id')::bigint
"""

FORGET = """
SELECT procrastinate_cancel_job_v1(job, false, true) FROM unnest(%s::bigint[]) AS job
"""


def read_clock() -> datetime:
    """The database's clock: the queue reckons by it, whatever this machine's says."""
    (now,) = fetch_row("SELECT clock_timestamp()", [])
    moment: datetime = now
    return moment


def schedule(mysis: Mysis, *, trigger: str, at: datetime | None = None) -> None:
    """Queue the next turn of a locked row, at once or at a moment by `read_clock`."""
    defer_turn(mysis, trigger=trigger, at=at)
    mysis.save(update_fields=["next_job", "wake_at"])


def defer_turn(mysis: Mysis, *, trigger: str, at: datetime | None = None) -> None:
    """`schedule` for who stores the row with other changes."""
    _cancel_job(mysis)
    mysis.next_job = _deferrer(mysis, at).defer(mysis_id=mysis.pk, trigger=trigger)
    mysis.wake_at = at


def schedule_all(myses: Sequence[Mysis], *, trigger: str) -> None:
    """Queue the next turns of locked rows at once; the rows in memory keep what they had."""
    if not myses:
        return
    jobs = _jobs.batch_defer_jobs(
        [
            _deferrer(mysis).make_new_job(mysis_id=mysis.pk, trigger=trigger)
            for mysis in myses
        ]
    )
    fetch_row(FORGET, [[m.next_job for m in myses if m.next_job is not None]])
    fetch_row(ASSIGN, [[job.id for job in jobs]])


def _deferrer(mysis: Mysis, at: datetime | None = None) -> JobDeferrer:
    shards: int = settings.ZOEA_TURN_SHARDS
    # A worker without ``--queues`` takes from those of all shards.
    queue = TURN_QUEUE if shards == 1 else f"{TURN_QUEUE}-{mysis.pk % shards}"
    # By its name: the app's own function would import what the task runs.
    return configure_task(
        name=TURN_TASK,
        job_manager=_jobs,
        queue=queue,
        lock=f"mysis-{mysis.pk}",
        schedule_at=at,
    )


def unschedule(mysis: Mysis) -> None:
    """Cancel the next turn."""
    _cancel_job(mysis)
    mysis.next_job = mysis.wake_at = None
    mysis.save(update_fields=["next_job", "wake_at"])


def _cancel_job(mysis: Mysis) -> None:
    if mysis.next_job is not None:
        _jobs.cancel_job_by_id(mysis.next_job, delete_job=True)
