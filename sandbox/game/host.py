"""Runs a game: the web server, the clock and the saving, until it is told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import uvicorn
from starlette.applications import Starlette

from sandbox.game.clock import run_clock
from sandbox.game.control import make_control
from sandbox.game.faults import Faults, Plan
from sandbox.game.game import Game
from sandbox.game.persistence import Keeper
from sandbox.game.server import PATH, make_app
from sandbox.game.turns import Turns

_TICKS_PER_SAVE = 5
_SHORTEST_SAVE_SECONDS = 2.0
_BACKLOG = 2048


@dataclass(frozen=True, slots=True)
class HostOptions:
    """How a game is served.

    `tick_seconds`: None means that ticks pass only by `Host.step`. `json_response`:
    plain JSON answers, else event streams. `state_file`: where the world is kept.
    `faults`: what goes wrong on purpose.
    """

    tick_seconds: float | None = None
    state_file: Path | None = None
    json_response: bool = True
    faults: Plan = field(default_factory=Plan)


class _Uvicorn(uvicorn.Server):
    """Leaves the signals alone, says when it is ready, and ends without complaint."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # Clients keep event streams open for ever; cutting them is no error here.
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
        await super().shutdown(sockets)


class Host:
    """One running game. All methods belong to the loop of `serve`."""

    def __init__(self, game: Game, options: HostOptions) -> None:
        self.game = game
        self.options = options
        self.turns = Turns(game)
        self.faults = Faults(game.config.seed, options.faults)
        self.paused = False
        self.keeper = Keeper(options.state_file, game) if options.state_file else None
        self._servers: list[_Uvicorn] = []
        self._stopping = False

    def step(self) -> int:
        """Let one tick pass now, give its number, and serve who waited for it."""
        tick = self.game.step()
        self.turns.ring()
        return tick

    def stop(self) -> None:
        """Ask `serve` to end."""
        self._stopping = True
        self.turns.close()
        for server in self._servers:
            server.should_exit = True

    async def serve(
        self,
        listener: socket.socket,
        ready: Callable[[], None],
        truth: socket.socket | None = None,
    ) -> None:
        """Serve on a bound socket until `stop`, then save.

        `ready` is called once, when connections are accepted. `truth` is a bound socket
        for the truth port. An error in the clock ends the serving and is raised.
        """
        begun = _Countdown(1 if truth is None else 2, ready)
        self._servers = [_Uvicorn(self._web_config(listener), begun.one)]
        listeners = [listener]
        if truth is not None:
            control = _Uvicorn(_config(make_control(self)), begun.one)
            self._servers.append(control)
            listeners.append(truth)
        tasks: list[asyncio.Task[None]] = []
        seconds = self.options.tick_seconds
        if seconds is not None:
            tasks.append(asyncio.create_task(run_clock(seconds, self._on_tick)))
        if self.keeper is not None:
            pause = max(_SHORTEST_SAVE_SECONDS, _TICKS_PER_SAVE * (seconds or 0))
            tasks.append(asyncio.create_task(self.keeper.save_regularly(pause)))
        for task in tasks:
            task.add_done_callback(self._on_end)
        try:
            for server in self._servers:
                server.should_exit = self._stopping
            await asyncio.gather(
                *(
                    server.serve(sockets=[one])
                    for server, one in zip(self._servers, listeners, strict=True)
                )
            )
        finally:
            failure = await _end(tasks)
            if self.keeper is not None:
                await self.keeper.save()
        if failure is not None:
            raise failure

    def _on_tick(self) -> None:
        if not self.paused:
            self.step()

    def _on_end(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            self.stop()

    def _web_config(self, listener: socket.socket) -> uvicorn.Config:
        app = make_app(
            self.turns,
            self.keeper,
            self.faults,
            host=listener.getsockname()[0],
            json_response=self.options.json_response,
        )
        return _config(app)


class _Countdown:
    """Says that all is ready when the last of several is."""

    def __init__(self, count: int, ready: Callable[[], None]) -> None:
        self._left = count
        self._ready = ready

    def one(self) -> None:
        self._left -= 1
        if not self._left:
            self._ready()


def _config(app: Starlette) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        log_config=None,
        log_level="warning",
        access_log=False,
        lifespan="on",
        ws="none",
        timeout_graceful_shutdown=1,
    )


async def _end(tasks: list[asyncio.Task[None]]) -> Exception | None:
    """Cancel what still runs, and give what went wrong in the rest."""
    for task in tasks:
        task.cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    return next((one for one in results if isinstance(one, Exception)), None)


def bind(host: str, port: int) -> socket.socket:
    """Listen on a port of a local address, 0 for any free one.

    Raises OSError when it is taken or not allowed.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol named, asyncio sends at once (TCP_NODELAY) on what it accepts.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        # Only a listening socket keeps others off an address that may be reused.
        listener.listen(_BACKLOG)
    except BaseException:
        listener.close()
        raise
    return listener


def url_of(listener: socket.socket, path: str = PATH) -> str:
    """Give the address of the MCP endpoint on a bound socket, or of another path."""
    host, port = listener.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{port}{path}"
