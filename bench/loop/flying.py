"""Flies arms in a process of its own: ``python -m bench.loop.flying JSON``.

It writes a line of JSON for each tick that passed, {"arm", "tick"}, and one for each
arm that is over, {"arm", "flown"}.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from functools import partial
from typing import Any

import django
from django.core.management import call_command

from bench.loop.arms import ARMS


def main(wanted: dict[str, Any]) -> None:
    """Fly the wanted arms one after the other against one database."""
    from bench.loop.flight import fly
    from zoea.commandline import database

    with database():
        call_command("migrate", verbosity=0, interactive=False)
        for arm in ARMS:
            if arm.letter not in wanted["arms"]:
                continue
            flown = asyncio.run(fly(arm, wanted, partial(_ticked, arm.letter)))
            say(arm=arm.letter, flown=flown.document())


def _ticked(letter: str, tick: int) -> None:
    say(arm=letter, tick=tick)


def say(**what: Any) -> None:
    """One line to whoever started this."""
    sys.stdout.write(f"{json.dumps(what)}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "zoea.settings")
    # Ends by an exception, so that the database is ended too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    django.setup()
    main(json.loads(sys.argv[1]))
