"""How workers run what the queue holds."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from io import TextIOWrapper
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import connection, transaction
from django.utils import timezone
from procrastinate import JobContext, PsycopgConnector
from procrastinate.contrib.django import app
from procrastinate.contrib.django.models import ProcrastinateJob
from procrastinate.contrib.django.utils import connector_params
from procrastinate.jobs import Job, Status
from procrastinate.tasks import configure_task
from procrastinate.worker import Worker

from agents import tasks
from agents.llm.complete import load_wire
from agents.management.commands import procrastinate as command
from agents.management.commands.procrastinate import (
    REST,
    PunctualConnector,
    WorkerJobManager,
)
from agents.models import Provider
from agents.scheduling import TURN_TASK, schedule
from tests.factories import make_mysis

FAR = 60.0
ROOT = Path(__file__).resolve().parents[2]


def test_every_worker_ends_soon_and_looks_for_jobs_where_it_is_told_of_none():
    """Also one that is started by hand or in a container, without options."""
    worker = Worker(app, **app.worker_defaults)
    assert worker.fetch_job_polling_interval <= REST
    assert worker.shutdown_graceful_timeout is not None
    # Containers get 10 s, `up` gives its worker 3.5 s.
    assert 0 < worker.shutdown_graceful_timeout < 3


@pytest.fixture
def connector() -> PunctualConnector:
    return PunctualConnector(kwargs=connector_params(), min_size=1, max_size=4)


@pytest.fixture
async def told(
    transactional_db: Any, connector: PunctualConnector
) -> AsyncIterator[asyncio.Queue[str]]:
    """What the connector of a worker on all queues tells it."""
    async with listening(connector) as heard:
        yield heard


@asynccontextmanager
async def listening(
    connector: PunctualConnector,
) -> AsyncIterator[asyncio.Queue[str]]:
    heard: asyncio.Queue[str] = asyncio.Queue()

    async def hear(*, channel: str, payload: str) -> None:
        heard.put_nowait(json.loads(payload)["type"])

    await connector.open_async()
    listener = asyncio.ensure_future(
        connector.listen_notify(hear, ["procrastinate_any_queue_v1"])
    )
    yield heard
    listener.cancel()
    await asyncio.gather(listener, return_exceptions=True)
    await connector.close_async()


async def _queue(seconds: float) -> None:
    at = timezone.now() + timedelta(seconds=seconds)
    deferrer = configure_task(
        name=TURN_TASK, job_manager=app.job_manager, schedule_at=at
    )
    await sync_to_async(deferrer.defer)(mysis_id=1, trigger="nudge")


async def test_a_worker_is_told_of_a_job_when_it_is_due(
    told: asyncio.Queue[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Nothing but the moment itself: a job that is made is not told, nor is time passed.
    monkeypatch.setattr(command, "REST", FAR * 10)
    await _queue(FAR * 10)
    began = timezone.now()
    await _queue(0.5)
    assert await asyncio.wait_for(told.get(), FAR) == "job_inserted"
    due = await sync_to_async(
        lambda: ProcrastinateJob.objects.filter(scheduled_at__lte=timezone.now()).get()
    )()
    assert due.scheduled_at is not None
    assert due.scheduled_at >= began + timedelta(seconds=0.5)


async def test_a_due_job_is_told_at_once_and_again_while_it_waits(
    told: asyncio.Queue[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "REST", FAR * 10)
    await _queue(-1)
    for _ in range(3):
        assert await asyncio.wait_for(told.get(), FAR) == "job_inserted"


@pytest.fixture
def never_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is told because time has passed."""
    monkeypatch.setattr(command, "REST", FAR * 10)
    monkeypatch.setattr(command, "BLOCKED", FAR * 10)


async def test_a_job_that_waited_for_the_end_of_another_is_told_with_it(
    never_again: None, told: asyncio.Queue[str], connector: PunctualConnector
) -> None:
    """Both are of one Mysis, and its lock is free only after the first."""
    await _queue(-1)
    assert await asyncio.wait_for(told.get(), FAR) == "job_inserted"
    first = await sync_to_async(ProcrastinateJob.objects.get)()
    await _queue(-1)
    assert await asyncio.wait_for(told.get(), FAR) == "job_inserted"
    manager = WorkerJobManager(connector, connector.look_again)
    await manager.finish_job_by_id_async(
        job_id=first.pk, status=Status.SUCCEEDED, delete_job=True
    )
    assert await asyncio.wait_for(told.get(), FAR) == "job_inserted"


@pytest.mark.usefixtures("told")
async def test_a_worker_that_begins_loads_what_turns_need_and_leaves_it_alone(
    connector: PunctualConnector, monkeypatch: pytest.MonkeyPatch
) -> None:
    await Provider.objects.acreate(name="own", kind="openai", base_url="http://x/v1")
    loaded: list[str] = []
    monkeypatch.setattr(
        command, "load_wire", lambda kind: loaded.append(load_wire(kind).__name__)
    )
    manager = WorkerJobManager(connector, connector.look_again)
    try:
        number = await manager.register_worker()
        assert "agents.llm.wires.openai" in loaded
        assert gc.get_freeze_count() > 100_000
        await manager.unregister_worker(number)
    finally:
        gc.unfreeze()


class LateConnector(PunctualConnector):
    """A job is queued each time before it listens, but after it has looked."""

    def __init__(self) -> None:
        super().__init__(kwargs=connector_params(), min_size=1, max_size=4)
        self._looked = asyncio.Event()

    async def execute_query_one_async(self, *args: Any, **values: Any) -> Any:
        row = await super().execute_query_one_async(*args, **values)
        self._looked.set()
        return row

    @asynccontextmanager
    async def _get_standalone_connection(self) -> AsyncIterator[Any]:
        await self._looked.wait()
        await _queue(-1)
        async with super()._get_standalone_connection() as database:
            yield database


async def test_what_is_queued_while_nobody_listens_is_told(
    transactional_db: Any, never_again: None
) -> None:
    """At the start, and while the connection is lost."""
    async with listening(LateConnector()) as told:
        assert await asyncio.wait_for(told.get(), FAR) == "job_inserted"
        await sync_to_async(_cut_off_listener)()
        assert await asyncio.wait_for(told.get(), FAR) == "job_inserted"


def _cut_off_listener() -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE query LIKE 'LISTEN%' AND datname = current_database()"
        )
        assert cursor.fetchall() == [(True,)]


async def test_a_request_to_abort_is_passed_on(told: asyncio.Queue[str]) -> None:
    await _queue(FAR * 10)
    async with asyncio.timeout(FAR):
        while told.empty():
            # Again where nobody listened yet.
            await sync_to_async(_request_abort)()
            await asyncio.sleep(0)
    assert told.get_nowait() == "abort_job_requested"


def _request_abort() -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE procrastinate_jobs SET status = 'doing', abort_requested = false"
        )
        cursor.execute("UPDATE procrastinate_jobs SET abort_requested = true")


LIGHT = """
import os, sys
os.environ["DJANGO_SETTINGS_MODULE"] = "zoea.settings"
for step in %r:
    exec(step)
    print(*sorted({name.split(".")[0] for name in sys.modules} | set(sys.modules)))
"""
# What a process does, one after the other, and what it has never loaded by then.
UP_COMMAND_WORKER = {
    "import zoea.management.commands.up": {
        "agents.models", "memory.models", "pydantic",
    },
    "import django; django.setup()": {
        "agents.runtime", "mcp", "pydantic_ai", "zoea.urls",
    },
    "import agents.tasks, agents.management.commands.procrastinate": {
        "agents.admin", "agents.views", "zoea.urls", "playwright",
    },
}  # fmt: skip
WEB = {"import zoea.asgi, zoea.urls": {"agents.runtime", "pydantic_ai"}}


@pytest.mark.parametrize("steps", [UP_COMMAND_WORKER, WEB], ids=["worker", "web"])
def test_a_process_loads_what_it_uses(steps: dict[str, set[str]]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LIGHT % [*steps]],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    loaded = done.stdout.splitlines()
    for never, names in zip(steps.values(), loaded, strict=True):
        assert set(names.split()).isdisjoint(never)


def test_steps_leave_a_connection_of_the_pool() -> None:
    """A worker's threads keep theirs: more of them would wait for ever."""
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import django; django.setup(); from agents import db; print(db.MOST_THREADS)",
        ],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env=os.environ
        | {"DJANGO_SETTINGS_MODULE": "zoea.settings", "ZOEA_DB_POOL": "4"},
    )
    assert int(done.stdout) == 3


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


def test_a_worker_queues_a_turn_in_the_transaction_of_its_step(transactional_db: Any):
    """Not by the connections of the queue, which belong to the event loop."""
    mysis = make_mysis(name="Ada")
    worker = PsycopgConnector(kwargs=connector_params())
    with app.replace_connector(worker), suppress(RuntimeError), transaction.atomic():
        schedule(mysis, trigger="nudge")
        raise RuntimeError("taken back")
    assert not ProcrastinateJob.objects.exists()


def test_a_line_that_the_disk_has_no_room_for_is_lost_and_the_next_is_written(
    tmp_path: Path,
) -> None:
    """With /dev/full in the place of the log, and then with one that has room."""
    log = tmp_path / "log"
    with Path("/dev/full").open("wb", buffering=0) as full:
        stream = TextIOWrapper(full, write_through=True)
        with pytest.raises(OSError, match="No space left"):
            stream.write("Refused.\n")
        tolerant = command.TolerantStream(stream)
        assert tolerant.write("Lost.\n") == len("Lost.\n")
        with log.open("wb") as room:
            os.dup2(room.fileno(), full.fileno())
        tolerant.write("Kept.\n")
    assert log.read_text().endswith("Kept.\n")
