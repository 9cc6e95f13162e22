"""The game as a process of its own: its command line, and its run to the end."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import sys
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from sandbox.game.config import FEWEST_SYSTEMS, MOST_SYSTEMS, Config
from sandbox.game.eras import ERAS
from sandbox.game.faults import KINDS, Plan, parse_plan
from sandbox.game.game import Game
from sandbox.game.host import Host, HostOptions, format_url, open_listener
from sandbox.game.persistence import StateFileError
from sandbox.game.truth import is_loopback, make_control

HELP = "Run the local game server: MCP over streamable HTTP at /mcp."
TRUTH_HOST = "127.0.0.1"


class CannotStart(Exception):
    """Why the sandbox does not run, in one line for whoever started it."""


def add_arguments(parser: ArgumentParser) -> None:
    """Name the options; a bad value is refused with one line."""
    port = partial(_read_number, int, 0, 65535)
    systems = partial(_read_number, int, FEWEST_SYSTEMS, MOST_SYSTEMS)
    seconds = partial(_read_number, float, 0.01, 3600)
    options: tuple[tuple[str, dict[str, Any]], ...] = (
        ("--port", {"type": port, "default": 8765, "help":
            "port to listen on, 0 for any free one (default: %(default)s)"}),
        ("--host", {"default": "127.0.0.1", "help": "address (default: %(default)s)"}),
        ("--tick", {"type": seconds, "default": 2.0, "help":
            "seconds per tick (default: 2)"}),
        ("--era", {"type": _read_era, "default": "A", "help":
            "how actions are answered (default: %(default)s)"}),
        ("--systems", {"type": systems, "default": 505, "help":
            f"star systems, {FEWEST_SYSTEMS} to {MOST_SYSTEMS} "
            "(default: %(default)s)"}),
        ("--seed", {"type": int, "default": 1, "help":
            "what the world follows from (default: %(default)s)"}),
        ("--state", {"type": Path, "metavar": "FILE", "help":
            "keep the world in this file between runs (default: not kept)"}),
        ("--faults", {"type": _read_faults, "default": Plan(), "metavar": "PLAN", "help":
            "what goes wrong on purpose, such as lost-session=0.01,502=0.02; "
            f"kinds: {', '.join(KINDS)} (default: nothing)"}),
        ("--truth-port", {"type": port, "metavar": "PORT", "help":
            "for tests: loopback port that tells what is true, steps ticks and "
            "switches faults, 0 for any free one (default: none)"}),
        ("--manual", {"action": "store_true", "help":
            "ticks pass by the truth port only"}),
    )  # fmt: skip
    for name, form in options:
        parser.add_argument(name, **form)


def _read_number(kind: type[float], least: float, most: float, text: str) -> float:
    try:
        value = kind(text)
    except ValueError:
        wanted = "a whole number" if kind is int else "a number"
        raise ArgumentTypeError(f"{text!r} is not {wanted}") from None
    if not least <= value <= most:
        raise ArgumentTypeError(f"{text} is not from {least:g} to {most:g}")
    return value


def _read_faults(text: str) -> Plan:
    try:
        return parse_plan(text)
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from None


def _read_era(text: str) -> str:
    if text not in ERAS:
        raise ArgumentTypeError(f"{text!r} is not offered; choose {', '.join(ERAS)}")
    return text


def run(options: Mapping[str, Any], announce: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT; `announce` gets the one line about being ready.

    `options` are those of the command line. Raises CannotStart when the port is taken
    or the state file is of no use.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        # Ends at once and well while the world is still being made.
        signal.signal(number, lambda number, frame: sys.exit(0))
    _check(options)
    manual, era, tick = options["manual"], options["era"], options["tick"]
    config = Config(options["seed"], options["systems"], era, tick)
    with contextlib.ExitStack() as stack:
        listener = _listen(options["host"], options["port"], "--port")
        stack.enter_context(listener)
        truth = None
        if options["truth_port"] is not None:
            truth = _listen(TRUTH_HOST, options["truth_port"], "--truth-port")
            stack.enter_context(truth)
        seconds = None if manual else tick
        settings = HostOptions(seconds, options["state"], faults=options["faults"])
        host = Host(Game(config), settings)
        if host.keeper is not None:
            try:
                host.keeper.load()
            except StateFileError as error:
                raise CannotStart(str(error)) from None
        pace = "by hand" if manual else f"{tick:g} s"
        line = (
            f"sandbox game ready at {format_url(listener)} (tick {pace}, era {era}, "
            f"{config.systems} systems, seed {config.seed})"
        )
        if truth is not None:
            line += f"; truth at {format_url(truth, '')}"

        async def serve() -> None:
            loop = asyncio.get_running_loop()
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, host.stop)
            control = None if truth is None else (truth, make_control(host))
            await host.serve(listener, lambda: announce(line), control)

        asyncio.run(serve())


def _check(options: Mapping[str, Any]) -> None:
    """Raises CannotStart for options that do not go together."""
    if options["truth_port"] is None and options["manual"]:
        raise CannotStart("--manual needs --truth-port, by which the ticks pass.")
    if options["truth_port"] is not None and not is_loopback(options["host"]):
        raise CannotStart(
            f"--truth-port is for tests on this machine and --host {options['host']} "
            "is not: leave one of them out."
        )


def _listen(host: str, port: int, option: str) -> socket.socket:
    try:
        return open_listener(host, port)
    except (OSError, OverflowError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        raise CannotStart(
            f"Cannot listen on {host} port {port}: "
            f"{reason}. Choose another {option} (0 takes any free one)."
        ) from None
