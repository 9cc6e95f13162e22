#!/usr/bin/env python
"""The command line of Zoea: ``python manage.py help``."""

from __future__ import annotations

import os
import signal
import sys
from typing import NoReturn


def main() -> None:
    """Run one management command, with its database."""
    if sys.argv[1:2] == ["up"]:
        # It ends with status 0 when asked to, from its first moment on.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, _leave)
    if sys.argv[1:2] == ["assemble"]:
        # It needs neither settings nor a database, and starts without them.
        from memory.management.assembly import main as assemble

        sys.exit(assemble(sys.argv[2:]))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "zoea.settings")
    from zoea.commandline import run_command

    if sys.argv[1:2] == ["up"]:
        # It outlives all that it starts, and works with none of the models.
        from zoea.management.commands.up import Command

        sys.exit(run_command(sys.argv, Command().run_from_argv))
    sys.exit(run_command(sys.argv))


def _leave(number: int, frame: object) -> NoReturn:
    sys.exit(0)


if __name__ == "__main__":
    main()
