"""``manage.py assemble``: what a model would be sent of a history in a file."""

from __future__ import annotations

import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from memory.management import assembly


class Command(BaseCommand):
    """The place in ``manage.py help``; ``manage.py`` itself skips Django for it."""

    help = assembly.HELP
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        assembly.add_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        """Write the result to standard output, or end with status 2."""
        status = assembly.assemble_file(options["file"], jsonl=options["jsonl"])
        if status:
            sys.exit(status)
