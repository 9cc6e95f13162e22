"""Measures the surfaces: ``python -m bench.surfaces.measuring``.

A program of its own, because Django is set up once in a process. It writes a line for
each step and the result as JSON in the last one.
"""

from __future__ import annotations

import json
import os
import signal
import sys

import django
from django.core.management import call_command


def main() -> None:
    """Serve an empty database, measure, and write what came."""
    from bench.surfaces.sockets import sockets
    from bench.surfaces.summaries import prepare, summaries
    from tests.server import running
    from zoea.auth import create_token
    from zoea.commandline import database

    with database():
        call_command("migrate", verbosity=0, interactive=False)
        prepare()
        token = create_token(name="bench", role="viewer")[1]
        with running("--verbosity=0") as server:
            say("Fetching summaries")
            asked = summaries(server, token)
            say("Sending events to many")
            found = {"summaries": asked, "sockets": sockets(server, token)}
        say(json.dumps(found))


def say(line: str) -> None:
    """Tell whoever started this."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    # Ends by an exception, so that the database is let go of too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "zoea.settings")
    django.setup()
    main()
