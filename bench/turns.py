"""What a turn costs beside model and game, and how many a worker carries.

The pilot takes the turns in a local game. One Mysis alone shows where the time of a turn
goes; sixteen at once what one worker process carries; and
a whole fleet at the game's own pace, on two workers as ``up`` starts them, how late
turns begin.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import statistics
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import connection
from django.db.backends.postgresql.base import DatabaseWrapper
from django.db.backends.utils import CursorWrapper
from django.utils import timezone

from agents import actions, db
from agents.game.client import GameCallError, connect
from agents.game.sessions import GameSession, get_pool
from agents.models import Mysis
from agents.runtime import answers
from agents.runtime.turn import take_turn
from bench.figures import Aim, Figure, Found, Step, find_figures, percentile
from bench.fleet import delete_myses, run_fleet, start_myses, wait_for_turns
from bench.processes import database_url, migrated_database

TOGETHER, FLEET = 16, 200
ALONE_TURNS, WARM_TURNS = 60, 5
TOGETHER_SECONDS = 20.0
FLEET_SECONDS = 60.0
QUICK_TICK, TICK = 0.25, 10.0
OVERHEAD_TARGET = 0.025
LATE_TARGET = 0.3
DUE = """
SELECT extract(epoch FROM turn.started_at - coalesce(job.scheduled_at, deferred.at))
FROM agents_turn AS turn
JOIN procrastinate_jobs AS job ON job.id = turn.job_id
JOIN procrastinate_events AS deferred
  ON deferred.job_id = job.id AND deferred.type = 'deferred'
WHERE turn.started_at >= %s
"""

WRITES = re.compile(r"\b(INSERT INTO|DELETE FROM|UPDATE\s+\S+\s+SET)\b")
Parts = dict[str, float]
"""Seconds of a turn by part, how often each part was called, and its statements."""
_parts: ContextVar[Parts | None] = ContextVar("parts", default=None)


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--myses", type=int, default=FLEET, help="that fly at once")
    parser.add_argument(
        "--seconds", type=float, default=FLEET_SECONDS, help="for which they fly then"
    )


def measure(options: argparse.Namespace, step: Step) -> Found:
    with migrated_database(step):
        with run_local_fleet(QUICK_TICK):
            time_waits()
            step("Taking turns one after another")
            found = asyncio.run(take_quick_turns(step))
        step(f"Letting {options.myses} Myses fly at {TICK:g} s a tick")
        with run_local_fleet(TICK, workers=2):
            found["late"] = measure_lateness(options, step)
    return find_figures("Turns", turn_figures(found, options.myses), "turns")


@contextmanager
def run_local_fleet(tick: float, workers: int = 0) -> Iterator[None]:
    """A local game, and workers on the database of this process."""
    there = {"DATABASE_URL": database_url()}
    with run_fleet(settings.ZOEA_DATA, tick=tick, environment=there) as fleet:
        fleet.start_game()
        for number in range(workers):
            # What a turn was due at stands in its job.
            options = (f"--concurrency={TOGETHER}", "--delete-jobs=never")
            fleet.begin(f"worker-{number}", fleet.make_worker(options=options))
        yield


# --- Where the time goes


def time_waits() -> None:
    """Let every turn add up what it waits for model, game and database."""
    db.keeps_connections.set()
    names = vars(answers)
    names["complete"] = _timed("model", names["complete"])
    GameSession.call = _timed("game", GameSession.call)  # type: ignore[method-assign]
    vars(db)["wait_for_step"] = _timed("database", db.wait_for_step)
    for owner, name, count in COUNTED:
        setattr(owner, name, count(getattr(owner, name)))


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


def count_statements(execute: Callable[..., Any]) -> Callable[..., Any]:
    """Count what a turn executes; what it writes by itself is a transaction too."""

    def counted(cursor: Any, sql: Any, *args: Any, **kwargs: Any) -> Any:
        _count("statements")
        if not cursor.db.in_atomic_block and WRITES.search(str(sql)):
            _count("transactions")
        return execute(cursor, sql, *args, **kwargs)

    return counted


def count_commits(commit: Callable[..., Any]) -> Callable[..., Any]:
    def counted(*args: Any) -> Any:
        _count("transactions")
        return commit(*args)

    return counted


# Where what is counted passes: the class, its method, and what counts its calls.
COUNTED: Sequence[tuple[Any, str, Callable[..., Any]]] = (
    (CursorWrapper, "execute", count_statements),
    (DatabaseWrapper, "_commit", count_commits),
)


def _count(what: str) -> None:
    parts = _parts.get()
    if parts is not None:
        parts[what] = parts.get(what, 0.0) + 1


@contextmanager
def measured_parts() -> Iterator[Parts]:
    """The seconds and the counts of what is done in the block, by part."""
    parts: Parts = {}
    token = _parts.set(parts)
    try:
        yield parts
    finally:
        _parts.reset(token)


async def take_quick_turns(step: Step) -> dict[str, Any]:
    """Turns without any pause between them: of one Mysis, then of sixteen."""
    await wait_for_game()
    crossing = await _measure_crossing()
    [alone] = await sync_to_async(start_myses)(1, "Alone")
    single = [await time_turn(alone) for _ in range(ALONE_TURNS)][WARM_TURNS:]
    step("Taking turns of sixteen at once")
    several = await sync_to_async(start_myses)(TOGETHER, "Of many")
    # First they come into the game: a session, an account, the way to a belt.
    await asyncio.gather(*(_take_turns(WARM_TURNS, mysis) for mysis in several))
    until = time.perf_counter() + TOGETHER_SECONDS
    begun = time.process_time(), time.perf_counter()
    counts = await asyncio.gather(*(_count_turns(until, mysis) for mysis in several))
    seconds = time.perf_counter() - begun[1]
    busy = (time.process_time() - begun[0]) / seconds
    await get_pool().close()
    await sync_to_async(delete_myses)()
    return {
        "crossing": crossing,
        "turns": single,
        "per_second": sum(counts) / seconds,
        "busy": busy,
    }


async def wait_for_game() -> None:
    """Wait until the local game answers; raises RuntimeError where it does not."""
    for _ in range(100):
        try:
            async with connect(settings.SPACEMOLT_MCP_URL):
                return
        except (GameCallError, BaseExceptionGroup):
            await asyncio.sleep(0.2)
    raise RuntimeError("The local game did not answer.")


async def _measure_crossing() -> float:
    """The median seconds of a way into the database and back that does nothing."""

    def nothing() -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")

    found = []
    for _ in range(200):
        begun = time.perf_counter()
        await db.run_in_db(nothing)
        found.append(time.perf_counter() - begun)
    return statistics.median(found)


async def _take_turns(count: int, mysis: int) -> None:
    for _ in range(count):
        await time_turn(mysis)


async def _count_turns(until: float, mysis: int) -> int:
    count = 0
    while time.perf_counter() < until:
        await time_turn(mysis)
        count += 1
    return count


async def time_turn(mysis: int) -> Parts:
    """Take the next turn at once, however long it was to wait; its seconds by part."""
    row = await sync_to_async(Mysis.objects.get)(pk=mysis)
    if row.next_job is None:
        row = await sync_to_async(actions.start_mysis)(mysis=row, by="bench")
    with measured_parts() as parts:
        begun = time.perf_counter()
        await take_turn(mysis, job_id=row.next_job or 0, trigger="nudge")
        parts["whole"] = time.perf_counter() - begun
    return parts


# --- How late turns begin


def measure_lateness(options: argparse.Namespace, step: Step) -> list[float]:
    """The sorted seconds by which turns of a whole fleet began after they were due."""
    wait_for_turns(start_myses(options.myses, "Flier"), turns=2)
    since = timezone.now()
    step("Measuring how late turns begin")
    time.sleep(options.seconds)
    with connection.cursor() as cursor:
        cursor.execute(DUE, [since])
        return sorted(max(0.0, float(late)) for (late,) in cursor.fetchall())


# --- Figures


def turn_figures(found: Mapping[str, Any], myses: int) -> list[Figure]:
    return [
        _overhead(found["turns"], found["crossing"]),
        *_counts(found["turns"]),
        Figure(
            "turns of one worker process",
            found["per_second"],
            "/s",
            baseline=1 / statistics.median(turn["whole"] for turn in found["turns"]),
            baseline_is="one Mysis alone, turn after turn",
            note=f"16 at once, {found['busy']:.0%} of one core",
        ),
        _lateness(found["late"], myses),
    ]


def measure_overhead(turn: Mapping[str, float]) -> float:
    """The seconds of a turn in which neither model nor game was waited for."""
    return turn["whole"] - turn.get("model", 0.0) - turn.get("game", 0.0)


def _overhead(turns: Sequence[Mapping[str, float]], crossing: float) -> Figure:
    def median(part: str) -> float:
        return statistics.median(turn.get(part, 0.0) for turn in turns)

    ways = median("database times")
    return Figure(
        "a turn beside model and game (median)",
        statistics.median(map(measure_overhead, turns)) * 1000,
        "ms",
        baseline=ways * crossing * 1000,
        baseline_is=f"as many empty ways into the database ({ways:.0f})",
        target=OVERHEAD_TARGET * 1000,
        note=f"{median('model times'):.0f} model calls, "
        f"{median('game times'):.0f} game calls",
    )


def _counts(turns: Sequence[Mapping[str, float]]) -> list[Figure]:
    """What the turns of two model calls and two game calls ask of the database."""
    usual = [t for t in turns if t["model times"] == 2 and t.get("game times") == 2]
    targets = {"statements": 45, "transactions": 8}
    return [
        Figure(
            f"{what} of a turn (median)",
            statistics.median(turn[what] for turn in usual or turns),
            "",
            baseline=target,
            baseline_is="the most that are wanted",
            target=target,
            aim=Aim.AT_MOST,
            note=f"{len(usual)} turns of 2 model calls and 2 game calls",
        )
        for what, target in targets.items()
    ]


def _lateness(late: Sequence[float], myses: int) -> Figure:
    if not late:
        raise RuntimeError("No turn of the whole fleet began.")
    return Figure(
        "begin of a turn after it was due (p95)",
        percentile(late, 0.95) * 1000,
        "ms",
        baseline=statistics.median(late) * 1000,
        baseline_is="the median of the same run",
        target=LATE_TARGET * 1000,
        note=f"{myses} Myses, 10 s ticks, two workers, {len(late)} turns",
    )
