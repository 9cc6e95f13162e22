"""``manage.py restore``: bring a backup into an empty database."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from zoea.backups import BackupError, restore_backup


class Command(BaseCommand):
    help = (
        "Bring a file of `backup` into an empty database: all of it or nothing. `up` "
        "then migrates it, and the fleet flies on."
    )
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, metavar="FILE", help="made by `backup`")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            restore_backup(options["file"])
        except BackupError as error:
            raise CommandError(str(error)) from error
        self.stdout.write("Restored. `manage.py up` brings it up to date and flies on.")
