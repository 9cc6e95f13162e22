"""``manage.py up``: everything in one command."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand
from django.utils.log import configure_logging

from zoea.commandline import DatabaseError, parse_whole, print_refusal
from zoea.supervise.children import GaveUpError
from zoea.supervise.programs import PortError
from zoea.supervise.run import AlreadyRunningError, Interrupted, run_everything


class Command(BaseCommand):
    help = (
        "Run everything: the embedded PostgreSQL (unless DATABASE_URL is set), "
        "migrations, the local game (unless SPACEMOLT_MCP_URL is set), the worker "
        "and the web server. On an empty database a demo fleet is made. Prints the "
        "dashboard's address with a link that signs in once. Ctrl-C ends it all."
    )
    requires_system_checks = []

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--myses",
            type=parse_whole(0, 1000, "{!r} is not a number from 0 to 1000"),
            default=6,
            metavar="N",
            help="size of the demo fleet made on an empty database (default 6)",
        )
        parser.add_argument(
            "--port",
            type=parse_whole(0, 65_535, "{!r} is not a port from 0 to 65535"),
            default=8000,
            help="the web server's port on 127.0.0.1 (default 8000; 0: any free one)",
        )
        parser.add_argument(
            "--workers",
            type=parse_whole(1, 64, "{!r} is not a number from 1 to 64"),
            default=1,
            metavar="N",
            help="how many processes take turns, each on a core of its own (default 1)",
        )
        parser.add_argument("--no-demo", action="store_true", help="make no demo fleet")
        parser.add_argument(
            "--tick",
            type=_seconds,
            metavar="SECONDS",
            help="length of a tick of the local game",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Run until Ctrl-C or SIGTERM (status 0); 2: it cannot start; 1: it gave up."""
        # Without the apps nobody else does.
        configure_logging(settings.LOGGING_CONFIG, settings.LOGGING)
        try:
            run_everything(
                myses=0 if options["no_demo"] else options["myses"],
                port=options["port"],
                tick=options["tick"],
                workers=options["workers"],
            )
        except (AlreadyRunningError, DatabaseError, PortError) as error:
            sys.exit(print_refusal(str(error)))
        except GaveUpError as error:
            print_refusal(str(error))
            sys.exit(1)
        except Interrupted:
            # What had started has ended; a second signal changed nothing.
            return


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if 0.01 <= seconds <= 3600:
        return seconds
    raise argparse.ArgumentTypeError(f"{text!r} is not a time of 0.01 to 3600 seconds")
