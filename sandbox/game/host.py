"""Runs a game: the MCP server at `/mcp`, the clock and the saving, until the end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mcp_types as types
import uvicorn
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from starlette.applications import Starlette

from sandbox.game.api import Api, Listed
from sandbox.game.config import VERSIONS, GameError, unknown_command
from sandbox.game.faults import Faults, Plan
from sandbox.game.game import Game
from sandbox.game.gate import FaultGate, Turns
from sandbox.game.persistence import Keeper


async def run_clock(seconds: float, on_tick: Callable[[], None]) -> None:
    """Call `on_tick` every so many seconds, until cancelled.

    The beat does not drift; missed ticks are left out, not made up for in a burst.
    """
    loop = asyncio.get_running_loop()
    due = loop.time() + seconds
    while True:
        await asyncio.sleep(due - loop.time())
        on_tick()
        due = max(due + seconds, loop.time())


PATH = "/mcp"
# Six bytes for each sign of the longest log entry, and some room around it.
MOST_BODY_BYTES = 700_000
_INSTRUCTIONS = (
    "You are a player in SpaceMolt, a space game for software agents.\n"
    "register or login gives you a session_id: pass it to every other tool.\n"
    "Actions (travel, jump, mine, dock, undock, buy, sell, refuel, repair, scan, "
    "attack) take your turn, one per tick: {how} Everything else is free.\n"
    "The usual round: undock, travel to a belt, mine, travel back, dock, sell, refuel."
)
_TITLES = {"v2": "SpaceMolt (v2)"}
_HOW = {
    "A": "the answer says that they are queued, and get_notifications says what came "
    "of them.",
    "C": "the answer comes when the tick has come, and says what came of them.",
    "v2": "the answer comes when the tick has come. Every tool takes an action; "
    "action=help on any tool says more.",
}

Context = ServerRequestContext[Any]


def _make_app(host: Host, address: str) -> Starlette:
    game, faults = host.game, host.faults

    async def list_tools(
        ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        query = getattr(ctx.request, "query_params", {})
        every = host.api.list_tools(query)
        tools = [one for one in every if not faults.hidden(one.name, game.tick)]
        return types.ListToolsResult(tools=[_listed(tool) for tool in tools])

    async def list_resources(
        ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        return types.ListResourcesResult(resources=[])

    async def call_tool(
        ctx: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        try:
            if faults.hidden(params.name, game.tick):
                raise unknown_command(params.name)
            name, given = host.api.read_call(params.name, params.arguments or {})
            if not name:
                return _result(host.api.help(params.name))
            text = await host.turns.answer(name, given)
            text = host.api.render(name, text, given.get("session_id"))
        except GameError as error:
            return _result(error.text, is_error=True)
        if name == "register" and host.keeper is not None:
            # Whoever was told a password can log in after any end of the server.
            await host.keeper.save()
        return _result(text)

    server: Server[Any] = Server(
        "spacemolt-gameserver",
        version=VERSIONS[game.config.era][0],
        title=_TITLES.get(game.config.era, "SpaceMolt (sandbox)"),
        instructions=_INSTRUCTIONS.format(how=_HOW[game.config.era]),
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
    )
    app = server.streamable_http_app(
        streamable_http_path=PATH,
        json_response=host.options.json_response,
        max_request_body_size=MOST_BODY_BYTES,
        host=address,
    )
    app.add_middleware(FaultGate, faults=faults, turns=host.turns, api=host.api)
    return app


def _result(text: str, *, is_error: bool = False) -> types.CallToolResult:
    content = types.TextContent(type="text", text=text)
    return types.CallToolResult(content=[content], is_error=is_error)


def _listed(tool: Listed) -> types.Tool:
    return types.Tool(
        name=tool.name,
        description=tool.description,
        input_schema=tool.schema(),
        annotations=types.ToolAnnotations(
            read_only_hint=tool.read_only,
            destructive_hint=getattr(tool, "destructive", not tool.read_only),
            idempotent_hint=tool.read_only,
        ),
    )


_TICKS_PER_SAVE = 5
_SHORTEST_SAVE_SECONDS = 2.0
_BACKLOG = 2048


@dataclass(frozen=True, slots=True)
class HostOptions:
    """How a game is served.

    `tick_seconds`: None means that ticks pass only by `Host.step`. `json_response`:
    plain JSON answers, else event streams. `faults`: what goes wrong on purpose.
    """

    tick_seconds: float | None = None
    state_file: Path | None = None
    json_response: bool = True
    faults: Plan = field(default_factory=Plan)


class _Uvicorn(uvicorn.Server):
    """Leaves the signals alone, says when it is ready, and ends without complaint."""

    def __init__(
        self, app: Starlette, listener: socket.socket, ready: Callable[[], None]
    ) -> None:
        config = uvicorn.Config(
            app,
            log_config=None,
            log_level="warning",
            access_log=False,
            lifespan="on",
            ws="none",
            timeout_graceful_shutdown=1,
        )
        super().__init__(config)
        self.listener = listener
        self._ready = ready
        self._ending = asyncio.Event()

    def end(self) -> None:
        self.should_exit = True
        self._ending.set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def main_loop(self) -> None:
        # uvicorn looks every tenth of a second whether it shall end.
        ticking = asyncio.create_task(super().main_loop())
        ending = asyncio.create_task(self._ending.wait())
        await asyncio.wait((ticking, ending), return_when=asyncio.FIRST_COMPLETED)
        ticking.cancel()
        ending.cancel()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # Clients keep event streams open for ever; cutting them is no error here.
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
        # What uvicorn does, without its pauses of a tenth of a second.
        for one in (*self.servers, *(sockets or ())):
            one.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        try:
            async with asyncio.timeout(self.config.timeout_graceful_shutdown):
                await self._until_idle()
        except TimeoutError:
            for task in self.server_state.tasks:
                task.cancel()
        await self.lifespan.shutdown()

    async def _until_idle(self) -> None:
        state = self.server_state
        while state.connections or state.tasks:  # noqa: ASYNC110 (uvicorn tells nobody)
            await asyncio.sleep(0.005)
        for server in self.servers:
            await server.wait_closed()


class Host:
    """One running game. All methods belong to the loop of `serve`."""

    def __init__(self, game: Game, options: HostOptions) -> None:
        self.game = game
        self.options = options
        self.turns = Turns(game)
        self.api = Api(game)
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
            server.end()

    async def serve(
        self,
        listener: socket.socket,
        ready: Callable[[], None],
        control: tuple[socket.socket, Starlette] | None = None,
    ) -> None:
        """Serve on a bound socket until `stop`, then save.

        `ready` is called once, when connections are accepted. `control` is served
        beside the game. An error in the clock ends the serving and is raised.
        """
        app = _make_app(self, listener.getsockname()[0])
        served = [(listener, app), *([control] if control else [])]
        waiting = [listener for listener, _ in served]

        def count_down() -> None:
            waiting.pop()
            if not waiting:
                ready()

        self._servers = [_Uvicorn(app, one, count_down) for one, app in served]
        tasks = self._start_tasks()
        if self._stopping:
            self.stop()
        try:
            serving = [one.serve(sockets=[one.listener]) for one in self._servers]
            await asyncio.gather(*serving)
        finally:
            for task in tasks:
                task.cancel()
            ends = await asyncio.gather(*tasks, return_exceptions=True)
            if self.keeper is not None:
                await self.keeper.save()
        for end in ends:
            if isinstance(end, Exception):
                raise end

    def _start_tasks(self) -> list[asyncio.Task[None]]:
        """Start the clock and the saving; an error in one of them ends the serving."""
        seconds, tasks = self.options.tick_seconds, []
        if seconds is not None:
            tasks.append(asyncio.create_task(run_clock(seconds, self._on_tick)))
        if self.keeper is not None:
            pause = max(_SHORTEST_SAVE_SECONDS, _TICKS_PER_SAVE * (seconds or 0))
            tasks.append(asyncio.create_task(self.keeper.save_regularly(pause)))
        for task in tasks:
            task.add_done_callback(self._on_end)
        return tasks

    def _on_tick(self) -> None:
        if not self.paused:
            self.step()

    def _on_end(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            self.stop()


def open_listener(host: str, port: int) -> socket.socket:
    """Listen on a port of a local address, 0 for any free one. Raises OSError."""
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


def format_url(listener: socket.socket, path: str = PATH) -> str:
    """Give the address of the MCP endpoint on a bound socket, or of another path."""
    host, port = listener.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{port}{path}"
