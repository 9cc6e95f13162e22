"""The queue of a large fleet, on its real tables: ``python -m bench.job_queue``.

Jobs of waiting Myses, most of them due later, are put into procrastinate's own tables,
and its own functions do what a worker does: fetch, finish, queue the next. The result is
how long each takes, by the number of waiting Myses, for all queues and for one shard.
Nothing is a model of the queue: only the turns themselves are left out.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from django.db import connection, transaction

from bench.figures import Step
from bench.processes import migrated_database, run_function

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


def measure(step: Step) -> list[dict[str, Any]]:
    """The milliseconds to fetch a job, and to end it and queue the next, by size."""
    found = []
    with migrated_database(step):
        for size in SIZES:
            step(f"Queueing {size:,} jobs")
            fill_queue(size)
            whole, shard = hand_out_jobs(None), hand_out_jobs(["turns-0"])
            found.append({"waiting": size, "as it is": whole, "in a shard": shard})
    return found


def fill_queue(size: int) -> None:
    """Replace all jobs by so many waiting ones."""
    run_statement("TRUNCATE procrastinate_jobs, procrastinate_events CASCADE")
    run_statement(FILL, {"shards": SHARDS, "due": DUE_EVERY, "count": size})
    run_statement("VACUUM ANALYZE procrastinate_jobs")


def hand_out_jobs(queues: list[str] | None) -> dict[str, float]:
    """The medians of both ways in milliseconds, and the rows that one fetch reads.

    Each job is followed by another: after the first rounds those that are due stand
    behind all that wait, as in a fleet that has flown for a while.
    """
    ways = [hand_out_job(queues) for _ in range(WARM + HANDED_OUT)][WARM:]
    return {
        "fetch": statistics.median(fetch for fetch, _ in ways) * 1000,
        "end": statistics.median(end for _, end in ways) * 1000,
        "rows": count_rows_read(queues),
    }


def hand_out_job(queues: list[str] | None) -> tuple[float, float]:
    """The seconds to fetch a job, and to end it and queue the next of its Mysis."""
    begun = time.perf_counter()
    job = run_statement(FETCH, [queues])
    fetched = time.perf_counter()
    if job[0] is None:
        raise RuntimeError("No job is due.")
    run_statement("SELECT procrastinate_finish_job_v1(%s, 'succeeded', true)", [job[0]])
    run_statement(NEXT, {"queue": job[1], "lock": job[2], "args": _as_json(job[3])})
    return fetched - begun, time.perf_counter() - fetched


@transaction.atomic
def count_rows_read(queues: list[str] | None) -> float:
    """How many rows of the queue one fetch reads, as PostgreSQL counts them."""
    before = run_statement(READ)[0]
    run_statement(FETCH, [queues])
    read: float = run_statement(READ)[0] - before
    transaction.set_rollback(True)
    return read


def _as_json(value: Any) -> str:
    # The driver may have parsed the column already.
    return value if isinstance(value, str) else json.dumps(value)


def run_statement(sql: str, values: Any = None) -> Any:
    """Run one statement; its first row, if it has any."""
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        return cursor.fetchone() if cursor.description else None


if __name__ == "__main__":
    argparse.ArgumentParser(prog="bench.job_queue", description=__doc__).parse_args()
    with tempfile.TemporaryDirectory(prefix="zoea-bench-") as folder:
        result = run_function("bench.job_queue:measure", Path(folder), print)
    sys.stdout.write(f"{json.dumps(result)}\n")
