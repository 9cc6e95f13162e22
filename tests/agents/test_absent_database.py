"""A worker whose database is away waits for it, for however long, and then works on."""

from __future__ import annotations

import asyncio
import inspect
import re
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import psycopg
import pytest
from django.conf import settings
from django.core.management import CommandError
from django.db import OperationalError, connection
from procrastinate import App, periodic, worker
from procrastinate.contrib.django import app, procrastinate_app
from procrastinate.contrib.django.utils import connector_params
from procrastinate.exceptions import ConnectorException
from procrastinate.periodic import PeriodicRegistry
from procrastinate.testing import InMemoryConnector
from psycopg_pool import ConnectionPool
from psycopg_pool.base import AttemptWithBackoff

from agents.management.commands import procrastinate as command
from agents.management.commands.procrastinate import (
    Command,
    GameMovedError,
    PunctualConnector,
    WorkerJobManager,
)
from bench.faults.proxy import Proxy

SECONDS = 60.0
# Short, so that whoever waits for the database is refused it many times in a test.
SHORT = 0.05


@pytest.fixture
def network(transactional_db: None) -> Iterator[Proxy]:
    """The way to the database, which can be cut."""
    host, port = (connection.settings_dict[name] for name in ("HOST", "PORT"))
    local = str(host).startswith("/")
    with Proxy(Path(host, ".s.PGSQL.5432") if local else int(port or 5432)) as proxy:
        yield proxy


def find_way(network: Proxy) -> dict[str, Any]:
    return {**connector_params(), "host": "127.0.0.1", "port": network.port}


class Connector(PunctualConnector):
    """Knows the statements that found no database."""

    def __init__(self, network: Proxy) -> None:
        super().__init__(kwargs=find_way(network), max_size=4, timeout=SHORT)
        self.failed = asyncio.Queue[str]()

    async def execute_query_one_async(self, query: Any, **values: Any) -> Any:
        with self._telling(query):
            return await super().execute_query_one_async(query, **values)

    async def execute_query_all_async(self, query: Any, **values: Any) -> Any:
        with self._telling(query):
            return await super().execute_query_all_async(query, **values)

    @contextmanager
    def _telling(self, query: str) -> Iterator[None]:
        try:
            yield
        except ConnectorException:
            self.failed.put_nowait(query)
            raise


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> Iterator[asyncio.Queue[int]]:
    """A job comes each second; when one is done, its second is told."""
    heard = asyncio.Queue[int]()

    async def hear(timestamp: int) -> None:
        heard.put_nowait(timestamp)

    registry = PeriodicRegistry()
    task = app.task(name="tests.hear", queueing_lock="hear")(hear)
    registry.register_task(task, "* * * * * *", "", {})
    monkeypatch.setattr(procrastinate_app.current_app, "periodic_registry", registry)
    monkeypatch.setattr(command, "LONGEST_PAUSE", SHORT)
    yield heard
    del app.tasks["tests.hear"]


@asynccontextmanager
async def working(network: Proxy) -> AsyncIterator[asyncio.Queue[str]]:
    """A worker, and the statements of it that find no database."""
    connector = Connector(network)
    with app.replace_connector(connector) as queue:
        queue.job_manager = WorkerJobManager(connector, connector.look_again)
        async with queue.open_async():
            work = asyncio.create_task(
                queue.run_worker_async(install_signal_handlers=False)
            )
            try:
                yield connector.failed
                assert not work.done()
            finally:
                work.cancel()
                [end] = await asyncio.gather(work, return_exceptions=True)
            assert isinstance(end, asyncio.CancelledError)


async def fails(failed: asyncio.Queue[str], words: str) -> None:
    while words not in await failed.get():
        pass


async def test_a_worker_whose_database_goes_away_works_on_when_it_is_back(
    network: Proxy, done: asyncio.Queue[int]
) -> None:
    async with asyncio.timeout(SECONDS), working(network) as failed:
        await done.get()
        network.refuse()
        for statement in ("defer_periodic_job", "fetch_job", "min(scheduled_at)"):
            await fails(failed, statement)
        while not done.empty():
            done.get_nowait()
        network.accept()
        await done.get()


async def test_a_worker_that_starts_without_its_database_waits_for_it(
    network: Proxy, done: asyncio.Queue[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = threading.Event()
    load_wires = command._load_wires

    def lose_once() -> None:
        if not looked.is_set():
            looked.set()
            raise OperationalError from psycopg.OperationalError()
        load_wires()

    monkeypatch.setattr(command, "_load_wires", lose_once)
    network.refuse()
    async with asyncio.timeout(SECONDS), working(network) as failed:
        await failed.get()
        network.accept()
        await done.get()
    assert looked.is_set()


async def test_a_worker_is_asked_to_end_while_its_database_is_away(
    network: Proxy, done: asyncio.Queue[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "GRACE_SECONDS", SHORT)
    async with asyncio.timeout(SECONDS), working(network) as failed:
        await done.get()
        network.refuse()
        await fails(failed, "fetch_job")


def test_nothing_that_the_queues_worker_asks_is_forgotten() -> None:
    """A statement more in a later release may be one that ends it."""
    source = inspect.getsource(worker) + inspect.getsource(periodic)
    asked = set(re.findall(r"job_manager\.(\w+)", source))
    ours = set(vars(WorkerJobManager))
    # Listening is the connector's; `finish_job` calls `finish_job_by_id_async`.
    assert asked - ours == {"listen_for_jobs", "finish_job", "retry_job"}
    app.perform_import_paths()
    assert [one.name for one in app.tasks.values() if one.retry_strategy] == []


def test_a_worker_whose_own_task_fails_does_not_end_as_if_it_were_asked_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def fail(_: worker.Worker) -> None:
        raise GameMovedError("The local game is elsewhere now.")

    def run_queue(*_: object, **__: object) -> None:
        queue = App(connector=InMemoryConnector())
        asyncio.run(queue.run_worker_async(install_signal_handlers=False))

    monkeypatch.setattr(worker.Worker, "_periodic_deferrer", fail)
    monkeypatch.setattr(command, "_require_game", lambda: None)
    monkeypatch.setattr(command, "_enter_fence", lambda: None)
    monkeypatch.setattr(Command, "_run_queue", run_queue)
    with pytest.raises(CommandError, match="The local game is elsewhere now"):
        Command().handle(command="worker")


def test_pools_try_to_connect_again_without_long_pauses_and_without_an_end() -> None:
    attempt = AttemptWithBackoff(
        timeout=settings.ZOEA_POOL_PATIENCE["reconnect_timeout"]
    )
    now, pauses = 0.0, []
    while not attempt.time_to_give_up(now):
        attempt.update_delay(now)
        now += attempt.delay
        pauses.append(attempt.delay)
    assert max(pauses) <= 5
    given = settings.DATABASES["default"]["OPTIONS"]["pool"]
    # What gives up begins again: `check` lets a pool grow that has lost all.
    pool = Mock(spec=ConnectionPool)
    given["reconnect_failed"](pool)
    pool.check.assert_called_once_with()
