"""``manage.py prepare``: what ``up`` has done to the database before anything else runs.

In a process of its own: ``up`` stays for as long as the fleet, and would keep in memory
what only this needs.
"""

from __future__ import annotations

import argparse
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.core.management import call_command

from agents import events, fence
from agents.actions.lifecycle import create_demo_fleet
from agents.stored_secrets import find_unreadable
from memory.management.terminal import ActingCommand
from memory.snapshots import writes
from zoea.auth import LINK_ROOT, create_sign_in_link
from zoea.commandline import DatabaseError
from zoea.proxies import refuses_links


class Command(ActingCommand):
    help = (
        "Bring the database up to date; the last line is a link that signs in once, or, "
        "where none would work, the sign-in page."
    )
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
        try:
            said = fence.enter()
        except fence.FenceError as error:
            raise DatabaseError(str(error)) from error
        if said:
            self.stdout.write(said)
        events.settle_foreign()
        if options["own_game"]:
            writes.hold_clocks()
        if options["myses"] and create_demo_fleet(myses=options["myses"]):
            self.stdout.write(f"Made a demo fleet of {options['myses']}")
        if unreadable := find_unreadable():
            self.stdout.write(
                f"Stored secrets that the present key cannot read: {len(unreadable)} "
                f"(the first: {unreadable[0]}). Nothing is lost: put the old key behind "
                "the new one in ZOEA_SECRET_KEY, or the old secret.key back."
            )
        self.stdout.write(self._make_link())
        events.hinter.close()

    def _make_link(self) -> str:
        """The path of a link that signs in once.

        Where none would work, as behind a proxy, the address of the sign-in page.
        """
        if not refuses_links():
            return create_sign_in_link()
        admins = User.objects.filter(is_superuser=True, is_active=True)
        if not any(one.has_usable_password() for one in admins):
            self.stdout.write(
                "Behind a proxy, and with ZOEA_ORIGINS, no link signs in: make a "
                "superuser with `manage.py createsuperuser`."
            )
        origin = next((one for one in settings.ZOEA_ORIGINS if "*" not in one), "")
        return f"{origin.rstrip('/')}{LINK_ROOT}/"
