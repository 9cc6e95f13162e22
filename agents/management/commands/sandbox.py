"""``manage.py sandbox``: run the local game server."""

from __future__ import annotations

import logging
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from sandbox.game.run import HELP, CannotStart, add_arguments, run

logger = logging.getLogger(__name__)


class Command(BaseCommand):
    """Serves a game over MCP; needs neither the database nor the settings' checks."""

    help = HELP
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        add_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        """Run until SIGTERM or SIGINT; exit status 2 if it cannot start."""
        try:
            run(options, self._announce)
        except CannotStart as error:
            raise CommandError(str(error), returncode=2) from None

    def _announce(self, line: str) -> None:
        if settings.ZOEA_LOG_FORMAT == "json":
            logger.info(line)
            return
        self.stdout.write(line)
        self.stdout.flush()
