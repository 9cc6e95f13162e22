"""Take up the turns of dead workers, and end forgotten jobs.

Each worker holds a lock of the database, which PostgreSQL frees when its process dies:
then another worker ends its jobs within seconds. Where no lock can be held (behind a
pooler), or the network hides the death, the queue's heartbeats tell, later. A running
Mysis without a job that waits or runs gets one. Nothing that may have happened is
repeated: open calls are answered with "outcome unknown".

The queue's own end of a job is written once, after the turn. Where just that write
fails the job stays with a worker that lives, and under its lock no later turn of the
Mysis is ever taken: so each process also checks the queue against its own jobs.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import psycopg
from django.conf import settings
from django.db import DatabaseError, transaction
from django.db.models import Exists, OuterRef, QuerySet
from procrastinate.contrib.django import app
from procrastinate.contrib.django.models import ProcrastinateJob
from procrastinate.exceptions import ConnectorException
from procrastinate.jobs import Job, Status

from agents import scheduling
from agents.actions.messages import resume_broadcasts
from agents.alerts.judge import watch_fleet
from agents.db import run_in_db
from agents.events import get_connection_parameters
from agents.lab import kept_replays
from agents.lab.rewind import fail_lost
from agents.models import Mysis, Turn
from agents.runtime.finish import put_to_rest
from agents.runtime.game_polls import event_polls
from agents.runtime.turn_rows import close_open_turns
from agents.scheduling import LIVE, TURN_TASK
from agents.tools.snapshot import announce_aged
from memory.models import fetch_rows

# Between a turn and the queue's own end of its job lies one write, also on a bad day.
GRACE_SECONDS = 20.0

# Workers send a heartbeat every 5 s; after three missed ones it is gone. One that holds
# its lock may only be starved: it gets longer, as the network may hide its death.
STALLED_SECONDS = 17.0
STARVED_SECONDS = 60.0

# How often a worker looks for free locks, and how long one has to stay free until its
# worker is gone. Within that, one that lives but has lost its connection (after a restart
# of the database) tries to lock again; later it loses nothing by longer pauses.
LOOK_SECONDS = 2.0
FREE_SECONDS = 1.0
RETRY_SECONDS = 0.2
LONGEST_RETRY_SECONDS = 5.0

HOLD_LOCK = "SELECT pg_advisory_lock(hashtext('worker'), %s::int)"
ENTER_LOCK = "INSERT INTO agents_workerlock VALUES (%s) ON CONFLICT DO NOTHING"
LEAVE_LOCK = "DELETE FROM agents_workerlock WHERE number = %(number)s"
# Shared, so that two who look do not take each other for the worker.
LIST_FREE = """
SELECT number FROM agents_workerlock
WHERE pg_try_advisory_xact_lock_shared(hashtext('worker'), number::int)
"""
LIST_HELD = """
SELECT number FROM agents_workerlock
WHERE NOT pg_try_advisory_xact_lock_shared(hashtext('worker'), number::int)
"""
# In one transaction. Meanwhile the worker takes no job, as that locks its row too.
KEEP_FROM_JOBS = "SELECT FROM procrastinate_workers WHERE id = %s FOR UPDATE"
# Under its lock: a worker that is back in this very moment keeps its jobs.
END_WORKER = """
WITH gone AS (
  DELETE FROM agents_workerlock
  WHERE number = %s AND pg_try_advisory_xact_lock(hashtext('worker'), number::int)
  RETURNING number
), ended AS (
  DELETE FROM procrastinate_jobs AS job USING gone
  WHERE job.worker_id = gone.number AND job.status = 'doing' RETURNING job.id
)
SELECT ARRAY(SELECT id FROM ended) FROM gone
"""
# Nobody counts the dead; one that lives enters itself again.
LEAVE_QUEUE = "DELETE FROM procrastinate_workers WHERE id = %s"

INTERVAL = 5.0

# A turn that brings down whoever takes it must not be taken up for ever.
LOST_LIMIT = 10

LOST = (
    f"{LOST_LIMIT} turns in a row ended without a word. Look into the worker's log, "
    "then start it again."
)

logger = logging.getLogger(__name__)


@dataclass
class RunningJobs:
    """The queue's jobs that this process works on.

    ``workers`` are the queue's numbers for this process: one, or one after another.
    """

    workers: set[int] = field(default_factory=set)
    _jobs: set[int] = field(default_factory=set)
    _missing: dict[int, float] = field(default_factory=dict)

    @contextmanager
    def track_job(self, job_id: int, worker_id: int | None) -> Iterator[None]:
        """Count a job as worked on in the block."""
        if worker_id is not None:
            self.workers.add(worker_id)
        self._jobs.add(job_id)
        try:
            yield
        finally:
            self._jobs.discard(job_id)

    def find_forgotten(self, doing: Collection[int], now: float) -> list[int]:
        """Of the jobs that the queue gives this process, those that nobody works on.

        For `GRACE_SECONDS` at least; ``now`` is in seconds of any steady clock.
        """
        missing = [job for job in doing if job not in self._jobs]
        self._missing = {job: self._missing.get(job, now) for job in missing}
        return [job for job in missing if now - self._missing[job] >= GRACE_SECONDS]


running_jobs = RunningJobs()


class Maintenance:
    """Runs its passes beside the jobs of this process: busy slots cannot starve them.

    Mostly there is nothing to mend: a job of the queue every few seconds would cost more
    than the pass itself.
    """

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None
        self._wanted = asyncio.Event()

    def ensure_running(self) -> None:
        """Start, or start again in another event loop."""
        task = self._task
        loop = asyncio.get_running_loop()
        if task is None or task.done() or task.get_loop() is not loop:
            self._wanted = asyncio.Event()
            # A fresh context: it outlives the job that happened to start it.
            self._task = loop.create_task(
                self._run(), name="upkeep", context=contextvars.Context()
            )

    def run_soon(self) -> None:
        """Have the next pass at once, or right after the one that runs."""
        self.ensure_running()
        self._wanted.set()

    async def _run(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(INTERVAL):
                    await self._wanted.wait()
            self._wanted.clear()
            await _try_to_reconcile()
            event_polls.begin_round()


maintenance = Maintenance()


class LockKeeper:
    """Holds the lock of one worker, and ends the jobs of workers that are gone."""

    def __init__(self, number: int) -> None:
        self.number = number
        self._seen_free: set[int] = set()
        self._held = False
        self._tried = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Take the lock before the first job; where that fails, go on trying."""
        self._task = asyncio.get_running_loop().create_task(
            self._run(), name="lock keeper", context=contextvars.Context()
        )
        await self._tried.wait()

    async def end(self) -> None:
        """Give the lock back."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        without = pause = 0.0
        while True:
            try:
                await self._hold_and_look()
            except (psycopg.Error, OSError) as error:
                # Once: a database that is down refuses many times.
                if self._held or not self._tried.is_set():
                    logger.warning("Worker %s has no lock: %s", self.number, error)
            except Exception:
                logger.exception("Worker %s lets go of its lock.", self.number)
            without = 0.0 if self._held else without + pause
            self._held = False
            self._tried.set()
            # Doubles, once the lock was free for too long.
            pause = max(RETRY_SECONDS, without - FREE_SECONDS)
            pause = min(pause, LONGEST_RETRY_SECONDS)
            await asyncio.sleep(pause)

    async def _hold_and_look(self) -> None:
        # Not of the pool: the lock lasts as long as the connection.
        database = await psycopg.AsyncConnection.connect(
            **get_connection_parameters(), autocommit=True
        )
        async with database:
            await database.execute(HOLD_LOCK, [self.number])
            await database.execute(ENTER_LOCK, [self.number])
            self._held = True
            self._tried.set()
            # What was free before is no news: all may have lost their connections.
            self._seen_free = set()
            while True:
                await self._end_gone(database)
                wait = FREE_SECONDS if self._seen_free else LOOK_SECONDS
                # Nobody notifies: so a lost connection is known at once.
                async for _ in database.notifies(timeout=wait, stop_after=1):
                    pass

    async def _end_gone(self, database: psycopg.AsyncConnection[Any]) -> None:
        """End the jobs of workers whose lock was free the last time too."""
        cursor = await database.execute(LIST_FREE)
        free = {number for (number,) in await cursor.fetchall()} - {self.number}
        gone, self._seen_free = free & self._seen_free, free - self._seen_free
        for number in sorted(gone):
            if jobs := await _end_worker(database, number):
                logger.warning("Worker %s is gone; its jobs were %s.", number, jobs)
        if gone:
            # Not here: this connection, once lost, has to be missed at once.
            maintenance.run_soon()


async def _end_worker(database: psycopg.AsyncConnection[Any], number: int) -> list[int]:
    """End a worker's jobs; none where it holds its lock again."""
    async with database.transaction():
        await database.execute(KEEP_FROM_JOBS, [number])
        cursor = await database.execute(END_WORKER, [number])
        ended = await cursor.fetchone()
        if ended:
            await database.execute(LEAVE_QUEUE, [number])
    return list(ended[0]) if ended else []


async def _try_to_reconcile() -> None:
    try:
        await reconcile()
        # What has grown old while nobody took a turn.
        await run_in_db(announce_aged)
        await run_in_db(watch_fleet)
    except (DatabaseError, ConnectorException) as error:
        logger.warning("Upkeep did not get through: %s", error)


async def reconcile() -> None:
    """Run one pass; safe in several processes at once."""
    now = asyncio.get_running_loop().time()
    await _end_stalled()
    await finish_forgotten(now)
    for step in (
        reschedule_lost,
        close_left_open,
        resume_broadcasts,
        kept_replays.resume_lost,
        fail_lost,
    ):
        await run_in_db(step)


async def _end_stalled() -> None:
    for job in await _list_stalled():
        logger.warning("Job %s of a worker that is gone is taken up.", job.id)
        await app.job_manager.finish_job(job, Status.FAILED, delete_job=True)
    # Out of the queue go those too that had no lock, or whose death the network hid.
    await app.job_manager.prune_stalled_workers(settings.ZOEA_STALLED_SECONDS)


async def _list_stalled() -> list[Job]:
    """The jobs of workers that are gone by their heartbeats."""
    find = app.job_manager.get_stalled_jobs
    silent = list(await find(seconds_since_heartbeat=STALLED_SECONDS))
    if not silent:
        return []
    held = {number for (number,) in await run_in_db(fetch_rows, LIST_HELD)}
    long = {job.id for job in await find(seconds_since_heartbeat=STARVED_SECONDS)}
    return [job for job in silent if job.worker_id not in held or job.id in long]


async def finish_forgotten(now: float) -> None:
    """End jobs of this process's turns that are over, but not for the queue."""
    doing = await run_in_db(_jobs_here)
    for job_id in running_jobs.find_forgotten(doing, now):
        logger.warning("Job %s was never ended: it is now.", job_id)
        await app.job_manager.finish_job_by_id_async(
            job_id=job_id, status=Status.FAILED, delete_job=True
        )


def _jobs_here() -> list[int]:
    if not running_jobs.workers:
        return []
    jobs = ProcrastinateJob.objects.filter(
        status="doing", task_name=TURN_TASK, worker_id__in=running_jobs.workers
    )
    return list(jobs.values_list("pk", flat=True))


def reschedule_lost() -> int:
    """Schedule every running Mysis that has no live job; returns how many.

    One query finds those that seem lost, and each is checked again under its lock: a
    pass every few seconds in every process must not cost a query per Mysis.
    """
    live_turns = Turn.objects.filter(
        Exists(_live_jobs().filter(pk=OuterRef("job_id"))),
        mysis=OuterRef("pk"),
        outcome__isnull=True,
    )
    lost = Mysis.objects.filter(
        ~Exists(_live_jobs().filter(pk=OuterRef("next_job"))),
        ~Exists(live_turns),
        state=Mysis.State.RUNNING,
    )
    return sum(_take_up(pk) for pk in lost.order_by("pk").values_list("pk", flat=True))


@transaction.atomic
def _take_up(mysis_id: int) -> bool:
    rows = Mysis.objects.select_for_update(of=("self",), skip_locked=True)
    mysis = rows.filter(pk=mysis_id, state=Mysis.State.RUNNING).first()
    if mysis is None or _has_live_job(mysis):
        return False
    close_open_turns(mysis, outcome=Turn.Outcome.INTERRUPTED)
    mysis.lost_turns += 1
    mysis.save(update_fields=["lost_turns"])
    if mysis.lost_turns >= LOST_LIMIT:
        put_to_rest(mysis, Mysis.State.ERRORED, LOST)
    else:
        scheduling.schedule(mysis, trigger="interrupted")
    return True


def close_left_open() -> int:
    """End the turns of Myses at rest whose worker died; returns how many.

    Nobody takes these up: a stop came between the death and its discovery.
    """
    left = Turn.objects.filter(
        ~Exists(_live_jobs().filter(pk=OuterRef("job_id"))), outcome__isnull=True
    ).exclude(mysis__state=Mysis.State.RUNNING)
    return sum(
        _close_stopped(pk) for pk in left.values_list("mysis_id", flat=True).distinct()
    )


@transaction.atomic
def _close_stopped(mysis_id: int) -> bool:
    rows = Mysis.objects.select_for_update(of=("self",), skip_locked=True)
    mysis = rows.filter(pk=mysis_id).exclude(state=Mysis.State.RUNNING).first()
    if mysis is None or _has_live_job(mysis):
        return False
    close_open_turns(mysis, outcome=Turn.Outcome.STOPPED)
    return True


def _has_live_job(mysis: Mysis) -> bool:
    open_turns = mysis.turns.filter(outcome__isnull=True)
    ids = [mysis.next_job, *open_turns.values_list("job_id", flat=True)]
    return _live_jobs().filter(pk__in=[pk for pk in ids if pk is not None]).exists()


def _live_jobs() -> QuerySet[ProcrastinateJob]:
    return ProcrastinateJob.objects.filter(status__in=LIVE)
