"""The queue of a large fleet, on its real tables: ``python -m bench.queueing``.

Jobs as those of waiting Myses are put into procrastinate's own tables, most of them due
later, and a worker's way is gone with its own functions: fetch, finish, queue the next.
What comes out is how many turns a second one connection can hand out, by the number of
Myses that wait, from all queues and from one of so many shards.
Nothing of it is a model: only the turns themselves are left out.
"""

from __future__ import annotations

import json
import os
import signal
import statistics
import sys
import time
from typing import Any

import django
from django.core.management import call_command
from django.db import connection, transaction

from bench.growing import say

SIZES = (1_000, 10_000, 100_000)
SHARDS = 32
#: Of the waiting Myses of a shard one in so many is due at any moment.
DUE_EVERY = 500
WARM, HANDED_OUT = 300, 100

FILL = """
INSERT INTO procrastinate_jobs
  (queue_name, task_name, lock, args, status, scheduled_at, priority)
SELECT 'turns-' || n %% %(shards)s, 'agents.tasks.take_turn', 'mysis-' || n,
  jsonb_build_object('mysis_id', n, 'trigger', 'nudge'), 'todo',
  CASE WHEN (n / %(shards)s) %% %(due)s = 0 THEN now() - interval '1 second'
       ELSE now() + random() * interval '1 hour' END, 0
FROM generate_series(0, %(count)s - 1) AS n
"""
FETCH = """
SELECT id, queue_name, lock, args FROM procrastinate_fetch_job_v2(%s, NULL)
"""
READ = """
SELECT seq_tup_read + coalesce(idx_tup_fetch, 0) FROM pg_stat_xact_user_tables
WHERE relname = 'procrastinate_jobs'
"""
NEXT = """
SELECT procrastinate_defer_jobs_v1(ARRAY[ROW(
  %(queue)s, 'agents.tasks.take_turn', 0, %(lock)s, NULL, %(args)s::jsonb, now()
)::procrastinate_job_to_defer_v1])
"""


def main() -> None:
    """Fill, hand out, write the milliseconds of each way as JSON."""
    from zoea.commandline import database

    with database():
        say("Migrating")
        call_command("migrate", verbosity=0, interactive=False)
        say(json.dumps([measured(size) for size in SIZES]))


def measured(size: int) -> dict[str, Any]:
    """The milliseconds to fetch a job, and to end it and queue the next, by case."""
    say(f"Queueing {size:,} jobs")
    fill(size)
    found: dict[str, Any] = {"waiting": size, "as it is": handed_out(None)}
    found["in a shard"] = handed_out(["turns-0"])
    return found


def fill(size: int) -> None:
    """Nothing but so many waiting jobs."""
    run("TRUNCATE procrastinate_jobs, procrastinate_events CASCADE")
    run(FILL, {"shards": SHARDS, "due": DUE_EVERY, "count": size})
    run("VACUUM ANALYZE procrastinate_jobs")


def handed_out(queues: list[str] | None) -> dict[str, float]:
    """The medians of both ways in milliseconds, and the rows that one fetch reads.

    Each job is followed by another: after the first rounds those that are due stand
    behind all that wait, as in a fleet that has flown for a while.
    """
    ways = [one_job(queues) for _ in range(WARM + HANDED_OUT)][WARM:]
    return {
        "fetch": statistics.median(fetch for fetch, _ in ways) * 1000,
        "end": statistics.median(end for _, end in ways) * 1000,
        "rows": rows_read(queues),
    }


def one_job(queues: list[str] | None) -> tuple[float, float]:
    """The seconds to fetch a job, and to end it and queue the next of its Mysis."""
    begun = time.perf_counter()
    job = run(FETCH, [queues])
    fetched = time.perf_counter()
    if job[0] is None:
        raise RuntimeError("No job is due.")
    run("SELECT procrastinate_finish_job_v1(%s, 'succeeded', true)", [job[0]])
    run(NEXT, {"queue": job[1], "lock": job[2], "args": as_json(job[3])})
    return fetched - begun, time.perf_counter() - fetched


@transaction.atomic
def rows_read(queues: list[str] | None) -> float:
    """How many rows of the queue one fetch reads, as PostgreSQL counts them."""
    before = run(READ)[0]
    run(FETCH, [queues])
    read: float = run(READ)[0] - before
    transaction.set_rollback(True)
    return read


def as_json(value: Any) -> str:
    """A column of JSON as text, whatever the driver made of it."""
    return value if isinstance(value, str) else json.dumps(value)


def run(sql: str, values: Any = None) -> Any:
    """One statement; its first row, if it has any."""
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        return cursor.fetchone() if cursor.description else None


if __name__ == "__main__":
    # Ends by an exception, so that the database is let go of too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "zoea.settings")
    django.setup()
    main()
