"""MCP sessions that outlive turns: one per Mysis and process, each in its own task.

The SDK wants a session opened, used and closed inside one task, and the game lets one
address open about 30 in a minute. So each lives in a task; turns hand it calls and wait.
A cancelled turn gives up its own call only; nobody calls before the game wants it again.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import anyio
from django.conf import settings

from agents.game.client import (
    Answer,
    Connection,
    GameCallError,
    GameTool,
    GameUnreachableError,
    RateLimitedError,
    ReplyLostError,
    SessionLostError,
    connect,
)
from agents.game.connect_limit import LONGEST_WAIT, RateLimiter, make_shut_out_error
from memory.game_calls import find_api_version, resolve_call

# Longer than a turn is waited for: opening anew is what the game has least of.
IDLE_SECONDS = 900.0

CLOSE_SECONDS = 5.0
CONNECT_TRIES = 4

# The game counts these with the sessions that are opened.
GATED = frozenset({"login", "register"})

# Seconds: who is asked to wait longer is shut out with all that call from there.
OF_THE_ADDRESS = 60.0

logger = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass(eq=False, slots=True)
class _Job:
    work: Callable[[Connection], Awaitable[Any]]
    outcome: asyncio.Future[Any]
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)


class GameSession:
    """A live MCP session, made by `SessionPool`."""

    def __init__(self, url: str, gate: RateLimiter) -> None:
        self._url = url
        self._gate = gate
        self._again_at = 0.0
        self._jobs: asyncio.Queue[_Job | None] = asyncio.Queue()
        self._running: set[_Job] = set()
        loop = asyncio.get_running_loop()
        self._ready: asyncio.Future[tuple[GameTool, ...]] = loop.create_future()
        self._listed: tuple[GameTool, ...] = ()
        self._closing = False
        self.open = True
        # A fresh context: the task must not keep the opener's database threads.
        self.task = loop.create_task(
            self._run(), name="game-session", context=contextvars.Context()
        )

    async def tools(self) -> tuple[GameTool, ...]:
        """The tools as listed last; raises GameCallError."""
        listed = await asyncio.shield(self._ready)
        return self._listed or listed

    @property
    def is_ready(self) -> bool:
        """Whether the server has answered and its tools are known."""
        return self._ready.done() and not self._ready.cancelled() and self.open

    async def refresh(self) -> tuple[GameTool, ...]:
        """The tools as the server lists them now; raises GameCallError."""
        self._listed = await self._do(Connection.refresh)
        return self._listed

    async def call(
        self, name: str, arguments: Mapping[str, Any], *, reads_only: bool = False
    ) -> Answer:
        """Call one tool, as `Connection.call`; raises GameCallError."""
        if resolve_call(name, arguments).name in GATED:
            await self._gate.enter()
        return await self._do(
            lambda one: one.call(name, arguments, reads_only=reads_only)
        )

    async def close(self) -> None:
        """End the session; calls under way fail as lost."""
        self.open = False
        self._closing = True
        self._jobs.put_nowait(None)
        await asyncio.wait([self.task], timeout=CLOSE_SECONDS)
        if not self.task.done():
            self.task.cancel()
            await asyncio.wait([self.task], timeout=CLOSE_SECONDS)

    async def _do(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        await self.tools()
        if not self.open:
            raise SessionLostError("The session with the game server was closed.")
        self._check_wait()
        job = _Job(work, asyncio.get_running_loop().create_future())
        self._jobs.put_nowait(job)
        try:
            outcome: T = await job.outcome
            return outcome
        except asyncio.CancelledError:
            job.scope.cancel()
            raise
        except RateLimitedError as error:
            seconds = error.retry_after or 0.0
            self._again_at = asyncio.get_running_loop().time() + seconds
            if seconds > OF_THE_ADDRESS:
                await self._gate.shut(seconds)
            raise

    def _check_wait(self) -> None:
        """Refuse here what the game would refuse, and count as one refusal more."""
        now = asyncio.get_running_loop().time()
        wait = max(self._again_at - now, self._gate.wait_now())
        if wait > 0:
            raise RateLimitedError("The game server asked to wait.", wait)

    async def _run(self) -> None:
        try:
            async with connect(self._url) as connection:
                _log_version(connection)
                self._ready.set_result(connection.tools)
                await self._serve_all(connection)
        except GameCallError as error:
            self._fail_ready(error)
        except Exception as error:
            # Groups out of the SDK's tasks: their texts may quote messages.
            logger.error("A game session ended by %s.", type(error).__name__)
            self._fail_ready(GameUnreachableError("The game server cannot be used."))
        finally:
            self.open = False
            self._fail_ready(GameUnreachableError("The game session was closed."))
            self._fail_jobs()

    async def _serve_all(self, connection: Connection) -> None:
        async with anyio.create_task_group() as group:
            while (job := await self._next()) is not None:
                self._running.add(job)
                group.start_soon(self._serve, connection, job)
            if self._closing:
                group.cancel_scope.cancel()

    async def _next(self) -> _Job | None:
        """The next job; None when it is time to close."""
        while self.open:
            with anyio.move_on_after(IDLE_SECONDS):
                return await self._jobs.get()
            if not self._running and self._jobs.empty():
                break
        self.open = False
        return None

    async def _serve(self, connection: Connection, job: _Job) -> None:
        try:
            with job.scope:
                result = await job.work(connection)
                _settle(job.outcome, result)
        except GameCallError as error:
            if isinstance(error, SessionLostError):
                self._retire()
            _settle(job.outcome, error)
        except Exception as error:
            # Its text may quote the answer.
            logger.error("A game call ended by %s.", type(error).__name__)
        finally:
            self._running.discard(job)
            _settle(job.outcome, _lost())

    def _retire(self) -> None:
        """Take no more work; what is under way may still be answered."""
        if self.open:
            self.open = False
            self._jobs.put_nowait(None)

    def _fail_ready(self, error: GameCallError) -> None:
        _settle(self._ready, error)
        if not self._ready.cancelled():
            self._ready.exception()  # nobody may be waiting any more

    def _fail_jobs(self) -> None:
        for job in self._running:
            _settle(job.outcome, _lost())
        while not self._jobs.empty():
            if (left := self._jobs.get_nowait()) is not None:
                closed = SessionLostError("The session with the game was closed.")
                _settle(left.outcome, closed)


def _log_version(connection: Connection) -> None:
    """Log what answers, as an address may lead anywhere."""
    names = [tool.name for tool in connection.tools]
    version = find_api_version(connection.server, names)
    logger.debug("%s: API v%d, %d tools", connection.server, version, len(names))


def _lost() -> ReplyLostError:
    return ReplyLostError("The session ended before the game server answered.")


def _settle(future: asyncio.Future[Any], outcome: object) -> None:
    if future.done():
        return
    if isinstance(outcome, Exception):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)


class SessionPool:
    """The sessions of one event loop, one for each Mysis."""

    def __init__(self) -> None:
        self._sessions: dict[tuple[str, int], GameSession] = {}
        self._locks: defaultdict[int, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._gates: dict[str, RateLimiter] = {}
        # When the game takes the next call of a kind, by Mysis.
        self._again: dict[tuple[int, str], float] = {}

    def pace(self, mysis_id: int, kind: str, seconds: float) -> None:
        """Note that the game wants no call of a kind for so many seconds."""
        now = asyncio.get_running_loop().time()
        self._again = {key: at for key, at in self._again.items() if at > now}
        self._again[mysis_id, kind] = now + seconds

    def find_wait(self, mysis_id: int, kind: str) -> float:
        """The seconds until the game takes the next call of a kind; 0 for now."""
        until = self._again.get((mysis_id, kind), 0.0)
        return max(0.0, until - asyncio.get_running_loop().time())

    def list_open(self) -> list[int]:
        """The Myses whose session is open."""
        url: str = settings.SPACEMOLT_MCP_URL
        return [
            mysis
            for (where, mysis), one in self._sessions.items()
            if where == url and one.open and one.is_ready
        ]

    async def session(self, mysis_id: int) -> GameSession:
        """The live session of a Mysis, opened in its turn; raises GameUnreachableError."""
        url: str = settings.SPACEMOLT_MCP_URL
        gate = self._gate(url)
        for attempt in range(1, CONNECT_TRIES + 1):
            if self._live(url, mysis_id) is None:
                await gate.enter()
            # Somebody else may have opened it meanwhile.
            session = self._live(url, mysis_id) or self._open(url, mysis_id)
            try:
                await session.tools()
            except RateLimitedError as error:
                wait = error.retry_after
                wait = 2.0**attempt if wait is None else wait
                await gate.shut(wait)
                if attempt == CONNECT_TRIES or wait > LONGEST_WAIT:
                    raise make_shut_out_error(wait) from error
            else:
                return session
        raise AssertionError("unreachable")

    async def begin_session(self, mysis_id: int) -> float:
        """Begin to open a session if none is open; the seconds to wait first, else 0."""
        url: str = settings.SPACEMOLT_MCP_URL
        if self._live(url, mysis_id) is not None:
            return 0.0
        wait = await self._gate(url).ask()
        if wait <= 0 and self._live(url, mysis_id) is None:
            self._open(url, mysis_id)
        return wait

    def _live(self, url: str, mysis_id: int) -> GameSession | None:
        session = self._sessions.get((url, mysis_id))
        return session if session is not None and session.open else None

    def _open(self, url: str, mysis_id: int) -> GameSession:
        session = GameSession(url, self._gate(url))
        self._sessions[url, mysis_id] = session
        session.task.add_done_callback(lambda _: self._forget())
        return session

    def _gate(self, url: str) -> RateLimiter:
        # Not by `setdefault`: to read an address costs more than the rest of this.
        if url not in self._gates:
            self._gates[url] = RateLimiter(url)
        return self._gates[url]

    def lock(self, mysis_id: int) -> asyncio.Lock:
        """Held while the account of a Mysis is logged in, out or changed."""
        return self._locks[mysis_id]

    def _forget(self) -> None:
        for key, session in list(self._sessions.items()):
            if session.task.done():
                del self._sessions[key]

    async def close(self) -> None:
        """End every session, before the event loop ends; it takes some seconds at most."""
        sessions = list(self._sessions.values())
        self._sessions.clear()
        await asyncio.gather(*(session.close() for session in sessions))


_pools: WeakKeyDictionary[asyncio.AbstractEventLoop, SessionPool] = WeakKeyDictionary()


def get_pool() -> SessionPool:
    """The sessions of the running event loop."""
    return _pools.setdefault(asyncio.get_running_loop(), SessionPool())
