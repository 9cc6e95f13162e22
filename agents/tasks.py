"""What the queue runs; the work is in ``agents.runtime``."""

from __future__ import annotations

from procrastinate import JobContext
from procrastinate.contrib.django import app

from agents.alerts import outbox
from agents.alerts.send import send_message
from agents.db import run_in_db
from agents.lab import kept_replays, replay_job
from agents.lab.rewind import QUEUE as LAB_QUEUE
from agents.lab.rewind import TASK as REWIND_TASK
from agents.lab.rewind_walk import run_rewind as walk_rewind
from agents.runtime import recovery, turn
from agents.runtime.recovery import running_jobs
from agents.scheduling import TURN_QUEUE, TURN_TASK
from agents.telemetry import log_place, open_span
from agents.tools.snapshot import announce_aged


@app.task(name=TURN_TASK, queue=TURN_QUEUE, pass_context=True)
async def take_turn(context: JobContext, *, mysis_id: int, trigger: str) -> None:
    """One turn of one Mysis, under its lock."""
    recovery.maintenance.ensure_running()
    job_id = context.job.id
    if job_id is None:
        return
    with (
        running_jobs.track_job(job_id, context.job.worker_id),
        log_place(mysis=mysis_id),
    ):
        await run_in_db(announce_aged, mysis_id)
        if await turn.admit_turn(mysis_id, job_id=job_id, trigger=trigger):
            await turn.take_turn(mysis_id, job_id=job_id, trigger=trigger)


@app.periodic(cron="* * * * * */15")
# No lock: one that a killed worker still held would keep all later passes out.
# The alias is a job of its own that workers of an older version still make.
@app.task(
    name="agents.tasks.reconcile",
    aliases=["agents.tasks.watch_ages"],
    queue="upkeep",
    queueing_lock="reconcile",
)
async def reconcile(timestamp: int) -> None:
    """Take up lost turns and Myses, and start this worker's own passes."""
    recovery.maintenance.ensure_running()
    with open_span("job reconcile", {}):
        await recovery.reconcile()


@app.task(name=kept_replays.TASK, queue=kept_replays.QUEUE, pass_context=True)
async def run_replay(context: JobContext, *, replay_id: int) -> None:
    """One replay, in a process of its own."""
    recovery.maintenance.ensure_running()
    if context.job.id is not None:
        with open_span("job run_replay", {"zoea.replay.id": replay_id}):
            await replay_job.run_apart(replay_id, context.job.id)


@app.task(name=outbox.TASK, queue=outbox.QUEUE)
async def deliver_alerts(*, target_id: int) -> None:
    """Tell one target what is due, one after another, until it fails."""
    while (attempt := await run_in_db(outbox.claim_next, target_id)) is not None:
        with open_span("job deliver_alerts", {"zoea.target.id": target_id}):
            answer = await send_message(attempt.message)
            await run_in_db(outbox.record_answer, attempt, answer)


@app.task(name=REWIND_TASK, queue=LAB_QUEUE)
async def run_rewind(*, rewind_id: int) -> None:
    """One rewind, to its end."""
    recovery.maintenance.ensure_running()
    with open_span("job run_rewind", {"zoea.rewind.id": rewind_id}):
        await walk_rewind(rewind_id)
