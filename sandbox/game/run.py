"""Runs the sandbox as a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from sandbox.game.config import Config
from sandbox.game.control import is_loopback
from sandbox.game.faults import Plan
from sandbox.game.game import Game
from sandbox.game.host import Host, HostOptions, bind, url_of
from sandbox.game.persistence import StateFileError

DEFAULT_PORT = 8765
TRUTH_HOST = "127.0.0.1"


class CannotStart(Exception):
    """Why the sandbox does not run, in one line for whoever started it."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What the command line says.

    `truth_port`: where tests find the truth and the levers, None for nowhere.
    `manual`: ticks pass by the truth port only.
    """

    config: Config
    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    state_file: Path | None = None
    faults: Plan = field(default_factory=Plan)
    truth_port: int | None = None
    manual: bool = False


def run(options: RunOptions, announce: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT; `announce` gets the one line about being ready.

    Raises CannotStart when the port is taken or the state file is of no use.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _leave)
    _check(options)
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(_listen(options.host, options.port, "--port"))
        truth = None
        if options.truth_port is not None:
            truth = _listen(TRUTH_HOST, options.truth_port, "--truth-port")
            stack.enter_context(truth)
        config = options.config
        seconds = None if options.manual else config.tick_seconds
        host = Host(
            Game(config),
            HostOptions(seconds, options.state_file, faults=options.faults),
        )
        if host.keeper is not None:
            try:
                host.keeper.load()
            except StateFileError as error:
                raise CannotStart(str(error)) from None
        pace = "by hand" if options.manual else f"{config.tick_seconds:g} s"
        line = (
            f"sandbox game ready at {url_of(listener)} "
            f"(tick {pace}, era {config.era}, "
            f"{config.systems} systems, seed {config.seed})"
        )
        if truth is not None:
            line += f"; truth at {url_of(truth, '')}"

        async def serve() -> None:
            loop = asyncio.get_running_loop()
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, host.stop)
            await host.serve(listener, lambda: announce(line), truth)

        asyncio.run(serve())


def _check(options: RunOptions) -> None:
    """Raises CannotStart for options that do not go together."""
    if options.truth_port is None and options.manual:
        raise CannotStart("--manual needs --truth-port, by which the ticks pass.")
    if options.truth_port is not None and not is_loopback(options.host):
        raise CannotStart(
            f"--truth-port is for tests on this machine and --host {options.host} is "
            "not: leave one of them out."
        )


def _listen(host: str, port: int, option: str) -> socket.socket:
    try:
        return bind(host, port)
    except (OSError, OverflowError) as error:
        raise CannotStart(
            f"Cannot listen on {host} port {port}: "
            f"{_reason(error)}. Choose another {option} (0 takes any free one)."
        ) from None


def _leave(number: int, frame: FrameType | None) -> None:
    """End at once and well while the world is still being made."""
    sys.exit(0)


def _reason(error: Exception) -> str:
    return (getattr(error, "strerror", None) or str(error)).lower()
