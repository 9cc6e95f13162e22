"""Measures contexts out of a real database: ``python -m bench.growing``.

A program of its own, because Django is set up once in a process. It writes a line
for each step and the result as JSON in the last one; see ``growth``.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from functools import partial
from typing import Any

import django
from django.core.management import call_command
from django.db import connection

from bench.logs import Log, played, stored_calls
from bench.prefixes import SUMMARY
from bench.timing import Task, medians
from memory.context.types import Message

FEW, MANY = 1_000, 100_000
#: Messages that are newer than the summary.
UNCOVERED = 200
REPEATS = 25
STRATEGIES = ("window", "snapshot-window", "tiered", "summary")


def main() -> None:
    """Fill a database, measure, and write seconds by strategy and length."""
    from zoea.commandline import database

    with database():
        say("Migrating")
        call_command("migrate", verbosity=0, interactive=False)
        many = played(MANY)
        # Both end alike, so that nothing but the length differs.
        myses = {count: stored(many[-count:]) for count in (FEW, MANY)}
        with connection.cursor() as cursor:
            cursor.execute("VACUUM ANALYZE memory_memory")
        say("Preparing contexts")
        say(json.dumps(measured(myses)))


def measured(myses: dict[int, int]) -> dict[str, dict[str, Any]]:
    """The median seconds of ``prepare``, and how many messages it read."""
    from memory.assembly.prepare import Subject
    from memory.assembly.prepare import prepare_request as prepare

    found: dict[str, dict[str, Any]] = {}
    for strategy in STRATEGIES:
        subjects = {
            count: Subject(mysis, "Ada", "You are Ada.", strategy=strategy)
            for count, mysis in myses.items()
        }
        tasks: dict[str, Task] = {
            str(count): partial(prepare, subject) for count, subject in subjects.items()
        }
        rows = {
            str(count): len(prepare(each).request.messages)
            for count, each in subjects.items()
        }
        found[strategy] = {"seconds": medians(tasks, REPEATS), "rows": rows}
    return found


def stored(log: Log) -> int:
    """A Mysis with this log, and a summary of all but the newest of it; its id."""
    from agents.models import Mysis
    from memory.models import HistorySummary, Memory

    say(f"Storing {len(log):,} messages")
    mysis = Mysis.objects.create(name=f"With {len(log)} memories").pk
    columns = ", ".join(row_of(mysis, log[0]))
    with (
        connection.cursor() as cursor,
        cursor.copy(f"COPY memory_memory ({columns}) FROM STDIN") as copy,
    ):
        for message in log:
            copy.write_row(tuple(row_of(mysis, message).values()))
    ids = Memory.objects.filter(mysis_id=mysis).values_list("pk", flat=True)
    HistorySummary.objects.create(
        mysis_id=mysis,
        first_id=ids.order_by("pk")[0],
        through_id=ids.order_by("-pk")[UNCOVERED],
        generation=1,
        text=SUMMARY,
        history_hash="",
    )
    return mysis


def row_of(mysis: int, message: Message) -> dict[str, object]:
    """The columns of a stored message."""
    return {
        "mysis_id": mysis,
        "role": message.role,
        "origin": message.origin,
        "sender": "",
        "content": message.content,
        "reasoning": "",
        "signature": "",
        "tool_calls": json.dumps(stored_calls(message)),
        "tool_call_id": message.tool_call_id or "",
        "tool_name": "",
        "args": "{}",
        "is_error": False,
        "pending": False,
        "tick": message.tick,
        "tokens": 0,
        "created_at": "2026-02-05T00:00:00Z",
    }


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
