"""``manage.py sandbox``: run the local game server."""

from __future__ import annotations

from argparse import ArgumentTypeError
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from sandbox.game.config import FEWEST_SYSTEMS, MOST_SYSTEMS, Config
from sandbox.game.eras import ERAS
from sandbox.game.faults import KINDS, Plan, parse
from sandbox.game.run import DEFAULT_PORT, CannotStart, RunOptions, run


class Command(BaseCommand):
    """Serves a game over MCP; needs neither the database nor the settings' checks."""

    help = "Run the local game server: MCP over streamable HTTP at /mcp."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the options of the server and its world."""
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
            help=f"star systems, {FEWEST_SYSTEMS} to {MOST_SYSTEMS} "
            "(default: %(default)s)",
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
        self._add_test_options(parser)

    def _add_test_options(self, parser: CommandParser) -> None:
        """Add the options that make the game harder or let a test steer it."""
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

    def handle(self, *args: Any, **options: Any) -> None:
        """Run until SIGTERM or SIGINT; exit status 2 if it cannot start."""
        config = Config(
            seed=options["seed"],
            systems=options["systems"],
            era=options["era"],
            tick_seconds=options["tick"],
        )
        chosen = RunOptions(
            config,
            options["host"],
            options["port"],
            options["state"],
            faults=options["faults"],
            truth_port=options["truth_port"],
            manual=options["manual"],
        )
        try:
            run(chosen, self._announce)
        except CannotStart as error:
            raise CommandError(str(error), returncode=2) from None

    def _announce(self, line: str) -> None:
        self.stdout.write(line)
        self.stdout.flush()


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
