"""A database of very many memories, with the turns and events of as long a time.

Everything here runs in a process with Django; see ``bench.processes``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from random import Random
from time import perf_counter
from typing import Any

from asgiref.sync import sync_to_async
from django.db import connection
from django.db.backends.utils import CursorWrapper

from agents import actions
from agents.game.sessions import get_pool
from agents.models import Mysis
from bench import turns
from bench.figures import Step, describe_times
from bench.fleet import summarise
from bench.pages import scenes
from bench.processes import migrated_database
from memory.search.results import search_messages

SEED = 20_260_205
DAYS = 30
VOCABULARY, SENTENCES, SENTENCE_WORDS = 20_000, 60_000, 12
#: In every fifth row of all Myses but the first one.
ELSEWHERE = "asteroidbelt"
COLUMNS = (
    "mysis_id, role, origin, sender, content, reasoning, signature, tool_calls, "
    "tool_call_id, tool_name, args, is_error, pending, tokens, created_at"
)
#: Ranks of words: the most common ones, and much rarer ones.
WORDS = {"common": (1, 2, 3), "medium": (900, 1000, 1100), "rare": (15_000, 18_000)}
NEVER = "kaqqqnever"
LIMIT = 20
#: Memories for each turn, and events of each; as the pilot flies.
MEMORIES_A_TURN, EVENTS_A_TURN = 3, 3
#: How many memories a summary covers, but for the newest ones.
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


@dataclass(frozen=True, slots=True)
class Size:
    """How many memories of how many Myses; the first Mysis has a thirtieth of them."""

    rows: int
    myses: int

    @property
    def longest(self) -> int:
        return self.rows // 30


def make_database(step: Step, *words: str) -> dict[str, Any]:
    """Make everything, in bulk and with the indexes after; how many memories."""
    size = Size(*map(int, words))
    with migrated_database(step):
        step(f"Making {size.rows:,} memories of {size.myses} Myses, once")
        fill_memories(size)
        step("Making their turns, calls and events")
        fill_rest(size)
    return {"rows": size.rows}


# --- The made-up memories


def make_word(rank: int) -> str:
    """The word of a rank, the most common one is 1: letters alone, no word in another."""
    syllables = ("ka", "ro", "mi", "te", "su", "no", "va", "li", "pe", "du")
    return "".join(syllables[int(digit)] for digit in f"{rank:05}")


def fill_memories(size: Size) -> None:
    Mysis.objects.all().delete()
    names = (f"Mysis {number}" for number in range(1, size.myses + 1))
    myses = [Mysis.objects.create(name=name).pk for name in names]
    with connection.cursor() as cursor:
        with (
            _indexed_after(cursor, "memory_memory"),
            cursor.copy(f"COPY memory_memory ({COLUMNS}) FROM STDIN") as copy,
        ):
            for row in make_rows(size, myses):
                copy.write_row(row)
        cursor.execute("VACUUM ANALYZE memory_memory")


def make_rows(size: Size, myses: list[int]) -> Iterator[tuple[Any, ...]]:
    """The rows, in the order in which they were written."""
    dice = Random(SEED)  # noqa: S311 (it is to be repeatable)
    said = make_sentences(dice)
    owners = [myses[0]] * size.longest
    others = size.rows - size.longest
    owners += [myses[1 + n % (size.myses - 1)] for n in range(others)]
    dice.shuffle(owners)
    newest = datetime.now(UTC)
    for number, owner in enumerate(owners):
        text = " ".join(dice.choices(said, k=3))
        if owner != myses[0] and dice.random() < 0.2:
            text += f" {ELSEWHERE}"
        thinks = dice.random() < 0.33
        yield (
            owner,
            "assistant" if thinks else "tool",
            "agent" if thinks else "tool",
            "",
            text,
            dice.choice(said) if thinks else "",
            "",
            "[]",
            "",
            "",
            "{}",
            False,
            False,
            60,
            newest - timedelta(days=DAYS * (1 - number / size.rows)),
        )


def make_sentences(dice: Random) -> list[str]:
    """Sentences whose words are as frequent as their ranks say."""
    words = [make_word(rank) for rank in range(1, VOCABULARY + 1)]
    weights = list(accumulate(1 / rank for rank in range(1, VOCABULARY + 1)))
    return [
        " ".join(dice.choices(words, cum_weights=weights, k=SENTENCE_WORDS)) + "."
        for _ in range(SENTENCES)
    ]


# --- All but the memories


def fill_rest(size: Size) -> None:
    """Turns, calls, events, accounts and summaries over the time of the memories."""
    each = max(1, size.rows // size.myses // MEMORIES_A_TURN)
    with connection.cursor() as cursor:
        for table, fill in (
            ("agents_turn", FILL_TURNS),
            ("agents_modelcall", FILL_CALLS),
            ("agents_event", FILL_EVENTS),
        ):
            with _indexed_after(cursor, table):
                known = {"turns": each, "days": DAYS, "events": EVENTS_A_TURN}
                cursor.execute(fill, known)
        for mysis in Mysis.objects.all():
            scenes.add_account(mysis)
            scenes.add_turns(mysis)
            # What a summary in use covers is not pruned: a short log has a shorter one.
            rows = mysis.memories.count()
            summarise(mysis.pk, min(UNCOVERED, rows // 4), min(COVERED, rows // 2))
        cursor.execute(COUNT_TURNS)
        cursor.execute("VACUUM ANALYZE")
        cursor.execute("CHECKPOINT")


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
    """Milliseconds of each question, and the bytes of the database."""
    with migrated_database(step):
        longest, usual = Mysis.objects.order_by("pk").values_list("pk", flat=True)[:2]
        step("Searching")
        times = {}
        for name, words in _list_words().items():
            times[f"search, one Mysis: {name}"] = _time_searches(words, usual)
            times[f"search, fleet: {name}"] = _time_searches(words, None)
        name = "search, longest Mysis: a word of others"
        times[name] = _time_searches([ELSEWHERE], longest)
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_database_size(current_database())")
            [size] = cursor.fetchone()
        return {"times": times, "bytes": size, "mysis": usual}


def _list_words() -> dict[str, list[str]]:
    words = {name: [make_word(rank) for rank in ranks] for name, ranks in WORDS.items()}
    return words | {"absent": [NEVER]}


def _time_searches(words: list[str], mysis: int | None) -> dict[str, float]:
    found = []
    for number in range(-len(words), SEARCHES):
        begun = perf_counter()
        search_messages(query=words[number % len(words)], mysis_id=mysis, limit=LIMIT)
        found.append((perf_counter() - begun) * 1000)
    return describe_times(found[len(words) :])


def measure_turns(step: Step, number: str) -> dict[str, float]:
    """Milliseconds of turns of a Mysis in which neither model nor game is waited for."""
    with migrated_database(step), turns.run_local_fleet(turns.QUICK_TICK):
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
