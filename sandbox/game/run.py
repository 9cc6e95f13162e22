"""The game as a process of its own: its command line, and its run to the end."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import sys
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from sandbox.game.config import FEWEST_SYSTEMS, MOST_SYSTEMS, Config
from sandbox.game.control import is_loopback
from sandbox.game.eras import ERAS
from sandbox.game.faults import KINDS, Plan, parse
from sandbox.game.game import Game
from sandbox.game.host import Host, HostOptions, bind, url_of
from sandbox.game.persistence import StateFileError

HELP = "Run the local game server: MCP over streamable HTTP at /mcp."
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


def add_arguments(parser: ArgumentParser) -> None:
    """Name the options; a bad value is refused with one line."""
    parser.add_argument(
        "--port",
        type=_port,
        default=DEFAULT_PORT,
        help="port to listen on, 0 for any free one (default: %(default)s)",
    )
    parser.add_argument(
        "--host", default="127.0.0.1", help="address (default: %(default)s)"
    )
    parser.add_argument(
        "--tick",
        type=_seconds,
        default=2.0,
        help="seconds per tick (default: 2)",
    )
    parser.add_argument(
        "--era",
        type=_era,
        default="A",
        help="how actions are answered (default: %(default)s)",
    )
    parser.add_argument(
        "--systems",
        type=_systems,
        default=505,
        help=f"star systems, {FEWEST_SYSTEMS} to {MOST_SYSTEMS} (default: %(default)s)",
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=1,
        help="what the world follows from (default: %(default)s)",
    )
    parser.add_argument(
        "--state",
        type=Path,
        metavar="FILE",
        help="keep the world in this file between runs (default: not kept)",
    )
    _add_levers(parser)


def _add_levers(parser: ArgumentParser) -> None:
    """What makes the game a harder or a steered one."""
    parser.add_argument(
        "--faults",
        type=_faults,
        default=Plan(),
        metavar="PLAN",
        help="what goes wrong on purpose, such as lost-session=0.01,502=0.02; "
        f"kinds: {', '.join(KINDS)} (default: nothing)",
    )
    parser.add_argument(
        "--truth-port",
        type=_port,
        metavar="PORT",
        help="for tests: loopback port that tells what is true, steps ticks and "
        "switches faults, 0 for any free one (default: none)",
    )
    parser.add_argument(
        "--manual",
        action="store_true",
        help="ticks pass by the truth port only",
    )


def _port(text: str) -> int:
    return int(_between(text, 0, 65535, whole=True))


def _systems(text: str) -> int:
    return int(_between(text, FEWEST_SYSTEMS, MOST_SYSTEMS, whole=True))


def _seconds(text: str) -> float:
    return _between(text, 0.01, 3600, whole=False)


def _between(text: str, least: float, most: float, *, whole: bool) -> float:
    try:
        value = int(text) if whole else float(text)
    except ValueError:
        kind = "a whole number" if whole else "a number"
        raise ArgumentTypeError(f"{text!r} is not {kind}") from None
    if not least <= value <= most:
        raise ArgumentTypeError(f"{text} is not from {least:g} to {most:g}")
    return value


def _faults(text: str) -> Plan:
    try:
        return parse(text)
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from None


def _era(text: str) -> str:
    if text not in ERAS:
        raise ArgumentTypeError(f"{text!r} is not offered; choose {', '.join(ERAS)}")
    return text


def options_of(given: Mapping[str, Any]) -> RunOptions:
    """The options as the command line gave them."""
    config = Config(
        seed=given["seed"],
        systems=given["systems"],
        era=given["era"],
        tick_seconds=given["tick"],
    )
    return RunOptions(
        config,
        given["host"],
        given["port"],
        given["state"],
        faults=given["faults"],
        truth_port=given["truth_port"],
        manual=given["manual"],
    )


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
