"""Keeps programs running: a dead one is started again, with back-off."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NoReturn

from .program import Program, stop


class GaveUpError(Exception):
    """A program keeps dying; one line that says which and what it wrote last."""


@dataclass(frozen=True)
class BackOff:
    """How a dead program is started again.

    The first time after ``first`` seconds, then after twice as long each time up
    to ``longest``. Who dies within ``quick`` seconds of its start ``attempts``
    times in a row is given up; a longer life forgives what was before.
    """

    first: float = 0.5
    longest: float = 30.0
    quick: float = 10.0
    attempts: int = 5

    def delay(self, deaths: int) -> float:
        """Return the seconds to wait after this many quick deaths in a row."""
        return float(min(self.first * 2 ** max(0, deaths - 1), self.longest))


async def keep_running(
    program: Program,
    say: Callable[[str], None],
    patience: float,
    back_off: BackOff | None = None,
    running: asyncio.subprocess.Process | None = None,
) -> NoReturn:
    """Run the program again and again until cancelled; it is then ended.

    ``patience`` is how many seconds it gets to end by itself, ``running`` the
    process of a program that was started before. Raises GaveUpError.
    """
    back_off = back_off or BackOff()
    deaths = 0
    while True:
        begun, place = time.monotonic(), program.log_size()
        process, running = running or await program.start(), None
        try:
            status = await process.wait()
        finally:
            # Cancelled, or dead and perhaps outlived by what it started.
            await stop(process, patience)
        lived = time.monotonic() - begun
        deaths = deaths + 1 if lived < back_off.quick else 1
        how = _describe(status, program.last_line(place))
        if deaths >= back_off.attempts:
            raise GaveUpError(
                f"The {program.name} process ended {deaths} times in a row soon after its "
                f"start, the last time with {how} (log: {program.log})."
            )
        delay = back_off.delay(deaths)
        say(
            f"the {program.name} process ended with {how}; starting it again in {delay:g} s"
        )
        await asyncio.sleep(delay)


async def run_until(
    stopped: asyncio.Event, stages: Sequence[Iterable[asyncio.Task[None]]]
) -> None:
    """Wait until ``stopped`` is set or a task fails; then end all tasks.

    They end stage by stage, the first one first: who depends on another is in
    an earlier stage. Raises what the first failed task raised.
    """
    waiter = asyncio.create_task(stopped.wait())
    waiting = {waiter, *(task for stage in stages for task in stage)}
    failures: list[BaseException] = []
    try:
        while waiting and not stopped.is_set() and not failures:
            done, waiting = await asyncio.wait(
                waiting, return_when=asyncio.FIRST_COMPLETED
            )
            failures += [error for task in done if (error := task.exception())]
    finally:
        for stage in ((waiter,), *stages):
            for task in stage:
                task.cancel()
            await asyncio.gather(*stage, return_exceptions=True)
    if failures:
        raise failures[0]


async def shorten_logs(programs: Iterable[Program], every: float = 60.0) -> NoReturn:
    """Keep the logs of running programs within bounds."""
    while True:
        await asyncio.sleep(every)
        for program in programs:
            with suppress(OSError):
                program.shorten_log()


def _describe(status: int, line: str) -> str:
    how = f"signal {-status}" if status < 0 else f"exit status {status}"
    return f"{how}, saying: {line}" if line else f"{how}, saying nothing"
