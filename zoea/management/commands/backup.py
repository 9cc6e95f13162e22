"""``manage.py backup``: the whole database in one file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.db import connection

from memory import audit
from memory.management.terminal import ActingCommand
from memory.models import AuditEntry
from zoea.backups import BackupError, write_backup


class Command(ActingCommand):
    help = (
        "Write the database as it is at this moment into a new file, also while the "
        "fleet flies. The key is not in it: keep secret.key or ZOEA_SECRET_KEY too."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, metavar="FILE", help="a new file")

    def handle(self, *args: Any, **options: Any) -> None:
        file: Path = options["file"]
        try:
            size = write_backup(file)
        except BackupError as error:
            raise CommandError(str(error)) from error
        # There is none yet before an old database is brought up to date.
        if AuditEntry._meta.db_table in connection.introspection.table_names():
            audit.record("backup", after={"file": file.name})
        self.stdout.write(f"{file}: {size:,} bytes")
