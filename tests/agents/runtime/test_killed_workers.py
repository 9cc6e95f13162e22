"""Workers that die, or only lose the lock by which others know that they live."""

from __future__ import annotations

import asyncio
import itertools
import re
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import pytest
import pytest_asyncio
from django.conf import settings
from django.db import connection
from django.test import Client
from procrastinate import PsycopgConnector
from procrastinate.contrib.django.models import ProcrastinateJob, ProcrastinateWorker
from procrastinate.jobs import Status
from pytest_django import Settings

from agents import actions, process_memory
from agents.events import get_connection_parameters
from agents.management.commands import procrastinate
from agents.management.commands.procrastinate import SILENCE, WorkerJobManager
from agents.models import Mysis, Turn, WorkerLock
from agents.runtime import recovery
from agents.runtime.recovery import LockKeeper
from agents.runtime.turn import take_turn
from sandbox.game.testing import SandboxServer
from tests.agents.runtime.conftest import refreshed
from tests.agents.runtime.logs import assert_paired, in_db, log
from tests.agents.runtime.workers import Workers
from tests.fakes.openai import FakeProvider, Reply, completion
from tests.long_run import few_or_many

KILLS = few_or_many(6, 50)
FLEET, HANDS = 3, 2
PATIENCE = 120.0


def count_workers() -> list[str]:
    """What /metrics says of workers, in whole numbers."""
    text = Client().get("/metrics").content.decode()
    found = re.findall(r'^zoea_workers{state="(.+)"} (\d+)', text, re.MULTILINE)
    return [" ".join(pair) for pair in found]


async def test_the_turn_of_a_killed_worker_is_taken_up_without_a_missing_heartbeat(
    eve: Mysis, provider: FakeProvider, workers: Workers, settings: Settings
):
    """In the middle of a call; its heartbeat would be missed after an hour."""
    settings.METRICS_PUBLIC = True
    gate = provider.arrived.__class__()
    late = Reply(body=completion("Late."), wait=gate)
    provider.answers.extend([late, late])
    first = workers.start()
    assert await asyncio.to_thread(provider.arrived.wait, PATIENCE)
    provider.arrived.clear()
    workers.start()
    workers.kill(first)
    assert await asyncio.to_thread(provider.arrived.wait, PATIENCE)
    turns = Turn.objects.order_by("number").values_list("trigger", "outcome")
    assert await in_db(list)(turns) == [("start", "interrupted"), ("interrupted", None)]
    assert await in_db(WorkerLock.objects.count)() == 1
    assert await in_db(count_workers)() == ["alive 1", "silent 0"]
    assert (await refreshed(eve)).lost_turns == 1
    gate.set()


def test_of_many_killed_workers_no_turn_is_ever_run_by_two(workers: Workers):
    """And everybody flies on."""
    fleet = [
        actions.create_mysis(name=f"Of many {n}x", by="test") for n in range(FLEET)
    ]
    for mysis in fleet:
        actions.start_mysis(mysis=mysis, by="test")
    for _ in range(HANDS):
        workers.start()
    for _ in range(KILLS):
        victim, _ = workers.await_turn()
        workers.kill(victim)
        workers.start()
        # Ten in a row, with never a turn between them, would be the turn's fault.
        Mysis.objects.update(lost_turns=0)
    waiting = {mysis.pk for mysis in fleet}
    while waiting:
        waiting.discard(workers.await_turn()[1])
    for mysis in fleet:
        actions.stop_mysis(mysis=mysis, by="test")
    workers.kill_all()
    assert workers.list_doubles() == []
    assert set(Mysis.objects.values_list("state", "last_error")) == {("stopped", "")}
    interrupted = Turn.objects.filter(outcome=Turn.Outcome.INTERRUPTED)
    assert interrupted.count() >= KILLS / 2
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM procrastinate_jobs")
    recovery.close_left_open()
    for mysis in fleet:
        turns = Turn.objects.filter(mysis=mysis).order_by("number")
        for turn, later in itertools.pairwise(turns):
            assert turn.finished_at is not None
            assert turn.finished_at <= later.started_at
        assert_paired(log(mysis))


# --- Workers that live


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose lock is free is gone a moment later."""
    monkeypatch.setattr(recovery, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(recovery, "FREE_SECONDS", 0.05)


class Looks:
    """The looks for free locks of each worker."""

    def __init__(self) -> None:
        self.ended: defaultdict[int, asyncio.Queue[None]] = defaultdict(asyncio.Queue)

    async def wait(self, number: int, times: int = 2) -> None:
        """Wait for so many whole looks of a worker from now on."""
        ended = self.ended[number]
        # One that has begun already does not count.
        for _ in range(ended.qsize() + 1 + times):
            await asyncio.wait_for(ended.get(), PATIENCE)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Looks:
    found = Looks()
    end_gone = LockKeeper._end_gone

    async def end_and_tell(keeper: LockKeeper, database: Any) -> None:
        await end_gone(keeper, database)
        found.ended[keeper.number].put_nowait(None)

    monkeypatch.setattr(LockKeeper, "_end_gone", end_and_tell)
    return found


@asynccontextmanager
async def present(number: int) -> AsyncIterator[None]:
    keeper = LockKeeper(number)
    await keeper.begin()
    try:
        yield
    finally:
        await keeper.end()


def job_in_hands(mysis: Mysis) -> int:
    """The worker that has taken the next job of a Mysis."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT worker_id FROM procrastinate_register_worker_v1()")
        (number,) = cursor.fetchone()
        cursor.execute(
            "UPDATE procrastinate_jobs SET status = 'doing', worker_id = %s "
            "WHERE id = %s",
            [number, mysis.next_job],
        )
    return int(number)


async def test_a_worker_that_lives_without_its_lock_goes_on_with_no_turn(
    eve: Mysis, provider: FakeProvider, sandbox: SandboxServer, quick: None
):
    """Its turn is over before another begins, and its call is cut short."""
    provider.answers.append(
        Reply(body=completion("Late."), wait=(gate := provider.arrived.__class__()))
    )
    number = await in_db(job_in_hands)(eve)
    await in_db(WorkerLock.objects.create)(number=number)
    turn = asyncio.create_task(
        take_turn(eve.pk, job_id=eve.next_job or 0, trigger="start")
    )
    assert await asyncio.to_thread(provider.arrived.wait, PATIENCE)
    async with present(number + 1):
        await asyncio.wait_for(turn, PATIENCE)
    gate.set()
    assert (await in_db(Turn.objects.get)()).outcome == "interrupted"
    assert await in_db(ProcrastinateJob.objects.filter(status="doing").count)() == 0
    row = await refreshed(eve)
    assert (row.state, row.lost_turns) == ("running", 1)
    assert row.next_job is not None
    assert "Late." not in [memory.content for memory in await in_db(log)(eve)]


def holder() -> int | None:
    """The server's process that holds the lock of a worker."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pid FROM pg_locks JOIN agents_workerlock ON objid = number "
            "WHERE locktype = 'advisory' AND mode = 'ExclusiveLock' AND granted"
        )
        found = cursor.fetchone()
    return found[0] if found else None


def cut_off() -> int | None:
    """Cut the connection of the worker; which process of the server it had."""
    first = holder()
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s)", [first])
    return first


def await_next_holder(first: int | None) -> None:
    """Wait until the worker has locked again."""
    until = time.monotonic() + PATIENCE
    while holder() in (None, first):
        assert time.monotonic() < until, "the lock stays free"
        time.sleep(0.01)


async def test_a_worker_whose_connection_is_cut_is_back_before_it_is_gone(ada: Mysis):
    """A restart of the database takes no turn from anybody."""
    assert recovery.RETRY_SECONDS < recovery.FREE_SECONDS
    number = await in_db(job_in_hands)(ada)
    another = LockKeeper(number + 1)
    parameters = await in_db(get_connection_parameters)()
    async with (
        present(number),
        await psycopg.AsyncConnection.connect(**parameters, autocommit=True) as looks,
    ):
        first = await in_db(cut_off)()
        # The first look may find the lock free, the next one does not.
        await another._end_gone(looks)
        await in_db(await_next_holder)(first)
        await another._end_gone(looks)
    assert await in_db(ProcrastinateJob.objects.filter(status="doing").count)() == 1


async def test_a_worker_that_cleans_up_after_another_still_regains_its_own_lock(
    ada: Mysis, quick: None, monkeypatch: pytest.MonkeyPatch
):
    begun, gate = asyncio.Event(), asyncio.Event()

    async def clean_up_for_long() -> None:
        begun.set()
        await gate.wait()

    monkeypatch.setattr(recovery, "_try_to_reconcile", clean_up_for_long)
    number = await in_db(job_in_hands)(ada)
    await in_db(WorkerLock.objects.create)(number=number + 1)
    async with present(number):
        await asyncio.wait_for(begun.wait(), PATIENCE)
        await in_db(await_next_holder)(await in_db(cut_off)())
    gate.set()


async def test_a_worker_that_was_without_a_lock_for_too_long_tries_less_often(
    monkeypatch: pytest.MonkeyPatch,
):
    pauses: list[float] = []
    really_sleep = asyncio.sleep

    async def sleep(seconds: float) -> None:
        task = asyncio.current_task()
        # Servers of the tests sleep too, each in a loop of a thread of its own.
        if task is None or task.get_name() != "lock keeper":
            await really_sleep(seconds)
            return
        pauses.append(seconds)
        if len(pauses) == 14:
            raise asyncio.CancelledError

    async def refuse(*_: Any) -> None:
        raise psycopg.OperationalError("The database starts up.")

    monkeypatch.setattr(LockKeeper, "_hold_and_look", refuse)
    monkeypatch.setattr(asyncio, "sleep", sleep)
    keeper = LockKeeper(1)
    await keeper.begin()
    await keeper.end()
    in_time, late = pauses[:6], pauses[6:]
    assert in_time == pytest.approx([0.2] * 6)
    assert late == pytest.approx([0.2, 0.4, 0.8, 1.6, 3.2, 5, 5, 5])


async def test_a_worker_that_is_back_in_the_last_moment_keeps_its_jobs(ada: Mysis):
    number = await in_db(job_in_hands)(ada)
    parameters = await in_db(get_connection_parameters)()
    async with await psycopg.AsyncConnection.connect(
        **parameters, autocommit=True
    ) as other:
        async with present(number):
            assert await recovery._end_worker(other, number) == []
        assert await in_db(WorkerLock.objects.filter(pk=number).exists)()
        assert await in_db(count_queue_rows)(number) == 1
        # The server frees it soon after its connection is closed: whoever waits, gets it.
        await other.execute(recovery.HOLD_LOCK, [number])
        assert await recovery._end_worker(other, number) == [ada.next_job]
        assert await in_db(count_queue_rows)(number) == 0
        assert await recovery._end_worker(other, number) == [], "one ends its jobs"


def test_a_worker_that_falls_silent_in_a_transaction_keeps_no_mysis_from_others(
    ada: Mysis, monkeypatch: pytest.MonkeyPatch
):
    """Its machine is gone, and the network tells nobody."""
    options = dict(connection.settings_dict["OPTIONS"])
    monkeypatch.setitem(connection.settings_dict, "OPTIONS", options)
    lock = f"SELECT FROM agents_mysis WHERE id = {ada.pk} FOR UPDATE"
    at_once = SILENCE[0].replace("20s", "50ms"), *SILENCE[1:]
    monkeypatch.setattr(procrastinate, "SILENCE", at_once)
    procrastinate.bound_silence()
    with psycopg.connect(**get_connection_parameters(), autocommit=True) as silent:
        # In one message: between two of them a busy client would be silent as well.
        silent.execute(f"BEGIN; {lock}".encode())
        with connection.cursor() as cursor:
            cursor.execute("SET statement_timeout = '60s'")
            cursor.execute(lock)
            cursor.execute("RESET statement_timeout")
        with pytest.raises(psycopg.errors.IdleInTransactionSessionTimeout):
            silent.execute("SELECT 1")
        silent.close()


def test_a_worker_bounds_its_silence_before_it_connects(
    monkeypatch: pytest.MonkeyPatch,
):
    """The pool copies what it connects with when it is made."""
    options = {
        k: v for k, v in connection.settings_dict["OPTIONS"].items() if k != "options"
    }
    monkeypatch.setitem(connection.settings_dict, "OPTIONS", options)
    bounded: list[bool] = []
    monkeypatch.setattr(procrastinate, "_require_game", lambda: None)
    monkeypatch.setattr(
        procrastinate,
        "_enter_fence",
        lambda: bounded.append(SILENCE[0] in str(options.get("options"))),
    )
    monkeypatch.setattr(procrastinate.Command, "_run_queue", lambda *_, **__: None)
    procrastinate.Command().handle(command="worker")
    assert bounded == [True]


async def test_a_worker_without_a_lock_is_gone_when_its_heartbeat_stops(
    ada: Mysis, quick: None, looks: Looks
):
    """As one of the former version, or behind a pooler."""
    number = await in_db(job_in_hands)(ada)
    doing = ProcrastinateJob.objects.filter(status="doing")
    async with present(number + 1):
        await looks.wait(number + 1)
        await recovery.reconcile()
    assert await in_db(doing.count)() == 1
    await in_db(stop_heartbeat)(number)
    await recovery.reconcile()
    assert await in_db(doing.count)() == 0
    assert (await refreshed(ada)).next_job not in (None, ada.next_job)


async def test_a_starved_worker_that_holds_its_lock_keeps_its_jobs_for_longer(
    ada: Mysis, looks: Looks
):
    """Only where the network hides its death is it gone in the end."""
    number = await in_db(job_in_hands)(ada)
    doing = ProcrastinateJob.objects.filter(status="doing")
    async with present(number):
        await looks.wait(number)
        await in_db(stop_heartbeat)(number)
        await recovery.reconcile()
        assert await in_db(doing.count)() == 1
        await in_db(stop_heartbeat)(number, recovery.STARVED_SECONDS)
        await recovery.reconcile()
        assert await in_db(doing.count)() == 0
        assert await in_db(count_queue_rows)(number) == 1
        await in_db(stop_heartbeat)(number, settings.ZOEA_STALLED_SECONDS)
        await recovery.reconcile()
    assert await in_db(count_queue_rows)(number) == 0


@pytest.fixture
def told() -> list[str]:
    """Each time that a worker is told to look for its next job."""
    return []


@pytest_asyncio.fixture
async def manager(
    transactional_db: None, told: list[str]
) -> AsyncIterator[WorkerJobManager]:
    """A worker's way to the queue."""
    connector = PsycopgConnector(kwargs=await in_db(get_connection_parameters)())
    await connector.open_async()
    yield WorkerJobManager(connector, lambda: told.append("look"))
    await connector.close_async()


async def test_a_worker_behind_a_pooler_has_no_lock(
    manager: WorkerJobManager, settings: Settings, monkeypatch: pytest.MonkeyPatch
):
    """It would stay with a connection of the pooler, also after the worker's death."""
    settings.ZOEA_PGBOUNCER = True
    monkeypatch.setattr(process_memory, "freeze_loaded", lambda: None)
    number = await manager.register_worker()
    assert await in_db(count_queue_rows)(number) == 1
    assert await in_db(WorkerLock.objects.count)() == 0
    await manager.unregister_worker(number)
    assert await in_db(count_queue_rows)(number) == 0


@pytest.mark.parametrize("first", ["heartbeat", "job"])
async def test_a_worker_that_was_taken_for_dead_is_entered_again_and_goes_on(
    first: str, ada: Mysis, manager: WorkerJobManager, looks: Looks, quick: None
):
    """It stalled: the queue's own worker would end with its next job."""
    number = await in_db(job_in_hands)(ada)
    await in_db(WorkerLock.objects.create)(number=number)
    async with present(number + 1):
        await looks.wait(number + 1)
    assert await in_db(count_queue_rows)(number) == 0
    await recovery.reconcile()
    if first == "heartbeat":
        await manager.update_heartbeat(number)
    else:
        assert await manager.fetch_job(None, number) is None
    assert await in_db(count_queue_rows)(number) == 1
    job = await manager.fetch_job(None, number)
    assert job is not None
    assert (job.id, job.worker_id) == ((await refreshed(ada)).next_job, number)


async def test_a_worker_whose_job_was_taken_up_says_so_in_one_line(
    ada: Mysis,
    manager: WorkerJobManager,
    told: list[str],
    caplog: pytest.LogCaptureFixture,
):
    number = await in_db(job_in_hands)(ada)
    await in_db(stop_heartbeat)(number)
    await recovery.reconcile()
    await manager.finish_job_by_id_async(
        job_id=ada.next_job, status=Status.SUCCEEDED, delete_job=True
    )
    assert told == ["look"]
    [line] = [one for one in caplog.records if "taken up meanwhile" in one.message]
    assert line.exc_info is None


def count_queue_rows(number: int) -> int:
    return ProcrastinateWorker.objects.filter(pk=number).count()


def stop_heartbeat(number: int, seconds: float = recovery.STALLED_SECONDS) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE procrastinate_workers SET last_heartbeat = now() - %s * "
            "interval '1 second' WHERE id = %s",
            [seconds + 1, number],
        )
