"""``manage.py prepare``: what ``up`` has done to the database before anything else runs.

In a process of its own: ``up`` stays for as long as the fleet, and would keep in memory
what only this needs.
"""

from __future__ import annotations

import argparse
from typing import Any

from django.core.management import call_command

from agents import events
from agents.actions.lifecycle import create_demo_fleet
from memory.management.terminal import ActingCommand
from memory.snapshots import writes
from zoea.auth import create_sign_in_link


class Command(ActingCommand):
    help = "Bring the database up to date; the last line is a link that signs in once."
    requires_system_checks = []

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--myses", type=int, default=0, help="size of a demo fleet")
        parser.add_argument(
            "--own-game",
            action="store_true",
            help="the local game stood still while nothing ran, and so did its clock",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Write what was made on standard output, and the path of the link."""
        call_command("migrate", interactive=False, verbosity=0)
        events.settle_foreign()
        if options["own_game"]:
            writes.hold_clocks()
        if options["myses"] and create_demo_fleet(myses=options["myses"]):
            self.stdout.write(f"Made a demo fleet of {options['myses']}")
        self.stdout.write(create_sign_in_link())
        events.hinter.close()
