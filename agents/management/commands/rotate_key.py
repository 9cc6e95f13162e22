"""``manage.py rotate_key``: seal every stored secret under the newest key."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from agents.fence import adopt_key
from agents.stored_secrets import Tally, count_secrets, reseal_all
from memory import audit
from memory.management.terminal import ActingCommand, show_bar


class Command(ActingCommand):
    """Seals batch after batch; may be ended at any time and run again."""

    help = (
        "Seal every stored secret under the first key of ZOEA_SECRET_KEY. After it the "
        "other keys are needed no more. What no key opens stays as it is: status 1."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--forget",
            action="store_true",
            help="give up what no key opens, as where a key is lost for good",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        tally = Tally(forget=options["forget"])
        with show_bar("Sealing", count_secrets()) as advance:
            for rows in reseal_all(tally):
                advance(rows)
        adopt_key(forget=tally.forget)
        told = {"resealed": tally.resealed, "unreadable": len(tally.unreadable)}
        audit.record("key.rotate", after=told)
        self.stdout.write(
            f"Secrets sealed under the newest key: {tally.resealed}; "
            f"under it already: {tally.current}."
        )
        if tally.forget:
            self.stdout.write(f"Secrets given up: {len(tally.unreadable)}.")
        elif tally.unreadable:
            raise CommandError(
                f"Secrets that none of the keys can read: {len(tally.unreadable)} (the "
                f"first: {tally.unreadable[0]}). They stay as they were: put the key "
                "they were stored with behind the others, or give them up (--forget)."
            )
