"""The jobs of turns that this process works on, against what the queue believes.

The queue's own end of a job is written once, after the turn. Where just that write
fails the job stays with a worker that lives, and under its lock no later turn of the
Mysis is ever taken.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import random
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta

from asgiref.sync import ThreadSensitiveContext
from channels.db import database_sync_to_async
from django.db import DatabaseError, transaction
from django.db.models import Exists, OuterRef, QuerySet
from django.utils import timezone
from procrastinate.contrib.django import app
from procrastinate.contrib.django.models import ProcrastinateJob
from procrastinate.exceptions import ConnectorException
from procrastinate.jobs import Status

from agents import scheduling
from agents.actions import resume_broadcasts
from agents.db import run_in_db
from agents.game.sessions import pool
from agents.models import Mysis, Turn
from agents.runtime.finish import rest
from agents.runtime.turn_rows import activity, close_open_turns
from agents.scheduling import TURN_TASK

GRACE_SECONDS = 20.0
"""Between a turn and the queue's own end of its job lies one write, also on a bad day."""


@dataclass
class RunningJobs:
    """``workers`` are the queue's numbers for this process: one, or one after another."""

    workers: set[int] = field(default_factory=set)
    _jobs: set[int] = field(default_factory=set)
    _missing: dict[int, float] = field(default_factory=dict)

    @contextmanager
    def job(self, job_id: int, worker_id: int | None) -> Iterator[None]:
        """A job is worked on in the block."""
        if worker_id is not None:
            self.workers.add(worker_id)
        self._jobs.add(job_id)
        try:
            yield
        finally:
            self._jobs.discard(job_id)

    def forgotten(self, doing: Collection[int], now: float) -> list[int]:
        """Of what the queue gives this process, the jobs that nobody works on.

        For `GRACE_SECONDS` at least; ``now`` is in seconds of any steady clock.
        """
        missing = [job for job in doing if job not in self._jobs]
        self._missing = {job: self._missing.get(job, now) for job in missing}
        return [job for job in missing if now - self._missing[job] >= GRACE_SECONDS]


underway = RunningJobs()

# SECTION Takes up what dead workers left: their turns end as interrupted and go on.
#
# A job whose worker sends no heartbeat is finished; a running Mysis without a job
# that waits or runs gets one. Nothing that may have happened is repeated: open
# calls are answered with "outcome unknown".

# Workers send a heartbeat every 5 s; after three missed ones it is gone.
STALLED_SECONDS = 17.0
LIVE = ("todo", "doing")
INTERVAL = 5.0
# A turn that brings down whoever takes it must not be taken up for ever.
LOST_LIMIT = 10
LOST = (
    f"{LOST_LIMIT} turns in a row ended without a word. Look into the worker's log, "
    "then start it again."
)

logger = logging.getLogger(__name__)


class Maintenance:
    """The passes of this process, beside its jobs: busy slots cannot starve them."""

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None

    def keep(self) -> None:
        """Start, or start again in another event loop."""
        task = self._task
        loop = asyncio.get_running_loop()
        if task is None or task.done() or task.get_loop() is not loop:
            # A fresh context: it outlives the job that happened to start it.
            self._task = loop.create_task(
                self._run(), name="upkeep", context=contextvars.Context()
            )

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(INTERVAL)
            try:
                async with ThreadSensitiveContext():
                    await reconcile()
            except (DatabaseError, ConnectorException) as error:
                logger.warning("Upkeep did not get through: %s", error)


upkeep = Maintenance()


async def reconcile() -> None:
    """One pass; safe to run in several processes at once."""
    stalled = await app.job_manager.get_stalled_jobs(
        seconds_since_heartbeat=STALLED_SECONDS
    )
    for job in stalled:
        logger.warning("Job %s of a worker that is gone is taken up.", job.id)
        await app.job_manager.finish_job(job, Status.FAILED, delete_job=True)
    await finish_forgotten(asyncio.get_running_loop().time())
    await database_sync_to_async(reschedule_lost)()
    await database_sync_to_async(close_left_open)()
    await database_sync_to_async(resume_broadcasts)()


async def finish_forgotten(now: float) -> None:
    """End jobs of this process's turns that are over, but not for the queue."""
    doing = await database_sync_to_async(_doing)()
    for job_id in underway.forgotten(doing, now):
        logger.warning("Job %s was never ended: it is now.", job_id)
        await app.job_manager.finish_job_by_id_async(
            job_id=job_id, status=Status.FAILED, delete_job=True
        )


def _doing() -> list[int]:
    """The turns that the queue believes to be in this process's hands."""
    if not underway.workers:
        return []
    jobs = ProcrastinateJob.objects.filter(
        status="doing", task_name=TURN_TASK, worker_id__in=underway.workers
    )
    return list(jobs.values_list("pk", flat=True))


def reschedule_lost() -> int:
    """Schedule every running Mysis that has no live job; returns how many."""
    return sum(_take_up(pk) for pk in _without_job())


def close_left_open() -> int:
    """End the turns of Myses at rest whose worker died before it could.

    Nobody takes these up: a stop came between the death and its discovery.
    """
    left = Turn.objects.filter(
        ~Exists(_live().filter(pk=OuterRef("job_id"))), outcome__isnull=True
    ).exclude(mysis__state=Mysis.State.RUNNING)
    return sum(_close(pk) for pk in left.values_list("mysis_id", flat=True).distinct())


@transaction.atomic
def _close(mysis_id: int) -> bool:
    locked = Mysis.objects.select_for_update(of=("self",), skip_locked=True)
    mysis = locked.filter(pk=mysis_id).exclude(state=Mysis.State.RUNNING).first()
    if mysis is None or _has_live_job(mysis):
        return False
    close_open_turns(mysis, outcome=Turn.Outcome.STOPPED)
    return True


def _live() -> QuerySet[ProcrastinateJob]:
    return ProcrastinateJob.objects.filter(status__in=LIVE)


def _without_job() -> list[int]:
    """Who seems lost, by one query; each is looked at again under its lock.

    A pass every few seconds in every process must not cost a query per Mysis.
    """
    live = _live()
    jobs_of_turns = Turn.objects.filter(
        Exists(live.filter(pk=OuterRef("job_id"))),
        mysis=OuterRef("pk"),
        outcome__isnull=True,
    )
    lost = Mysis.objects.filter(
        ~Exists(live.filter(pk=OuterRef("next_job"))),
        ~Exists(jobs_of_turns),
        state=Mysis.State.RUNNING,
    )
    return list(lost.order_by("pk").values_list("pk", flat=True))


@transaction.atomic
def _take_up(mysis_id: int) -> bool:
    locked = Mysis.objects.select_for_update(of=("self",), skip_locked=True)
    mysis = locked.filter(pk=mysis_id, state=Mysis.State.RUNNING).first()
    if mysis is None or _has_live_job(mysis):
        return False
    close_open_turns(mysis, outcome=Turn.Outcome.INTERRUPTED)
    mysis.lost_turns += 1
    mysis.save(update_fields=["lost_turns"])
    if mysis.lost_turns >= LOST_LIMIT:
        rest(mysis, Mysis.State.ERRORED, LOST)
    else:
        scheduling.schedule(mysis, trigger="interrupted")
    return True


def _has_live_job(mysis: Mysis) -> bool:
    open_jobs = mysis.turns.filter(outcome__isnull=True).values_list("job_id")
    ids = [job for (job,) in open_jobs if job is not None]
    if mysis.next_job is not None:
        ids.append(mysis.next_job)
    return _live().filter(pk__in=ids).exists()


# SECTION Turns that would have to wait for a session with the game, put off.
#
# The game opens few sessions a minute. A turn that waited for one would keep a slot of
# its worker from those that have one.

SPREAD_SECONDS = 20.0
"""Those who are put off come back over so long a time, not all at once."""

ACTIVITY = "waiting for a session with the game"


async def admit(mysis_id: int, *, job_id: int, trigger: str) -> bool:
    """Whether a turn may be taken now; else it is scheduled anew.

    That is no failure, and a stop unschedules it as any other turn.
    """
    wait = await pool().admit(mysis_id)
    if wait > 0:
        await run_in_db(put_off, mysis_id, job_id=job_id, trigger=trigger, seconds=wait)
    return wait <= 0


@transaction.atomic
def put_off(mysis_id: int, *, job_id: int, trigger: str, seconds: float) -> None:
    """Schedule the turn of a job that is still the next one for later."""
    rows = Mysis.objects.select_for_update(of=("self",))
    mysis = rows.filter(pk=mysis_id, next_job=job_id).first()
    if mysis is None:
        return
    wait = seconds + random.uniform(0, SPREAD_SECONDS)  # noqa: S311
    at = timezone.now() + timedelta(seconds=wait)
    scheduling.schedule(mysis, trigger=trigger, at=at)
    activity(mysis, ACTIVITY)
