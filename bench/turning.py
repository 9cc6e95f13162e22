"""Takes turns of the pilot in the local game: ``python -m bench.turning``.

A program of its own, as Django is set up once in a process. It writes a line for each
step and the result as JSON in the last one; see ``turns``. One Mysis alone shows where
the time of a turn goes; sixteen at once what one worker process carries; and a whole
fleet at the game's own pace, on two workers as ``up`` starts them, how late turns
begin.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import django
from django.core.management import call_command

from bench.growing import say
from bench.surroundings import ROOT
from zoea.supervise.programs import listen

ALONE, TOGETHER, FLEET = 1, 16, 200
ALONE_TURNS = 60
LENGTHS, LONG_TURNS = (100, 10_000, 1_000_000), 25
TOGETHER_SECONDS = 20.0
WARM_SECONDS, FLEET_SECONDS = 60.0, 60.0
QUICK_TICK, TICK = 1.0, 10.0
# Half orders of the game's size, half answers; all older than what turns add.
LENGTHEN = """
INSERT INTO memory_memory (mysis_id, role, origin, sender, content, reasoning,
  signature, tool_calls, tool_call_id, tool_name, args, is_error, pending, tokens,
  created_at)
SELECT %(mysis)s, CASE WHEN n %% 2 = 0 THEN 'user' ELSE 'assistant' END,
  CASE WHEN n %% 2 = 0 THEN 'human' ELSE 'agent' END, '',
  'line ' || n || ' of a long history: ' || md5(n::text), '', '', '[]', '', '', '{}',
  false, false, 20, now()
FROM generate_series(1, %(rows)s - (
  SELECT count(*) FROM memory_memory WHERE mysis_id = %(mysis)s
)) AS n
"""
DUE = """
SELECT extract(epoch FROM turn.started_at - coalesce(job.scheduled_at, deferred.at))
FROM agents_turn AS turn
JOIN procrastinate_jobs AS job ON job.id = turn.job_id
JOIN procrastinate_events AS deferred
  ON deferred.job_id = job.id AND deferred.type = 'deferred'
WHERE turn.started_at >= %s
"""

Parts = dict[str, float]
_parts: ContextVar[Parts | None] = ContextVar("parts", default=None)


def main() -> None:
    """Fill a database, take turns, write what was measured."""
    from zoea.commandline import database

    with database():
        say("Migrating")
        call_command("migrate", verbosity=0, interactive=False)
        with game(QUICK_TICK):
            watch()
            say("Taking turns one after another")
            found = asyncio.run(quick())
        say(f"Letting {FLEET} Myses fly at {TICK:g} s a tick")
        with game(TICK), worker(), worker():
            found["late"] = fly()
        say(json.dumps(found))


@contextmanager
def game(tick: float) -> Iterator[None]:
    """A local game in a process of its own; this one's settings lead to it."""
    from django.conf import settings

    with listen(0) as free:
        port = free.getsockname()[1]
    settings.SPACEMOLT_MCP_URL = f"http://127.0.0.1:{port}/mcp"
    settings.ZOEA_SECONDS_PER_TICK = tick
    os.environ["SPACEMOLT_MCP_URL"] = settings.SPACEMOLT_MCP_URL
    os.environ["ZOEA_SECONDS_PER_TICK"] = str(tick)
    with running("sandbox", f"--port={port}", f"--tick={tick:g}"):
        yield


@contextmanager
def worker() -> Iterator[None]:
    """A worker as ``manage.py up`` starts it."""
    options = (
        f"--concurrency={TOGETHER}",
        "--fetch-job-polling-interval=1",
        "--delete-jobs=never",
    )
    with running("procrastinate", "worker", *options):
        yield


@contextmanager
def running(*words: str) -> Iterator[None]:
    """A command of ``manage.py``, until the block ends."""
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "manage.py", *words],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        process.terminate()
        process.wait(timeout=30)


# -- where the time goes -----------------------------------------------------------


def watch() -> None:
    """Add up, for the turn that runs, what it waits for the model and the game."""
    from channels.db import DatabaseSyncToAsync

    from agents.game.sessions import GameSession
    from agents.runtime import answers as asking

    seen = vars(asking)
    seen["complete"] = _timed("model", seen["complete"])
    GameSession.call = _timed("game", GameSession.call)  # type: ignore[method-assign]
    crossing = _timed("database", DatabaseSyncToAsync.__call__)
    DatabaseSyncToAsync.__call__ = crossing


def _timed(part: str, work: Callable[..., Awaitable[Any]]) -> Callable[..., Any]:
    async def timed(*args: Any, **kwargs: Any) -> Any:
        begun = time.perf_counter()
        try:
            return await work(*args, **kwargs)
        finally:
            parts = _parts.get()
            if parts is not None:
                parts[part] = parts.get(part, 0.0) + time.perf_counter() - begun
                parts[f"{part} times"] = parts.get(f"{part} times", 0.0) + 1

    return timed


async def quick() -> dict[str, Any]:
    """Turns without any pause between them: of one Mysis, then of sixteen."""
    from asgiref.sync import sync_to_async

    from agents.game.sessions import close_all

    await _answers()
    crossing = await _crossing()
    [alone] = await sync_to_async(made)(ALONE, "Alone")
    single = [await one_turn(alone) for _ in range(ALONE_TURNS)][5:]
    lengths = {}
    for rows in LENGTHS:
        say(f"Taking turns after {rows:,} memories")
        await sync_to_async(lengthen)(alone, rows)
        lengths[rows] = [await one_turn(alone) for _ in range(LONG_TURNS)]
    say("Taking turns of sixteen at once")
    several = await sync_to_async(made)(TOGETHER, "Of many")
    until = time.perf_counter() + TOGETHER_SECONDS
    begun = time.process_time(), time.perf_counter()
    counts = await asyncio.gather(*(_until(until, mysis) for mysis in several))
    seconds = time.perf_counter() - begun[1]
    busy = (time.process_time() - begun[0]) / seconds
    await close_all()
    await sync_to_async(rest)()
    return {
        "crossing": crossing,
        "turns": single,
        "lengths": lengths,
        "per_second": sum(counts) / seconds,
        "busy": busy,
    }


async def _answers() -> None:
    """Wait until the game listens."""
    from agents.game.client import GameCallError, connect

    for _ in range(100):
        try:
            async with connect(os.environ["SPACEMOLT_MCP_URL"]):
                return
        except (GameCallError, BaseExceptionGroup):
            await asyncio.sleep(0.2)
    raise RuntimeError("The local game did not answer.")


async def _crossing() -> float:
    """The median seconds of a way into the database and back that does nothing."""
    from channels.db import database_sync_to_async
    from django.db import connection

    def nothing() -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")

    found = []
    for _ in range(200):
        begun = time.perf_counter()
        await database_sync_to_async(nothing)()
        found.append(time.perf_counter() - begun)
    return statistics.median(found)


async def _until(moment: float, mysis: int) -> int:
    count = 0
    while time.perf_counter() < moment:
        await one_turn(mysis)
        count += 1
    return count


async def one_turn(mysis: int) -> Parts:
    """The turn that is due, however long it was to wait; its seconds by part."""
    from asgiref.sync import sync_to_async

    from agents.models import Mysis
    from agents.runtime.turn import take_turn

    row = await sync_to_async(Mysis.objects.get)(pk=mysis)
    if row.next_job is None:
        row = await sync_to_async(woken)(row)
    parts: Parts = {}
    _parts.set(parts)
    begun = time.perf_counter()
    await take_turn(mysis, job_id=row.next_job or 0, trigger="nudge")
    parts["whole"] = time.perf_counter() - begun
    _parts.set(None)
    return parts


def lengthen(mysis: int, rows: int) -> None:
    """Make a history so long, with a summary that tells what is old, as in a long game."""
    from django.db import connection

    from memory.models import HistorySummary, Memory

    with connection.cursor() as cursor:
        cursor.execute(LENGTHEN, {"mysis": mysis, "rows": rows})
        cursor.execute("ANALYZE memory_memory")
    newest = Memory.objects.filter(mysis=mysis).order_by("-pk").values_list("pk")[0][0]
    HistorySummary.objects.filter(mysis=mysis).delete()
    HistorySummary.objects.create(
        mysis_id=mysis,
        first_id=1,
        through_id=newest,
        generation=1,
        text="Much was done.",
        status=HistorySummary.Status.ACTIVE,
        history_hash="",
    )


def woken(row: Any) -> Any:
    """One that came to rest, set going again."""
    from agents import actions

    return actions.start_mysis(mysis=row, by="bench")


def made(number: int, name: str) -> list[int]:
    """So many running Myses on the pilot."""
    from agents import actions

    found = []
    for place in range(number):
        mysis = actions.create_mysis(name=f"{name} {place}x", by="bench")
        found.append(actions.start_mysis(mysis=mysis, by="bench").pk)
    return found


def rest() -> None:
    """Nobody flies any more."""
    from agents import actions
    from agents.models import Mysis

    for mysis in Mysis.objects.all():
        actions.delete_mysis(mysis=mysis, by="bench")


# -- how late turns begin ----------------------------------------------------------


def fly() -> list[float]:
    """The seconds by which turns of a whole fleet began after they were due."""
    from django.db import connection
    from django.utils import timezone

    made(FLEET, "Flier")
    time.sleep(WARM_SECONDS)
    since = timezone.now()
    say("Measuring how late turns begin")
    time.sleep(FLEET_SECONDS)
    with connection.cursor() as cursor:
        cursor.execute(DUE, [since])
        return sorted(max(0.0, float(late)) for (late,) in cursor.fetchall())


if __name__ == "__main__":
    # Ends by an exception, so that the processes and the database are let go of too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "zoea.settings")
    django.setup()
    main()
