"""What a message costs to store, with all the indexes and with none."""

from __future__ import annotations

import statistics
from random import Random
from time import perf_counter

from django.db import connection

from bench.search.corpus import COLUMNS, Size, rows

REPEATS = 1_500
BARE = """
CREATE TABLE bench_bare AS
SELECT id, mysis_id, role, origin, sender, content, reasoning, signature, tool_calls,
  tool_call_id, tool_name, args, is_error, pending, tokens, created_at
FROM memory_memory WITH NO DATA
"""

Times = dict[str, float]


def inserts(mysis: int) -> dict[str, Times]:
    """One row a transaction, ours and bare by turns; what was stored is removed.

    The bare table is logged as ours is, so that both wait for the disk alike.
    """
    values = rows(Size(REPEATS, 2, REPEATS // 2), [mysis, mysis])
    marks = ", ".join(["%s"] * len(COLUMNS.split(", ")))
    found: dict[str, list[float]] = {"ours": [], "bare": []}
    tables = {"ours": "memory_memory", "bare": "bench_bare"}
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS bench_bare")
        cursor.execute(BARE)
        cursor.execute("SELECT max(id) FROM memory_memory")
        (newest,) = cursor.fetchone() or (0,)
        dice = Random(1)  # noqa: S311
        for row in values:
            for name in dice.sample(sorted(tables), 2):
                text = f"INSERT INTO {tables[name]} ({COLUMNS}) VALUES ({marks})"  # noqa: S608
                begun = perf_counter()
                cursor.execute(text, row)
                found[name].append((perf_counter() - begun) * 1000)
        cursor.execute("DELETE FROM memory_memory WHERE id > %s", [newest])
        cursor.execute("DROP TABLE bench_bare")
    return {name: told(sorted(times)) for name, times in found.items()}


def told(times: list[float]) -> Times:
    """The mean, and how long the slowest took."""
    return {
        "mean": statistics.fmean(times),
        "median": statistics.median(times),
        "p999": times[int(len(times) * 0.999)],
        "worst": times[-1],
    }
