"""``manage.py procrastinate``: the queue's own command, with a worker that knows the time.

PostgreSQL tells a worker of a job when it is made, and of nothing when it is due: so the
queue would have to be asked all the time for turns that wait for a tick.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import sys
import time
from collections.abc import (
    Awaitable,
    Callable,
    Iterable,
    Sequence,
)
from contextlib import suppress
from functools import partial
from typing import Any, TextIO, TypeVar, cast

import psutil
import psycopg
from django.conf import settings
from django.core.management.base import CommandError
from django.db import InterfaceError, OperationalError, ProgrammingError, connections
from procrastinate import JobContext, PsycopgConnector, cli
from procrastinate.connector import BaseConnector, Notify
from procrastinate.contrib.django import app
from procrastinate.contrib.django.management.commands import procrastinate
from procrastinate.contrib.django.utils import connector_params
from procrastinate.exceptions import ConnectorException
from procrastinate.jobs import Job
from procrastinate.manager import JobManager
from procrastinate.worker import Worker
from psycopg_pool import AsyncConnectionPool

from agents import db, fence, process_memory
from agents.db import run_in_db
from agents.game.local import read_running_game, speaks_mcp
from agents.llm.complete import load_wire
from agents.llm.endpoints import list_providers
from agents.runtime.recovery import GRACE_SECONDS, LEAVE_LOCK, LockKeeper
from agents.telemetry import telemetry

T = TypeVar("T")

logger = logging.getLogger(__name__)

# Seconds. No other process tells that a lock has become free, for which a due job may
# wait.
BLOCKED = 0.5
# How long the queue is left alone while nothing is told: a notification may be lost.
REST = 5.0
# So many seconds after the moment, by another clock than ours, a job is surely due.
MARGIN = 0.002
# As long as a call of a model may take. A turn that lasts longer is cut, and taken up by
# another worker, so that one long turn does not keep all others waiting.
LAST_TURNS_SECONDS = 300.0

# Pauses between two tries while the database is away.
SHORTEST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
# Seconds for which a worker that ends waits for its database, to take its leave.
LEAVE_SECONDS = 1.0

# How long the server bears silence: in a transaction, and of the network.
SILENCE = (
    "idle_in_transaction_session_timeout=20s",
    "tcp_keepalives_idle=5",
    "tcp_keepalives_interval=5",
    "tcp_keepalives_count=3",
    "tcp_user_timeout=20s",
)

# By the partial index on jobs that are to be done.
NEXT_DUE = """
SELECT bool_or(scheduled_at IS NULL OR scheduled_at <= now()) AS due,
  extract(epoch FROM min(scheduled_at) FILTER (WHERE scheduled_at > now()) - now())::float
    AS seconds
FROM procrastinate_jobs
WHERE status = 'todo' AND (%(queues)s::text[] IS NULL OR queue_name = ANY(%(queues)s))
"""
# Enters a worker again that others took for dead, as it stalled.
REENTER_WORKER = """
INSERT INTO procrastinate_workers (id) OVERRIDING SYSTEM VALUE VALUES (%(number)s)
ON CONFLICT (id) DO UPDATE SET last_heartbeat = now()
"""
DUE = json.dumps({"type": "job_inserted", "job_id": 0})


class PatientPool(AsyncConnectionPool[Any]):
    """Opens also while the database is away: who asks for a connection waits."""

    async def open(self, *_: Any, **__: Any) -> None:
        await super().open()


class PunctualConnector(PsycopgConnector):
    """Tells the worker of each job when it is due, not when it is made."""

    def __init__(self, **options: Any) -> None:
        super().__init__(
            pool_factory=PatientPool, **settings.ZOEA_POOL_PATIENCE, **options
        )
        self._made = asyncio.Event()

    async def listen_notify(
        self, on_notification: Notify, channels: Iterable[str]
    ) -> None:
        """Listen until cancelled; all else that the queue tells is passed on."""
        names = list(channels)

        async def hear(*, channel: str, payload: str) -> None:
            if json.loads(payload)["type"] == "job_inserted":
                self._made.set()
            else:
                await on_notification(channel=channel, payload=payload)

        listen = partial(super().listen_notify, hear, names)
        tell = self._tell_when_due(on_notification, names)
        async with asyncio.TaskGroup() as group:
            # LISTEN does not last behind a pooler.
            if not settings.ZOEA_PGBOUNCER:
                group.create_task(outlast(listen))
            group.create_task(tell)

    def look_again(self) -> None:
        """Tell the worker of what is due now, though nothing was queued."""
        self._made.set()

    async def _loop_notify(self, *args: Any, **options: Any) -> None:
        # Of what was queued before it listened, at first and after a lost connection,
        # nothing was told.
        self.look_again()
        await super()._loop_notify(*args, **options)

    async def _tell_when_due(self, tell: Notify, channels: Sequence[str]) -> None:
        # The channel of all queues names none.
        queues = [name.partition("#")[2] for name in channels if "#" in name] or None
        while True:
            self._made.clear()
            row = await outlast(
                partial(self.execute_query_one_async, NEXT_DUE, queues=queues)
            )
            rest = BLOCKED if row["due"] else REST
            if row["due"]:
                await tell(channel=channels[0], payload=DUE)
            if row["seconds"] is not None:
                rest = min(rest, row["seconds"] + MARGIN)
            with suppress(TimeoutError):
                async with asyncio.timeout(rest):
                    await self._made.wait()


def _require_game() -> None:
    """Refuse where no game is named and none answers; raises CommandError."""
    url = settings.SPACEMOLT_MCP_URL
    if not settings.ZOEA_GAME_NAMED and not speaks_mcp(url):
        raise CommandError(
            f"No local game runs at {url}: start one with `manage.py up` on this data "
            "folder, or set SPACEMOLT_MCP_URL.",
            returncode=2,
        )


def _enter_fence() -> None:
    """Refuse where the database is not this worker's; raises CommandError."""

    async def enter() -> str:
        return await outlast(partial(run_in_db, fence.enter))

    try:
        if said := asyncio.run(enter()):
            logger.warning(said)
    except fence.FenceError as error:
        raise CommandError(str(error), returncode=2) from error
    except ProgrammingError as error:
        raise CommandError(
            "The tables of this database are not those of this version: run `manage.py "
            "migrate` first, as `up` does by itself.",
            returncode=2,
        ) from error


def _refuse_moved_game() -> None:
    """Raise GameMovedError where `up` has begun anew, with a game elsewhere."""
    if settings.ZOEA_GAME_NAMED:
        return
    game, _ = read_running_game(settings.ZOEA_DATA)
    if game not in ("", settings.SPACEMOLT_MCP_URL):
        raise GameMovedError(
            f"The local game is at {game} now: start this worker again."
        )


def _load_wires() -> None:
    """Load what calls all providers that are known now, before it is frozen."""
    for provider in list_providers():
        load_wire(provider.kind)


class GameMovedError(Exception):
    """The local game of this worker is gone, and another one runs."""


class MemoryLimit:
    """Ends a worker between turns once its process has more than ZOEA_WORKER_MEMORY_MB."""

    def __init__(self) -> None:
        self.is_reached = False
        self._jobs = 0
        self._end: Callable[[], object] | None = None

    async def run_job(
        self, run: Callable[[], Awaitable[T]], _: JobContext, worker: Worker
    ) -> T:
        """Count a job while it runs: a middleware of the worker."""
        self._end = worker.stop
        self._jobs += 1
        try:
            return await run()
        finally:
            self._jobs -= 1

    def ends_worker(self) -> bool:
        """Whether no job may be taken any more; without one in hand the worker ends.

        A worker runs at least one job, so turns go on under any limit.
        """
        if self._end is None:
            return False
        if not self.is_reached and self._is_exceeded():
            self.is_reached = True
            loop = asyncio.get_running_loop()
            loop.call_later(LAST_TURNS_SECONDS, self._end)
        if self.is_reached and not self._jobs:
            self._end()
        return self.is_reached

    def _is_exceeded(self) -> bool:
        most: int = settings.ZOEA_WORKER_MEMORY_MB
        used = psutil.Process().memory_info().rss // 1_000_000
        if not most or used <= most:
            return False
        logger.warning(
            "This worker has %d MB, more than ZOEA_WORKER_MEMORY_MB (%d): it finishes "
            "its turns and ends, so that another takes its place.",
            used,
            most,
        )
        return True


class WorkerJobManager(JobManager):
    """The queue's own, which knows when a worker begins and ends, and outlasts a lost database.

    The queue's own worker ends when a single statement fails, and so everything that it
    calls waits for the database, but for what it tries again by itself.
    """

    def __init__(
        self, connector: BaseConnector, look_again: Callable[[], None]
    ) -> None:
        super().__init__(connector)
        self._look_again = look_again
        self.memory_limit = MemoryLimit()
        self._keepers: dict[int, LockKeeper] = {}

    async def prune_stalled_workers(self, seconds_since_heartbeat: float) -> list[int]:
        """The first statement of a worker."""
        prune = super().prune_stalled_workers
        return await outlast(partial(prune, seconds_since_heartbeat))

    async def register_worker(self) -> int:
        """Have the lock before the first job."""
        number = await outlast(super().register_worker)
        if not settings.ZOEA_PGBOUNCER:
            self._keepers[number] = keeper = LockKeeper(number)
            await keeper.begin()
        await outlast(partial(run_in_db, _load_wires))
        process_memory.freeze_loaded()
        return number

    async def defer_periodic_job(self, *args: Any, **options: Any) -> int | None:
        """Queue what comes again and again; nothing is queued twice."""
        return await outlast(partial(super().defer_periodic_job, *args, **options))

    async def list_jobs_to_abort_async(self, queue: str | None = None) -> Iterable[int]:
        """Those that somebody asked to end."""
        return await outlast(partial(super().list_jobs_to_abort_async, queue))

    async def fetch_job(
        self, queues: Iterable[str] | None, worker_id: int
    ) -> Job | None:
        """Take the next job; none while the database is away, or for want of memory."""
        if self.memory_limit.ends_worker():
            return None
        try:
            return await super().fetch_job(queues, worker_id)
        except ConnectorException as error:
            if isinstance(error.__cause__, psycopg.errors.ForeignKeyViolation):
                logger.warning("Worker %s was taken for dead.", worker_id)
                await self.update_heartbeat(worker_id)
                self._look_again()
                return None
            _raise_unless_lost(error)
            # Who listens looks again as soon as it is back.
            await asyncio.sleep(SHORTEST_PAUSE)
            return None

    async def update_heartbeat(self, worker_id: int) -> None:
        """Send a heartbeat; the next comes soon where this one fails."""
        try:
            await self.connector.execute_query_async(REENTER_WORKER, number=worker_id)
        except ConnectorException as error:
            _raise_unless_lost(error)
        await asyncio.to_thread(_refuse_moved_game)

    async def finish_job_by_id_async(self, *args: Any, **options: Any) -> None:
        """Look for the next job too: PostgreSQL does not tell that this one's lock is free."""
        finish = partial(super().finish_job_by_id_async, *args, **options)
        try:
            # After that it counts as forgotten, and is found.
            await outlast(finish, seconds=GRACE_SECONDS)
        except ConnectorException as error:
            # Taken up by another worker, which took this one for dead.
            if not isinstance(error.__cause__, psycopg.errors.RaiseException):
                raise
            logger.warning("Job %s was taken up meanwhile.", options.get("job_id"))
        self._look_again()

    async def unregister_worker(self, worker_id: int) -> None:
        """End in order: there is nothing to take up.

        Without a database others find out by themselves, as of one that was killed.
        """
        if keeper := self._keepers.pop(worker_id, None):
            await keeper.end()
        try:
            async with asyncio.timeout(LEAVE_SECONDS):
                await self.connector.execute_query_async(LEAVE_LOCK, number=worker_id)
                await super().unregister_worker(worker_id)
        except TimeoutError:
            logger.warning("Worker %s ends without its database.", worker_id)
        except ConnectorException as error:
            _raise_unless_lost(error)


async def outlast(work: Callable[[], Awaitable[T]], *, seconds: float = math.inf) -> T:
    """Do it again while the database is away, for so many seconds."""
    tries, since = 0, time.monotonic()
    while True:
        begun = time.monotonic()
        try:
            return await work()
        except (ConnectorException, OperationalError, InterfaceError) as error:
            _raise_unless_lost(error)
            now = time.monotonic()
            if now - since > seconds:
                raise
            # What went well for long begins anew.
            tries = 1 if now - begun > LONGEST_PAUSE else tries + 1
            if tries == 1:
                logger.warning("The queue lost the database: %s", error.__cause__)
        await asyncio.sleep(min(SHORTEST_PAUSE * 2.0**tries, LONGEST_PAUSE))


def _raise_unless_lost(error: Exception) -> None:
    """Raise what is no matter of connection or room: to try again cannot help."""
    if not isinstance(
        error.__cause__, (psycopg.OperationalError, psycopg.InterfaceError)
    ):
        raise error


class SideTaskFailures(logging.Handler):
    """Knows whether the queue's worker ends because one of its own tasks failed.

    It tells only the log, and ends as if it had been asked to.
    """

    text = ""

    def emit(self, record: logging.LogRecord) -> None:
        """Keep what it says."""
        if getattr(record, "action", "") in {
            "side_task_failed",
            "side_task_monitor_failed",
        }:
            self.text = record.getMessage()


def bound_silence() -> None:
    """Have the server end sessions of this process that stay silent in a transaction.

    Their locks would keep a Mysis from everybody for as long as the network keeps to
    itself that this machine is gone.
    """
    database = connections["default"].settings_dict
    # A pooler refuses what it does not know.
    if not settings.ZOEA_PGBOUNCER:
        words = " ".join(f"-c {each}" for each in SILENCE)
        database["OPTIONS"].setdefault("options", words)


class TolerantStream:
    """Standard error that loses what the disk of the log has no room for."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write it if there is room."""
        with suppress(OSError):
            self._stream.write(text)
            self._stream.flush()
        return len(text)

    def flush(self) -> None:
        """Nothing is kept back."""


def _log_words(*words: object) -> None:
    """What the queue's own command says, as a line of the log."""
    logger.info("%s", " ".join(map(str, words)))


class Command(procrastinate.Command):
    """Runs workers with it; no check of pages, which a worker does not load."""

    requires_system_checks = ["zoea"]

    def handle(self, *args: Any, **options: Any) -> None:
        # Before the first connection: the pool copies what it connects with.
        bound_silence()
        if options["command"] == "worker":
            self._work(*args, **options)
        else:
            self._run_queue(*args, **options)

    def _work(self, *args: Any, **options: Any) -> None:
        """Work until this process is told to end."""
        _require_game()
        _enter_fence()
        failures = SideTaskFailures()
        logging.getLogger("procrastinate").addHandler(failures)
        self._run_queue(*args, **options)
        if failures.text:
            raise CommandError(failures.text)

    def _run_queue(self, *args: Any, **options: Any) -> None:
        db.keeps_connections.set()
        telemetry.start("worker")
        if settings.ZOEA_LOG_FORMAT == "json":
            cli.print_stderr = _log_words
        # A line of the log is no reason not to work.
        sys.stderr = cast(TextIO, TolerantStream(sys.stderr))
        # Of its four connections one is kept while nothing is to be done. Who waits for
        # one looks after some seconds whether the worker is to end.
        connector = PunctualConnector(
            kwargs=connector_params(), min_size=1, max_size=4, max_idle=30, timeout=5
        )
        with app.replace_connector(connector) as queue:
            manager = WorkerJobManager(connector, connector.look_again)
            queue.job_manager = manager
            if options["command"] == "worker":
                options["worker_middleware"] = [manager.memory_limit.run_job]
            super().handle(*args, app=app, **options)
        if manager.memory_limit.is_reached:
            # Its supervisor starts another as after any failure.
            sys.exit(1)
