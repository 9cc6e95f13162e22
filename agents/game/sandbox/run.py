"""Runs the sandbox as a process of its own."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from agents.game.sandbox.config import Config
from agents.game.sandbox.game import Game
from agents.game.sandbox.host import Host, HostOptions, bind, url_of
from agents.game.sandbox.persistence import StateFileError

DEFAULT_PORT = 8765


class CannotStart(Exception):
    """Why the sandbox does not run, in one line for whoever started it."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What the command line says."""

    config: Config
    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    state_file: Path | None = None


def run(options: RunOptions, announce: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT; `announce` gets the one line about being ready.

    Raises CannotStart when the port is taken or the state file is of no use.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _leave)
    try:
        listener = bind(options.host, options.port)
    except (OSError, OverflowError) as error:
        raise CannotStart(
            f"Cannot listen on {options.host} port {options.port}: "
            f"{_reason(error)}. Choose another --port (0 takes any free one)."
        ) from None
    with listener:
        config = options.config
        host = Host(Game(config), HostOptions(config.tick_seconds, options.state_file))
        if host.keeper is not None:
            try:
                host.keeper.load()
            except StateFileError as error:
                raise CannotStart(str(error)) from None
        line = (
            f"sandbox game ready at {url_of(listener)} "
            f"(tick {config.tick_seconds:g} s, era {config.era}, "
            f"{config.systems} systems, seed {config.seed})"
        )

        async def serve() -> None:
            loop = asyncio.get_running_loop()
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, host.stop)
            await host.serve(listener, lambda: announce(line))

        asyncio.run(serve())


def _leave(number: int, frame: FrameType | None) -> None:
    """End at once and well while the world is still being made."""
    sys.exit(0)


def _reason(error: Exception) -> str:
    return (getattr(error, "strerror", None) or str(error)).lower()
