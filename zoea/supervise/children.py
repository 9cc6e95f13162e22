"""The child processes of one run: started, restarted with back-off, and ended in order."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NoReturn

from zoea.postgres import EmbeddedPostgres, PostgresError
from zoea.supervise.programs import (
    Console,
    Program,
    describe_end,
    stop_process,
    wait_for_answer,
)

# Seconds that a program gets to end by itself: the workers and the web server first.
PATIENCE = 3.5
GAME_PATIENCE = 1.0

GAME_SECONDS = 30.0
WEB_SECONDS = 60.0
DATABASE_WATCH_SECONDS = 1.0


class GaveUpError(Exception):
    """A program keeps dying; one line that says which, and what it wrote last."""


@dataclass(frozen=True)
class BackOff:
    """Delays before a restart, in seconds: from ``first``, doubling up to ``longest``.

    None before that of a program which ran for at least ``quick`` seconds. After
    ``attempts`` runs in a row that ended sooner, give up.
    """

    first: float = 0.5
    longest: float = 30.0
    quick: float = 10.0
    attempts: int = 5

    def delay(self, deaths: int) -> float:
        """The seconds to wait after so many quick deaths in a row."""
        return (
            float(min(self.first * 2 ** (deaths - 1), self.longest)) if deaths else 0.0
        )


@dataclass
class Fleet:
    """The programs of one run. ``server`` is None where DATABASE_URL names the database.

    ``game`` is None where no local game is started; ``started`` are the processes of
    programs that were started before, by their names. ``welcome`` is printed when the
    web server answers.
    """

    workers: Sequence[Program]
    web: Program
    welcome: str
    game: Program | None
    started: Mapping[str, asyncio.subprocess.Process]
    server: EmbeddedPostgres | None
    console: Console
    _game_answers: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self, stopped: asyncio.Event) -> None:
        """Run until ``stopped`` is set, then end all programs.

        Raises GaveUpError when one of them cannot be kept running.
        """
        programs = [*self.workers, self.web]
        first: list[Coroutine[Any, Any, None]] = [
            *map(self._run_worker, self.workers),
            self._keep_running(self.web, PATIENCE),
            self._welcome(),
            shorten_logs(programs + ([self.game] if self.game else [])),
        ]
        if self.server is not None:
            first.append(watch_database(self.server, self.console.say))
        last: list[Coroutine[Any, Any, None]] = []
        if self.game is None:
            self._game_answers.set()
        else:
            last.append(self._keep_running(self.game, GAME_PATIENCE))
            first.append(self._await_game(self.game))
        # The workers play against the game, so they end first; the game starts first.
        ending_last = [asyncio.create_task(task) for task in last]
        ending_first = [asyncio.create_task(task) for task in first]
        await run_until(stopped, [ending_first, ending_last])

    async def _run_worker(self, worker: Program) -> None:
        await self._game_answers.wait()
        await self._keep_running(worker, PATIENCE)

    async def _keep_running(self, program: Program, patience: float) -> NoReturn:
        running = self.started.get(program.name)
        await keep_running(program, self.console.say, patience, running=running)

    async def _await_game(self, game: Program) -> None:
        await _require_answer(game, "/mcp", None, GAME_SECONDS)
        self._game_answers.set()

    async def _welcome(self) -> None:
        await _require_answer(self.web, "/readyz", None, WEB_SECONDS)
        # One that answers without its database only has to wait.
        await wait_for_answer(self.web.port, "/readyz")
        self.console.say(self.welcome)


async def watch_database(
    server: EmbeddedPostgres,
    say: Callable[[str], None],
    back_off: BackOff | None = None,
) -> NoReturn:
    """Start the database server again when it ends, until it does.

    A full disk is emptier sometime, and meanwhile the pages say what is wrong.
    """
    back_off = back_off or BackOff(DATABASE_WATCH_SECONDS)
    failures = 0
    while True:
        await asyncio.sleep(max(DATABASE_WATCH_SECONDS, back_off.delay(failures)))
        if server.pid is not None:
            failures = 0
            continue
        if not failures:
            say("the database server ended; starting it again")
        try:
            await asyncio.to_thread(server.ensure_running)
        except PostgresError as error:
            failures += 1
            say(f"the database server does not start, it is tried again: {error}")


async def keep_running(
    program: Program,
    say: Callable[[str], None],
    patience: float,
    back_off: BackOff | None = None,
    running: asyncio.subprocess.Process | None = None,
) -> NoReturn:
    """Run the program, and restart it when it ends, until cancelled; then stop it.

    ``patience`` is how many seconds it gets to end by itself; ``running`` is its
    process where it was started already. Raises GaveUpError.
    """
    back_off = back_off or BackOff()
    deaths = 0
    while True:
        begun, place = time.monotonic(), program.log_size()
        process, running = running or await program.start(), None
        try:
            status = await process.wait()
        finally:
            # Also after its death: what it started may outlive it.
            await stop_process(process, patience)
        lived = time.monotonic() - begun
        deaths = deaths + 1 if lived < back_off.quick else 0
        how = describe_end(status, program.last_line(place))
        if deaths >= back_off.attempts:
            raise GaveUpError(
                f"The {program.name} process ended {deaths} times in a row soon after its "
                f"start, the last time with {how} (log: {program.log})."
            )
        delay = back_off.delay(deaths)
        pause = f" in {delay:g} s" if delay else ""
        say(f"the {program.name} process ended with {how}; starting it again{pause}")
        await asyncio.sleep(delay)


async def run_until(
    stopped: asyncio.Event, stages: Sequence[Iterable[asyncio.Task[None]]]
) -> None:
    """Wait until ``stopped`` is set or a task fails; then end the tasks stage by stage.

    A program that depends on another one is in an earlier stage. Raises what the first
    failed task raised.
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
    """Shorten the logs of running programs every so many seconds."""
    while True:
        await asyncio.sleep(every)
        for program in programs:
            with suppress(OSError):
                program.shorten_log()


async def _require_answer(
    program: Program, path: str, wanted: int | None, seconds: float
) -> None:
    """Wait for a program's answer; raises GaveUpError after so many seconds."""
    try:
        async with asyncio.timeout(seconds):
            await wait_for_answer(program.port, path, wanted)
    except TimeoutError:
        line = program.last_line()
        said = f"its last line: {line}" if line else "it wrote nothing"
        raise GaveUpError(
            f"The {program.name} process did not answer within {seconds:.0f} s; {said} "
            f"(log: {program.log})."
        ) from None
