"""Measures the pages: ``python -m bench.pages.measuring``.

A program of its own, because Django is set up once in a process. It writes a line for
each step and the result as JSON in the last one. 180 Myses rest; 20 fly with the pilot
in a local game of 10 s ticks, on one worker as ``up`` starts it, and they are among the
first on the page.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

import django
from django.core.management import call_command

from bench import turning
from bench.growing import say
from bench.page import weigh
from bench.timing import Task, medians

if TYPE_CHECKING:
    from bench.pages.visits import Site

RESTING, FLYING = 180, 20
WARM_TURNS, WARM_SECONDS = 2, 300.0
WATCHED_SECONDS, PAINTED_SECONDS = 20.0, 60.0
VIEWERS = (0, 1, 10)
FEW, MANY = 100, 100_000
PAGES = {"the page": "", "the Context page": "context/"}
OPENED = 25


def main() -> None:
    """Fill a database, let a fleet fly, look at it, and write what it cost."""
    from bench.pages import scene
    from bench.pages.visits import Site
    from tests.server import running
    from zoea.commandline import database

    with database():
        say("Migrating")
        call_command("migrate", verbosity=0, interactive=False)
        say(f"Making {RESTING + FLYING} Myses")
        remembering = {count: scene.remembering(count) for count in (FEW, MANY)}
        scene.resting(RESTING)
        scene.settled()
        session = scene.signed_in()
        quiet = running("--verbosity=0", PYTHONWARNINGS="ignore")
        with turning.game(turning.TICK), quiet as server:
            site = Site(server, session)
            with turning.worker():
                found = flown(site)
            say("Opening a short and a long memory")
            found["lengths"] = {
                name: opened(site, remembering, page) for name, page in PAGES.items()
            }
        say(json.dumps(found))


def flown(site: Site) -> dict[str, Any]:
    """What is measured while twenty fly."""
    from bench.pages import painting
    from bench.pages.viewers import watched

    say(f"Letting {FLYING} Myses fly at {turning.TICK:g} s a tick")
    warm(turning.made(FLYING, "Busy"))
    say("Looking with nobody, one and ten")
    viewers = {count: watched(site, count, WATCHED_SECONDS) for count in VIEWERS}
    say("Loading the Fleet page")
    weight = weigh(site.visitor(), "/")
    found = {
        "viewers": viewers,
        "weight": {"sent": weight.sent, "requests": weight.requests},
        "frame": site.first_frame(),
        "answers": site.answers("/", "/healthz"),
    }
    say("Painting rows")
    return found | {"painted": painting.painted(site, PAINTED_SECONDS)}


def warm(myses: list[int]) -> None:
    """Wait until all of them fly. Raises RuntimeError where they do not."""
    from agents.models import Turn

    until = time.monotonic() + WARM_SECONDS
    counts: Counter[int] = Counter()
    while time.monotonic() < until:
        done = Turn.objects.filter(mysis__in=myses, finished_at__isnull=False)
        counts = Counter(done.values_list("mysis", flat=True))
        if all(counts[mysis] >= WARM_TURNS for mysis in myses):
            return
        time.sleep(1)
    raise RuntimeError(
        f"{FLYING} Myses took {counts.total()} turns in {WARM_SECONDS:g} s."
    )


def opened(site: Site, remembering: dict[int, int], page: str) -> dict[int, float]:
    """The median seconds of a page of each Mysis, by how much it remembers."""
    tasks: dict[str, Task] = {
        str(count): partial(site.get, f"/myses/{mysis}/{page}")
        for count, mysis in remembering.items()
    }
    return {int(count): found for count, found in medians(tasks, OPENED).items()}


if __name__ == "__main__":
    # Ends by an exception, so that the processes and the database are let go of too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "zoea.settings")
    django.setup()
    main()
