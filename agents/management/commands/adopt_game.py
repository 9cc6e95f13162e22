"""``manage.py adopt_game``: move the fleet of a database to another game, on purpose."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError

from agents.fence import FenceError, adopt_game
from memory import audit
from memory.management.terminal import ActingCommand


class Command(ActingCommand):
    help = (
        "Have the fleet in this database play the game of SPACEMOLT_MCP_URL, or the local "
        "one where that is not set, from now on. End all that takes turns before."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            before, after = adopt_game()
        except FenceError as error:
            raise CommandError(str(error)) from error
        audit.record("game.adopt", before={"game": before}, after={"game": after})
        self.stdout.write(f"From now on the fleet plays {after}.")
