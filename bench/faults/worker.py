"""A worker on a machine whose clock is off, or with less patience for others.

``python -m bench.faults.worker CLOCK STALLED WORDS...``: the clock is so many seconds off,
and a worker is gone after so many seconds without a heartbeat, or three to four times
as many if it holds its lock; the words are those of ``manage.py``.
"""

from __future__ import annotations

import os
import sys
from datetime import datetime, timedelta

HEARTBEATS = 4
"""How many a worker has missed when it is gone, about as in the program itself."""


def main(clock: float, stalled: float, words: list[str]) -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "zoea.settings")
    import django

    django.setup()
    from django.core.management import execute_from_command_line
    from django.utils import timezone
    from procrastinate.contrib.django import app

    from agents.runtime import recovery

    true = timezone.now

    def now() -> datetime:
        return true() + timedelta(seconds=clock)

    timezone.now = now
    # One that holds its lock, as it may only be starved, has as much less.
    recovery.STARVED_SECONDS *= stalled / recovery.STALLED_SECONDS
    recovery.STALLED_SECONDS = stalled
    recovery.INTERVAL = stalled / HEARTBEATS
    app.worker_defaults["update_heartbeat_interval"] = stalled / HEARTBEATS
    execute_from_command_line(["manage.py", *words])


if __name__ == "__main__":
    main(float(sys.argv[1]), float(sys.argv[2]), sys.argv[3:])
