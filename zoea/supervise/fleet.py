"""The running fleet: its child processes, watched until the end is asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

from zoea.postgres import EmbeddedPostgres, PostgresError

from .console import Console
from .keeper import GaveUpError, keep_running, run_until, shorten_logs
from .ports import HOST
from .program import Program
from .readiness import answers

# Seconds to end by itself: first the workers and the web server, then the game.
PATIENCE = 3.5
GAME_PATIENCE = 1.0

GAME_SECONDS = 30.0
WEB_SECONDS = 60.0
DATABASE_WATCH_SECONDS = 1.0


@dataclass
class Fleet:
    """The programs of one run; ``server`` is None for a database of others.

    ``game``, its process (it is started first) and its port are None where the
    game is played elsewhere. ``web_port`` is where the web server answers, ``welcome`` what is printed
    when it does.
    """

    workers: Sequence[Program]
    web: Program
    web_port: int
    welcome: str
    game: Program | None
    game_process: asyncio.subprocess.Process | None
    game_port: int | None
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
            keep_running(self.web, self.console.say, PATIENCE),
            self._welcome(),
            shorten_logs(programs + ([self.game] if self.game else [])),
        ]
        if self.server is not None:
            first.append(self._watch_database(self.server))
        last: list[Coroutine[Any, Any, None]] = []
        if self.game is None:
            self._game_answers.set()
        else:
            last.append(self._run_game(self.game))
            first.append(self._await_game(self.game))
        # The workers play against the game: they end first.
        stages = [
            [asyncio.create_task(one) for one in stage] for stage in (last, first)
        ]
        await run_until(stopped, stages[::-1])

    async def _run_worker(self, worker: Program) -> None:
        await self._game_answers.wait()
        await keep_running(worker, self.console.say, PATIENCE)

    async def _run_game(self, game: Program) -> None:
        say, process = self.console.say, self.game_process
        await keep_running(game, say, GAME_PATIENCE, running=process)

    async def _await_game(self, game: Program) -> None:
        try:
            async with asyncio.timeout(GAME_SECONDS):
                await answers(HOST, self.game_port or 0, "/mcp", wanted=None)
        except TimeoutError:
            raise _silent(game, GAME_SECONDS) from None
        self._game_answers.set()

    async def _welcome(self) -> None:
        try:
            async with asyncio.timeout(WEB_SECONDS):
                await answers(HOST, self.web_port, "/readyz")
        except TimeoutError:
            raise _silent(self.web, WEB_SECONDS) from None
        self.console.say(self.welcome)

    async def _watch_database(self, server: EmbeddedPostgres) -> None:
        while True:
            await asyncio.sleep(DATABASE_WATCH_SECONDS)
            if server.pid is not None:
                continue
            self.console.say("the database server ended; starting it again")
            try:
                await asyncio.to_thread(server.ensure_running)
            except PostgresError as error:
                raise GaveUpError(f"The database server ended. {error}") from error


def _silent(program: Program, seconds: float) -> GaveUpError:
    line = program.last_line()
    said = f"its last line: {line}" if line else "it wrote nothing"
    return GaveUpError(
        f"The {program.name} process did not answer within {seconds:.0f} s; {said} "
        f"(log: {program.log})."
    )
