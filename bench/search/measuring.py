"""Measures a long memory: ``python -m bench.search.measuring ROWS MYSES LONGEST``.

A program of its own, because Django is set up once in a process. It writes a line for
each step and the result as JSON in the last one; see ``figures_of`` in this package's
``part``.
"""

from __future__ import annotations

import json
import os
import signal
import statistics
import sys
from collections.abc import Callable
from time import perf_counter
from typing import Any

import django

from bench.search.corpus import ELSEWHERE, Size, fill, word
from bench.search.inserting import inserts

#: Ranks of words: the most common one, and each a hundred times rarer.
WORDS = {"common": (1, 2, 3), "medium": (900, 1000, 1100), "rare": (15_000, 18_000)}
NEVER = "kaqqqnever"
LIMIT = 20
REPEATS = 40
FEW = 5
RAW = (
    "SELECT id, content FROM memory_memory WHERE mysis_id = %s AND content_vector @@ "
    "websearch_to_tsquery('simple', %s) ORDER BY id DESC LIMIT %s"
)
RAW_FLEET = (
    "SELECT id, content FROM memory_memory WHERE content_vector @@ "
    "websearch_to_tsquery('simple', %s) ORDER BY id DESC LIMIT %s"
)
ILIKE = (
    "SELECT id, content FROM memory_memory WHERE mysis_id = %s AND content ILIKE %s "
    "ORDER BY id DESC LIMIT %s"
)
ILIKE_FLEET = (
    "SELECT id, content FROM memory_memory WHERE content ILIKE %s "
    "ORDER BY id DESC LIMIT %s"
)

Times = dict[str, float]


def main(size: Size) -> None:
    """Have the corpus, measure, and write milliseconds by question."""
    from zoea.commandline import database

    found: dict[str, Any]
    with database():
        say(f"Making {size.rows:,} memories of {size.myses} Myses, once")
        myses = list(fill(size).values())
        say(f"Searching {size.rows:,} memories")
        found = {"searches": searches(myses[0], myses[1])}
        say("Storing messages")
        found["inserts"] = inserts(myses[1])
        say(json.dumps(found))


def searches(longest: int, usual: int) -> dict[str, dict[str, Times]]:
    """Each question: ours, and the baselines beside it."""
    found: dict[str, dict[str, Times]] = {}
    for name, ranks in WORDS.items():
        found[f"one Mysis: {name}"] = asked([word(rank) for rank in ranks], usual)
        found[f"fleet: {name}"] = asked([word(rank) for rank in ranks], None)
    found["longest Mysis: common"] = asked([word(rank) for rank in (1, 2, 3)], longest)
    found["longest Mysis: only elsewhere"] = asked([ELSEWHERE], longest)
    found["longest Mysis: exact, never"] = exactly(f"{NEVER}%", longest, FEW)
    found["longest Mysis: exact, common"] = exactly(word(10), longest, REPEATS)
    return found


def asked(words: list[str], mysis: int | None) -> dict[str, Times]:
    """Full-text search, beside plain SQL and a scan."""
    from memory.search.results import search_messages

    def raw(text: str) -> object:
        values = (text, LIMIT) if mysis is None else (mysis, text, LIMIT)
        return rows(RAW_FLEET if mysis is None else RAW, values)

    def scan(text: str) -> object:
        values = (f"%{text}%", LIMIT)
        if mysis is None:
            return rows(ILIKE_FLEET, values)
        return rows(ILIKE, (mysis, *values))

    def ours(text: str) -> object:
        return search_messages(query=text, mysis_id=mysis, limit=LIMIT)

    return {
        "ours": times(ours, words, REPEATS),
        "plain SQL": times(raw, words, FEW),
        "ILIKE": times(scan, words, FEW),
    }


def exactly(text: str, mysis: int, repeats: int) -> dict[str, Times]:
    """Exact search, beside a scan."""
    from memory.search.results import search_messages

    def ours(query: str) -> object:
        return search_messages(query=query, mode="exact", mysis_id=mysis, limit=LIMIT)

    def scan(query: str) -> object:
        return rows(ILIKE, (mysis, f"%{query}%", LIMIT))

    return {
        "ours": times(ours, [text], repeats),
        "ILIKE": times(scan, [text], FEW),
    }


def times(ask: Callable[[str], object], words: list[str], repeats: int) -> Times:
    """Median and p95 in milliseconds, after one question of each word to warm up."""
    for text in words:
        ask(text)
    found = []
    for turn in range(repeats):
        begun = perf_counter()
        ask(words[turn % len(words)])
        found.append((perf_counter() - begun) * 1000)
    found.sort()
    return {
        "median": statistics.median(found),
        "p95": found[min(len(found) - 1, int(len(found) * 0.95))],
    }


def rows(text: str, values: tuple[Any, ...]) -> object:
    """What plain psycopg brings."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(text, values)
        return cursor.fetchall()


def say(line: str) -> None:
    """Tell whoever started this."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    # Ends by an exception, so that the database is let go of too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "zoea.settings")
    django.setup()
    main(Size(*(int(each) for each in sys.argv[1:4])))
