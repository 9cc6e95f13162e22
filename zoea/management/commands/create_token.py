"""``manage.py create_token``: an API token for a program."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone

from memory.management.terminal import ActingCommand
from zoea.auth import TokenError, create_token
from zoea.commandline import parse_whole
from zoea.models import Role


class Command(ActingCommand):
    help = "Make an API token and print it, once; only its hash is stored."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="What the token is called; unique.")
        parser.add_argument(
            "--role",
            required=True,
            choices=Role.labels,
            help="viewer reads; operator also steers Myses; admin also edits.",
        )
        parser.add_argument(
            "--days",
            type=parse_whole(1, 36500, "give a whole number of days, at least 1"),
            help="How long it works; without this, until revoked.",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Print the token on standard output, and nothing else there."""
        days: int | None = options["days"]
        try:
            _, secret = create_token(
                name=options["name"],
                role=options["role"],
                expires_at=timezone.now() + timedelta(days) if days else None,
            )
        except TokenError as error:
            raise CommandError(str(error), returncode=2) from error
        self.stderr.write("Keep this token: it is shown only now.")
        self.stdout.write(secret)
