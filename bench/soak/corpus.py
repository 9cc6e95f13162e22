"""A database of very many memories, with the turns and events of as long a time.

Everything here runs in a process with Django; see ``bench.processes``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from asgiref.sync import sync_to_async
from django.db import connection
from django.db.backends.utils import CursorWrapper

from agents import actions
from agents.game.sessions import get_pool
from agents.models import Mysis
from bench import turns
from bench.figures import Step
from bench.memory import ELSEWHERE, LIMIT, NEVER, WORDS, Size, fill_corpus, make_word
from bench.pages import scenes
from bench.processes import migrated_database, run_game
from bench.soak.watch import describe_times, measure_tables, time_tasks
from memory.models import HistorySummary
from memory.search.results import search_messages

#: Memories for each turn, and events of each; as the pilot flies.
MEMORIES_A_TURN, EVENTS_A_TURN = 3, 3
#: How many of the newest memories a summary covers, but for the last ones.
COVERED, UNCOVERED = 2_000, 60
SEARCHES, TURNS, WARM_TURNS = 60, 25, 5

FILL_TURNS = """
INSERT INTO agents_turn (mysis_id, number, epoch, trigger, outcome, iterations,
  input_tokens, output_tokens, cached_tokens, cost, latency_ms, error, started_at,
  finished_at)
SELECT mysis.id, n, 0, 'nudge', 'done', 2, 5200, 240, 0, 0.004, 4321, '', at,
  at + interval '9 seconds'
FROM generate_series(1, %(turns)s) AS n CROSS JOIN agents_mysis AS mysis,
  LATERAL (SELECT now() - interval '1 hour' - %(days)s * interval '1 day'
    * (1 - n::float8 / %(turns)s) AS at) AS moment
ORDER BY n, mysis.id
"""
FILL_CALLS = """
INSERT INTO agents_modelcall (turn_id, kind, number, model, input_tokens,
  output_tokens, cached_tokens, cost, latency_ms, finish_reason, error, created_at)
SELECT id, 'turn', 1, 'pilot', 5200, 240, 0, 0.004, 4321, 'stop', '', started_at
FROM agents_turn ORDER BY id
"""
FILL_EVENTS = """
INSERT INTO agents_event (kind, mysis_id, data, created_at)
SELECT 'tool.called', mysis_id, jsonb_build_object('tool',
  CASE n WHEN 1 THEN 'mine' ELSE 'get_status' END, 'arguments',
  '{}'::jsonb, 'ok', true, 'ms', 12, 'turn', id), started_at
FROM agents_turn CROSS JOIN generate_series(1, %(events)s) AS n ORDER BY id, n
"""
COUNT_TURNS = """
UPDATE agents_mysis AS mysis SET last_memory_at = now(), turn_count = (
  SELECT max(number) FROM agents_turn WHERE mysis_id = mysis.id)
"""
#: But those that a constraint needs, and those of some rows alone: these hold few of the
#: made-up ones, and the server does not write their conditions as they were given.
INDEXES = """
SELECT indexrelid::regclass::text, pg_get_indexdef(indexrelid) FROM pg_index
WHERE indrelid = %s::regclass AND NOT indisunique AND indpred IS NULL
"""


def make_database(step: Step, *words: str) -> dict[str, Any]:
    """Make everything, in bulk and with the indexes after; how many memories."""
    size = Size(*map(int, words))
    with migrated_database(step):
        step(f"Making {size.rows:,} memories of {size.myses} Myses, once")
        fill_corpus(size)
        step("Making their turns, calls and events")
        fill_rest(size)
    return {"rows": size.rows}


def fill_rest(size: Size) -> None:
    """All but the memories."""
    with connection.cursor() as cursor:
        fill_turns(cursor, size)
        for mysis in Mysis.objects.all():
            scenes.add_account(mysis)
            scenes.add_turns(mysis)
            add_summary(mysis)
        cursor.execute(COUNT_TURNS)
        cursor.execute("VACUUM ANALYZE")
        cursor.execute("CHECKPOINT")


def fill_turns(cursor: CursorWrapper, size: Size) -> None:
    """Turns, calls and events over the time of the memories."""
    each = max(1, size.rows // size.myses // MEMORIES_A_TURN)
    with _indexed_after(cursor, "agents_turn"):
        cursor.execute(FILL_TURNS, {"turns": each, "days": size.days})
    with _indexed_after(cursor, "agents_modelcall"):
        cursor.execute(FILL_CALLS)
    with _indexed_after(cursor, "agents_event"):
        cursor.execute(FILL_EVENTS, {"events": EVENTS_A_TURN})


def add_summary(mysis: Mysis) -> None:
    """A summary of the memories before the newest ones, as in a long game."""
    ids = mysis.memories.order_by("-pk").values_list("pk", flat=True)
    # What a summary in use covers is not pruned: a short log has a shorter one.
    most = min(COVERED, ids.count() // 2)
    covered = list(ids[UNCOVERED : UNCOVERED + most])
    if covered:
        HistorySummary.objects.create(
            mysis=mysis,
            first_id=covered[-1],
            through_id=covered[0],
            generation=1,
            text="Much was done.",
            status=HistorySummary.Status.ACTIVE,
            history_hash="",
        )


@contextmanager
def _indexed_after(cursor: CursorWrapper, table: str) -> Iterator[None]:
    """Fill a table within the block without its indexes, and make them after it."""
    cursor.execute(INDEXES, [table])
    indexes = cursor.fetchall()
    for name, _ in indexes:
        cursor.execute(f"DROP INDEX {name}")
    yield
    for _, definition in indexes:
        cursor.execute(definition)


# --- What is measured in the process itself


def measure_searches(step: Step) -> dict[str, Any]:
    """Milliseconds of each question, and what the tables weigh."""
    with migrated_database(step):
        longest, usual = Mysis.objects.order_by("pk").values_list("pk", flat=True)[:2]
        step("Searching")
        times = {}
        for name, words in _list_words().items():
            times[f"search, one Mysis: {name}"] = _time_searches(words, usual)
            times[f"search, fleet: {name}"] = _time_searches(words, None)
        name = "search, longest Mysis: a word of others"
        times[name] = _time_searches([ELSEWHERE], longest)
        connection.ensure_connection()
        return {
            "times": times,
            "tables": measure_tables(connection.connection),
            "mysis": usual,
        }


def _list_words() -> dict[str, list[str]]:
    words = {name: [make_word(rank) for rank in ranks] for name, ranks in WORDS.items()}
    return words | {"absent": [NEVER]}


def _time_searches(words: list[str], mysis: int | None) -> dict[str, float]:
    def search(number: int) -> object:
        text = words[number % len(words)]
        return search_messages(query=text, mysis_id=mysis, limit=LIMIT)

    return time_tasks(search, SEARCHES, warm=len(words))


def measure_turns(step: Step, number: str) -> dict[str, float]:
    """Milliseconds of turns of a Mysis in which neither model nor game is waited for."""
    with migrated_database(step), run_game(turns.QUICK_TICK):
        step("Taking turns")
        # This game does not know the account that it was given for the pages.
        Mysis.objects.filter(pk=number).update(account=None)
        turns.time_waits()
        return describe_times(asyncio.run(_take_turns(int(number))))


async def _take_turns(mysis: int) -> list[float]:
    await turns.wait_for_game()
    found = [await turns.time_turn(mysis) for _ in range(WARM_TURNS + TURNS)]
    await get_pool().close()
    row = await sync_to_async(Mysis.objects.get)(pk=mysis)
    await sync_to_async(actions.stop_mysis)(mysis=row, by="bench")
    return [1000 * turns.measure_overhead(each) for each in found[WARM_TURNS:]]
