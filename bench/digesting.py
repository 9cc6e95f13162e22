"""Measures merges out of a real database: ``python -m bench.digesting``.

A program of its own, because Django is set up once in a process. It writes a line
for each step and the result as JSON in the last one; see ``merging``.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from datetime import timedelta
from functools import partial
from itertools import count
from typing import Any

import django
from django.core.management import call_command
from django.utils import timezone

from bench.growing import say
from bench.timing import Task, medians

FEW, MANY, FULL = 10, 1_000, 2_000
REPEATS = 9
HOLD = [{"item_id": "ore_iron", "name": "Iron Ore", "quantity": 3, "size": 1}]
SHIP = {"hull": 100, "shield": 50, "fuel": 90, "cargo_used": 3, "cargo": HOLD}
ANSWERS: dict[str, dict[str, Any]] = {
    "get_status": {"player": {"credits": 5, "current_poi": "belt"}, "ship": SHIP},
    "get_ship": {"ship": SHIP},
    "get_cargo": {"cargo": HOLD, "used": 3, "available": 47},
    "get_poi": {"poi": {"id": "belt"}, "resources": [{"resource_id": "ore_iron"}]},
    "get_nearby": {"nearby": [], "count": 0, "poi_id": "belt"},
    "get_skills": {"player_skills": []},
    "view_market": {"items": []},
}
TOLD: tuple[tuple[str, dict[str, Any]], ...] = (
    ("mining_yield", {"resource_id": "ore_iron", "quantity": 1, "remaining": 9}),
    ("pirate_combat", {"player_hull": 90, "player_shield": 9}),
    ("poi_arrival", {"username": "Ben", "poi_id": "belt"}),
    ("poi_departure", {"username": "Ben", "poi_id": "belt"}),
    ("chat_message", {"content": "Hello"}),
)
numbers = count()


def main() -> None:
    """Fill a database, measure, and write seconds by the number of events."""
    from zoea.commandline import database

    with database():
        say("Migrating")
        call_command("migrate", verbosity=0, interactive=False)
        say("Storing events")
        for number in (FEW, MANY, FULL):
            told_before(f"Pilot {number}", number)
        say("Merging events")
        tasks: dict[str, Task] = {
            str(number): partial(tell, f"Pilot {number}", 1)
            for number in (FEW, MANY, FULL)
        }
        say(json.dumps(medians(tasks, REPEATS)))


def told_before(username: str, number: int) -> None:
    """An account that has asked for everything, and was told so many events since."""
    from memory.gamestate.extract import read_result
    from memory.snapshots import writes as state

    for tool, answer in ANSWERS.items():
        text = json.dumps(answer)
        state.capture(
            username=username, tool=tool, args={}, text=text, result=read_result(text)
        )
    while number > 0:
        tell(username, min(number, 500))
        number -= 500


def tell(username: str, number: int) -> None:
    """An answer of get_notifications with so many new events."""
    from memory.gamestate.extract import read_result
    from memory.snapshots import notifications as digest

    now = timezone.now() + timedelta(seconds=1)
    items = []
    for place in range(number):
        kind, data = TOLD[place % len(TOLD)]
        moment = now + timedelta(milliseconds=place)
        items.append(
            {
                "id": str(next(numbers)),
                "msg_type": kind,
                "timestamp": moment.isoformat(),
                "data": data,
            }
        )
    answer = {"notifications": items, "current_tick": 100}
    digest.merge(username=username, result=read_result(answer))


if __name__ == "__main__":
    # Ends by an exception, so that the database is let go of too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "zoea.settings")
    django.setup()
    main()
