"""How workers run what the queue holds."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from asgiref.sync import sync_to_async
from procrastinate import JobContext
from procrastinate.contrib.django import app
from procrastinate.jobs import Job
from procrastinate.worker import Worker

from agents import tasks
from agents.scheduling import TURN_TASK

FAR = 20.0


def test_every_worker_looks_for_jobs_often_and_ends_soon():
    """Also one that is started by hand or in a container, without options."""
    worker = Worker(app, **app.worker_defaults)
    assert worker.fetch_job_polling_interval <= 1
    assert worker.shutdown_graceful_timeout is not None
    # Containers get 10 s, `up` gives its worker 3.5 s.
    assert 0 < worker.shutdown_graceful_timeout < 3


async def test_a_turn_waits_for_nobody_elses_database_work(transactional_db: Any):
    busy = threading.Event()
    blocked = asyncio.ensure_future(sync_to_async(busy.wait)(FAR * 2))
    job = Job(id=1, queue="turns", lock=None, queueing_lock=None, task_name=TURN_TASK)
    context = JobContext(
        app=app, job=job, start_timestamp=0.0, abort_reason=lambda: None
    )
    try:
        turn = tasks.take_turn.func(context, mysis_id=1, trigger="nudge")
        await asyncio.wait_for(turn, FAR)
    finally:
        busy.set()
        await blocked
