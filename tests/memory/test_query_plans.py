"""The hot queries use their indexes (DESIGN section 3): by EXPLAIN on many rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from copy import copy
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django import DjangoDbBlocker

from agents import events
from agents.context_inputs import read_inputs
from agents.db import fetch_row
from agents.models import Event, Mysis, Turn
from agents.record_search import count_hits, search_records
from agents.statements import FIND_AT_END, FIND_BEFORE_TURN, MOST_OPEN_ORDERS
from memory.assembly import load, log_rows
from memory.context.types import Budget
from memory.models import GameSnapshot, HistorySummary, Memory, fetch_rows
from memory.models.log import IS_ORDER
from memory.search.results import search_messages
from tests.factories import make_mysis

pytestmark = pytest.mark.django_db

TABLES = ("memory_memory", "agents_turn", "agents_event", "memory_historysummary")
FILL = """
INSERT INTO memory_memory (mysis_id, role, origin, sender, content, reasoning,
  signature, tool_calls, tool_call_id, tool_name, args, is_error, pending, tokens,
  created_at)
SELECT CASE WHEN n %% 100 = 0 THEN %(first)s ELSE %(first)s + 1 + n %% 19 END, 'user',
  CASE WHEN n %% 50 = 0 THEN 'human' ELSE 'tool' END, '',
  'common text' || CASE WHEN n %% 4000 = 7 THEN ' needle' ELSE '' END,
  CASE WHEN n %% 9 = 0 THEN 'idle thought' ELSE '' END, '', '[]', '', '', '{}', false,
  false, 1, now()
FROM generate_series(1, 20000) AS n
"""
FILL_TURNS = """
INSERT INTO agents_turn (mysis_id, number, epoch, trigger, outcome, iterations,
  input_tokens, output_tokens, cached_tokens, cost, latency_ms, error, started_at)
SELECT %(first)s + CASE WHEN n %% 200 = 0 THEN 0 ELSE 1 + n %% 19 END, n, 0,
  'start', 'done', 1, 1, 1, 0, 0, 1, '',
  now() - n * interval '1 minute'
FROM generate_series(1, 8000) AS n
"""
FILL_EVENTS = """
INSERT INTO agents_event (xid, kind, mysis_id, data, created_at)
SELECT n, CASE WHEN n %% 500 = 0 THEN 'error' WHEN n %% 7 = 0 THEN 'mysis.state'
    ELSE 'tool.called' END,
  %(first)s + n %% 20, '{}', now()
FROM generate_series(1, 20000) AS n
"""
FILL_SUMMARIES = """
INSERT INTO memory_historysummary (mysis_id, first_id, through_id, generation, text,
  tokens_before, tokens_after, status, history_hash, turn_number, attempts, error,
  model, input_tokens, output_tokens, cached_tokens, cost, latency_ms, created_at)
SELECT %(first)s + n %% 20, 0, n, n, '', 0, 0,
  CASE WHEN n > 1980 THEN 'active' ELSE 'replaced' END, '', 0, 1, '', '', 0, 0, 0, 0,
  0, now()
FROM generate_series(1, 2000) AS n
"""


@pytest.fixture(scope="module")
def first(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[int]:
    """The first of twenty Myses with long histories, made once for all questions."""
    with django_db_blocker.unblock(), transaction.atomic():
        myses = [make_mysis() for _ in range(20)]
        with connection.cursor() as cursor:
            for text in (FILL, FILL_TURNS, FILL_EVENTS, FILL_SUMMARIES):
                cursor.execute(text, {"first": myses[0].pk})
            for table in TABLES:
                cursor.execute(f"ANALYZE {table}")
        yield myses[0].pk
        transaction.set_rollback(True)
    # How many rows there are is kept, also what a transaction said that was undone:
    # later tests would count by it.
    with django_db_blocker.unblock():
        fetch_rows(f"ANALYZE {', '.join(TABLES)}")


def plans(ask: Callable[[], Any]) -> str:
    """The plans of all statements that a question asks."""
    with CaptureQueriesContext(connection) as asked:
        ask()
    texts = [query["sql"] for query in asked.captured_queries]
    found = []
    with connection.cursor() as cursor:
        for text in texts:
            if text.lstrip().startswith(("SELECT", "WITH")):
                cursor.execute(f"EXPLAIN {text}")
                found += [row[0] for row in cursor.fetchall()]
    return "\n".join(found)


QUESTIONS: dict[str, tuple[Callable[[int], Any], str]] = {
    "the newest": (
        lambda pk: Memory.objects.filter(mysis_id=pk).latest("pk"),
        "memory_tail",
    ),
    "the newest order": (
        lambda pk: log_rows.read_newest_order(pk),
        "memory_orders",
    ),
    "the calls left open": (
        lambda pk: list(Memory.objects.filter(mysis_id=pk, pending=True)),
        "memory_pending",
    ),
    "what a turn begins with": (
        lambda pk: fetch_row(
            FIND_BEFORE_TURN,
            {"mysis": pk, "providers": []},
        ),
        "memory_pending",
    ),
    "what a turn ends with": (
        lambda pk: fetch_row(FIND_AT_END, {"mysis": pk, "turn": 1, "seen": 1}),
        "memory_intent",
    ),
    "what is new since a call": (
        lambda pk: log_rows.read_rows(
            load._SINCE,
            {
                "mysis": pk,
                "after": 19_000,
                "through": log_rows.LAST,
                "unsure": [1, 2],
                **log_rows.NOW._asdict(),
            },
        ),
        "memory_tail",
    ),
    "a view's rows": (
        lambda pk: load.load_tail(load.TailRequest(pk, "window", None, Budget())),
        "memory_tail",
    ),
    "a rare word": (
        lambda pk: search_messages(query="needle", mysis_id=pk + 7),
        "memory_content_fts",
    ),
    "a rare word of the fleet": (
        lambda pk: search_messages(query="needle"),
        "memory_content_fts",
    ),
    "a common word": (
        lambda pk: search_messages(query="common", mysis_id=pk),
        "memory_tail",
    ),
    "a common word of the fleet": (
        lambda pk: search_messages(query="common"),
        "memory_memory_pkey",
    ),
    "a rare thought": (
        lambda pk: search_messages(query="never", mysis_id=pk, reasoning=True),
        "memory_reasoning_fts",
    ),
    "a stem": (
        lambda pk: search_messages(query="needles", mysis_id=pk + 7, stem=True),
        "memory_content_fts",
    ),
    "the hits of a rare word, counted": (
        lambda pk: count_hits(query="needle"),
        "memory_content_fts",
    ),
    "letters": (
        lambda pk: search_messages(query="mon te", mysis_id=pk, mode="exact"),
        "memory_tail",
    ),
    "a page of the log": (
        lambda pk: list(
            Memory.objects.filter(mysis_id=pk, pk__gt=100).order_by("pk")[:51]
        ),
        "Index Scan",
    ),
    "the newest turns": (
        lambda pk: list(Turn.objects.filter(mysis_id=pk).order_by("-pk")[:20]),
        "turn_newest",
    ),
    "events after a cursor": (
        lambda pk: events.read_after(Event.objects.order_by("-pk")[50].pk, limit=50),
        "event_order",
    ),
    "events that say a rare word": (
        lambda pk: search_records("events", query="needle"),
        "event_fts",
    ),
    "acts that say a rare word": (
        lambda pk: search_records("acts", query="needle", mysis_id=pk),
        "event_fts",
    ),
    "rare events": (
        lambda pk: events.read_after(0, kinds=["error"], limit=20),
        "event_of_kind",
    ),
    "events of a Mysis": (
        lambda pk: events.read_after(0, mysis_id=pk, kinds=["error"], limit=500),
        "event_of_",
    ),
    "the newest summary": (
        lambda pk: (
            HistorySummary.objects.filter(mysis_id=pk, status="active")
            .order_by("-through_id", "-id")
            .first()
        ),
        "Index Scan",
    ),
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_question_walks_no_table(first: int, name: str) -> None:
    ask, index = QUESTIONS[name]
    found = plans(lambda: ask(first))
    assert index in found, found
    for table in TABLES:
        assert f"Seq Scan on {table}" not in found, found


def test_an_account_s_snapshots_are_found_by_name() -> None:
    now = timezone.now()
    GameSnapshot.objects.bulk_create(
        GameSnapshot(username=f"p{n}", tool_name="get_ship", captured_at=now)
        for n in range(3000)
    )
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE memory_gamesnapshot")
        cursor.execute("EXPLAIN SELECT * FROM memory_gamesnapshot WHERE username='p7'")
        plan = "\n".join(row[0] for row in cursor.fetchall())
    assert "snapshot_once_per_call" in plan, plan


def test_the_newest_order_is_not_sought_among_what_other_myses_say(first: int) -> None:
    asked = "SELECT id FROM memory_memory WHERE mysis_id = %s AND "
    newest = f"{asked}{IS_ORDER} ORDER BY id DESC LIMIT 1"
    with transaction.atomic(), connection.cursor() as cursor:
        told = Memory(mysis_id=first, role="user", origin="human", sender="mysis:Bob")
        Memory.objects.bulk_create([copy(told) for _ in range(3000)])
        cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {newest}", [first])
        plan = cursor.fetchone()[0][0]["Plan"]
        transaction.set_rollback(True)
    assert "memory_orders" in json.dumps(plan)
    assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] < 20


@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
@pytest.mark.parametrize("unheard", [0, 5000])
def test_a_turn_reads_few_of_many_orders(first: int, unheard: int, mode: str) -> None:
    """Also by a plan that the server keeps for any Mysis, and where none is newer."""
    turn = Turn.objects.filter(mysis_id=first + 1).latest("pk").pk
    with transaction.atomic():
        Turn.objects.filter(pk=turn).update(outcome=None)
        newest = Memory.objects.latest("pk").pk
        told = Memory(mysis_id=first + 1, role="user", origin="human")
        Memory.objects.bulk_create([copy(told) for _ in range(unheard)])
        fetch_rows("ANALYZE memory_memory")
        fetch_rows(f"SET LOCAL plan_cache_mode = {mode}")
        mysis = Mysis.objects.get(pk=first + 1)
        mysis.heard = newest if unheard else 0
        assert count_rows_read(lambda: read_inputs(mysis)) < 3 * MOST_OPEN_ORDERS
        ending = {"mysis": mysis.pk, "turn": turn, "seen": newest}
        assert count_rows_read(lambda: fetch_row(FIND_AT_END, ending, prepare=True)) < 5
        transaction.set_rollback(True)


def count_rows_read(ask: Callable[[], Any]) -> int:
    """How many messages a question reads, by the server's own count."""

    def count() -> int:
        [(found,)] = fetch_rows(
            "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables"
            " WHERE relname = 'memory_memory'"
        )
        return int(found)

    before = count()
    ask()
    return count() - before
