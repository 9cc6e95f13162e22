"""``manage.py create_token``: an API token for a program."""

from __future__ import annotations

import argparse
from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from zoea.auth import Role, TokenError, create_token


class Command(BaseCommand):
    """Makes a token and prints it once."""

    help = "Make an API token and print it, once; only its hash is stored."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="What the token is called; unique.")
        parser.add_argument(
            "--role",
            required=True,
            choices=[role.label for role in Role],
            help="viewer reads; operator also steers Myses; admin also edits.",
        )
        parser.add_argument(
            "--days", type=_days, help="How long it works; without this, until revoked."
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Print the token on standard output, and nothing else there."""
        lasts: timedelta | None = options["days"]
        try:
            _, secret = create_token(
                name=options["name"],
                role=options["role"],
                expires_at=timezone.now() + lasts if lasts else None,
            )
        except TokenError as error:
            raise CommandError(str(error), returncode=2) from error
        self.stderr.write("Keep this token: it is shown only now.")
        self.stdout.write(secret)


def _days(text: str) -> timedelta:
    if not text.isascii() or not text.isdecimal() or not 0 < int(text) <= 36500:
        raise argparse.ArgumentTypeError("give a whole number of days, at least 1")
    return timedelta(days=int(text))
