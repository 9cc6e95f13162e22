"""Workers whose memory grows beyond ZOEA_WORKER_MEMORY_MB are replaced between turns."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from procrastinate.contrib.django import app
from procrastinate.contrib.django.models import ProcrastinateJob
from procrastinate.contrib.django.utils import connector_params
from procrastinate.jobs import Job
from pytest_django import Settings

from agents import actions
from agents.management.commands.procrastinate import (
    MemoryLimit,
    PunctualConnector,
    WorkerJobManager,
)
from agents.models import Turn
from bench.processes import ROOT, database_url
from sandbox.game.testing import SandboxServer
from tests.agents.runtime.logs import in_db
from zoea.supervise.children import BackOff, keep_running
from zoea.supervise.programs import Program

SECONDS = 120.0


class Manager(WorkerJobManager):
    """Tells of each try to take a job: its task, or None."""

    def __init__(self, connector: PunctualConnector) -> None:
        super().__init__(connector, connector.look_again)
        self.taken = asyncio.Queue[str | None]()

    async def fetch_job(
        self, queues: Iterable[str] | None, worker_id: int
    ) -> Job | None:
        job = await super().fetch_job(queues, worker_id)
        self.taken.put_nowait(job.task_name if job else None)
        return job


class Jobs:
    """Two jobs, of which each runs until it may end."""

    def __init__(self) -> None:
        self.may_end = asyncio.Event()
        self.ended = 0

    async def run(self) -> None:
        await self.may_end.wait()
        self.ended += 1


@pytest.fixture
async def jobs(transactional_db: Any) -> AsyncIterator[Jobs]:
    found = Jobs()
    task = app.task(name="tests.wait", queue="tests")(found.run)
    for _ in range(2):
        await in_db(task.defer)()
    yield found
    del app.tasks["tests.wait"]


@asynccontextmanager
async def working() -> AsyncIterator[tuple[Manager, asyncio.Task[None]]]:
    """A worker that has two slots for these jobs."""
    connector = PunctualConnector(kwargs=connector_params(), min_size=1, max_size=4)
    manager = Manager(connector)
    with app.replace_connector(connector) as queue:
        queue.job_manager = manager
        async with asyncio.timeout(SECONDS), queue.open_async():
            work = asyncio.create_task(
                queue.run_worker_async(
                    queues=["tests"],
                    concurrency=2,
                    shutdown_graceful_timeout=0.1,
                    install_signal_handlers=False,
                    worker_middleware=[manager.memory_limit.run_job],
                )
            )
            try:
                yield manager, work
            finally:
                work.cancel()
                await asyncio.gather(work, return_exceptions=True)


async def test_a_worker_with_too_much_memory_ends_with_its_jobs_and_takes_no_more(
    jobs: Jobs, settings: Settings, caplog: pytest.LogCaptureFixture
):
    settings.ZOEA_WORKER_MEMORY_MB = 1
    async with working() as (manager, work):
        assert await manager.taken.get() == "tests.wait"
        # One that ends looks for no job again.
        for _ in range(2):
            assert await manager.taken.get() is None
        jobs.may_end.set()
        await work
    assert jobs.ended == 1
    left = ProcrastinateJob.objects.filter(queue_name="tests", status="todo")
    assert await in_db(left.count)() == 1
    [said] = [one.message for one in caplog.records if "memory" in one.message.lower()]
    assert "more than ZOEA_WORKER_MEMORY_MB (1)" in said


async def test_a_job_that_lasts_too_long_is_cut(
    jobs: Jobs, settings: Settings, monkeypatch: pytest.MonkeyPatch
):
    """Else all Myses would wait for it."""
    settings.ZOEA_WORKER_MEMORY_MB = 1
    monkeypatch.setattr(f"{MemoryLimit.__module__}.LAST_TURNS_SECONDS", 0.0)
    async with working() as (_, work):
        await work
    assert jobs.ended == 0


@pytest.mark.parametrize("most", [0, 1_000_000])
async def test_a_worker_under_its_limit_or_without_one_goes_on(
    most: int, jobs: Jobs, settings: Settings
):
    settings.ZOEA_WORKER_MEMORY_MB = most
    async with working() as (manager, work):
        for _ in range(2):
            assert await manager.taken.get() == "tests.wait"
        jobs.may_end.set()
        assert await manager.taken.get() is None
        assert not work.done()


async def test_workers_are_replaced_and_no_turn_is_lost(
    transactional_db: Any, tmp_path: Path
):
    ada = await in_db(actions.create_mysis)(name="Ada", by="test")
    await in_db(actions.start_mysis)(mysis=ada, by="test")
    said = asyncio.Queue[str]()
    done = Turn.objects.filter(outcome="done")
    interrupted = Turn.objects.filter(trigger="interrupted")
    with SandboxServer(tick=0.2) as game:
        environment = {
            "DJANGO_SETTINGS_MODULE": "zoea.settings",
            "DATABASE_URL": database_url(),
            "SPACEMOLT_MCP_URL": game.url,
            "ZOEA_SECONDS_PER_TICK": "0.2",
            "ZOEA_WORKER_MEMORY_MB": "1",
        }
        argv = (sys.executable, str(ROOT / "manage.py"), "procrastinate", "worker")
        program = Program("worker", argv, tmp_path / "worker.log", environment)
        supervisor = asyncio.create_task(
            keep_running(program, said.put_nowait, SECONDS, BackOff(quick=0))
        )
        try:
            async with asyncio.timeout(SECONDS):
                # Each takes one job at most.
                while await in_db(done.count)() < 2:
                    line = await said.get()
                    assert "exit status 1, saying: " in line
                    assert "more than ZOEA_WORKER_MEMORY_MB (1)" in line
            assert not await in_db(interrupted.exists)()
        finally:
            supervisor.cancel()
            await asyncio.gather(supervisor, return_exceptions=True)
