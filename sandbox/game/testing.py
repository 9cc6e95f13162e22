"""A sandbox game inside a test: real HTTP, ticks by hand.

with SandboxServer(era="C", faults="502=0.05") as sandbox:
    ...                          # any MCP client against sandbox.url
    sandbox.step()               # one tick passes
    sandbox.truth("Ada")["facts"]["credits"]
    sandbox.strike_once("lost-session", tool="mine")
"""

from __future__ import annotations

import contextlib
import socket
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Self, TypeVar

from anyio.abc import TaskStatus
from anyio.from_thread import BlockingPortal, start_blocking_portal

from sandbox.game import truth
from sandbox.game.config import Config
from sandbox.game.faults import Order, parse_plan
from sandbox.game.game import Game
from sandbox.game.host import Host, HostOptions, format_url, open_listener
from sandbox.game.sessions import Write
from sandbox.game.state import Sources
from sandbox.game.tools.combat import ambush
from sandbox.game.truth import make_control
from sandbox.game.world.models import Player

_Result = TypeVar("_Result")
_PATIENCE = 30.0


class SandboxServer:
    """A context manager that serves a game from a thread of its own.

    `tick`: seconds per tick, None for ticks by `step` only. `state`: a file that keeps
    the world. `faults`: in the words of `--faults`. `json_response`: False for event
    streams. All else is the game's `Config`; `systems` are 20 if not given.
    """

    def __init__(
        self,
        *,
        tick: float | None = None,
        port: int = 0,
        state: Path | None = None,
        faults: str = "",
        json_response: bool = True,
        sources: Sources | None = None,
        **config: Any,
    ) -> None:
        chosen = {"systems": 20, "tick_seconds": tick or 10.0, **config}
        self.game = Game(Config(**chosen), sources)
        options = HostOptions(tick, state, json_response, parse_plan(faults))
        self._host = Host(self.game, options)
        self._port = port
        self._thread = contextlib.ExitStack()
        self._portal: BlockingPortal | None = None
        self._serving: Future[None] | None = None
        self.url = ""
        self.truth_url = ""

    def __enter__(self) -> Self:
        if self._host.keeper is not None:
            self._host.keeper.load()
        listener = open_listener("127.0.0.1", self._port)
        truth_port = open_listener("127.0.0.1", 0)
        self.url, self.truth_url = format_url(listener), format_url(truth_port, "")
        with contextlib.ExitStack() as started:
            for each in (listener, truth_port):
                started.callback(each.close)
            self._portal = started.enter_context(start_blocking_portal())
            served = self._portal.start_task(self._serve, listener, truth_port)
            self._serving, _ = served
            self._thread = started.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End the server and wait until it is gone; a second call does nothing."""
        if self._serving is not None and not self._serving.done():
            self.run(self._host.stop)
            self._serving.result(_PATIENCE)
        self._thread.close()

    def step(self, ticks: int = 1) -> int:
        """Let ticks pass and give the number of the last one."""
        for _ in range(ticks):
            tick = self.run(self._host.step)
        return tick

    def run(self, function: Callable[[], _Result]) -> _Result:
        """Call a function in the server's thread, to look at or change the game."""
        return self._loop.start_task_soon(function).result(_PATIENCE)

    @property
    def _loop(self) -> BlockingPortal:
        if self._portal is None:
            raise RuntimeError("the sandbox is not running")
        return self._portal

    def player(self, username: str) -> Player:
        """The account as the game itself knows it. Raises KeyError."""
        state = self.game.state
        return self.run(lambda: state.players[state.usernames[username.casefold()]])

    def ambush(self, username: str, tier: str = "small") -> str:
        """Put a pirate to an account's ship, and give its id; it attacks soon."""
        player = self.player(username)
        return self.run(lambda: ambush(self.game.state, player, tier).id)

    def happen(self, username: str, kind: str, **about: Any) -> None:
        """Let an event happen to an account; raises ValueError where it cannot."""
        self.run(lambda: truth.let_happen(self.game, username, kind, about))

    def truth(self, username: str) -> dict[str, Any]:
        """All that is true of an account now, as on the truth port."""
        return self.run(lambda: truth.describe_account(self.game, username))

    def answer(self, username: str, tool: str, **arguments: Any) -> Any:
        """What a query would answer an account now, as on the truth port."""
        return self.run(lambda: truth.query_game(self.game, username, tool, arguments))

    def writes(self) -> dict[str, list[Write]]:
        """What was taken in of each account that changes something, in order."""
        tallies = self.game.state.tallies
        return self.run(lambda: {k: list(one.writes) for k, one in tallies.items()})

    def calls(self, username: str) -> dict[str, Any]:
        """What an account has asked so far, as on the truth port."""
        return self.run(lambda: self.game.state.tallies[username].view())

    def set_faults(self, plan: str) -> None:
        """Let other things go wrong from now on; "" for none."""
        parsed = parse_plan(plan)
        self.run(lambda: setattr(self._host.faults, "plan", parsed))

    def strike_once(self, kind: str, *, tool: str = "", username: str = "") -> None:
        """Let a fault strike the next call that fits."""
        self.run(lambda: self._host.faults.order(Order(kind, tool, username)))

    @property
    def struck(self) -> Counter[str]:
        """How often each kind of fault has struck."""
        return self._host.faults.struck

    @property
    def held(self) -> int:
        """How many requests are being held for the next tick."""
        return self.run(lambda: self._host.turns.held)

    def wait_until_held(self, count: int = 1) -> None:
        """Wait until so many requests are being held for the next tick."""
        held = self._loop.start_task_soon(self._host.turns.until_held, count)
        held.result(_PATIENCE)

    async def _serve(
        self,
        listener: socket.socket,
        truth_port: socket.socket,
        *,
        task_status: TaskStatus[None],
    ) -> None:
        control = (truth_port, make_control(self._host))
        await self._host.serve(listener, task_status.started, control)
