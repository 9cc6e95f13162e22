"""What a large database is made of, made small."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.models import Max, Min
from django.utils import timezone

from agents import retention
from agents.models import Event, Mysis, Turn
from bench import memory
from bench.memory import Size, fill_corpus
from bench.soak import corpus
from memory.models import HistorySummary, Memory

SIZE = Size(900, 3, 300, days=10)
INDEXES = (
    "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY 1"
)


@pytest.mark.django_db(transaction=True)
def test_days_of_memories_turns_and_events_are_made_with_all_their_indexes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(memory, "SENTENCES", 50)
    indexes = read_rows(INDEXES)
    fill_corpus(SIZE)
    corpus.fill_rest(SIZE)
    assert read_rows(INDEXES) == indexes
    assert (Memory.objects.count(), HistorySummary.objects.count()) == (900, 3)
    made = Turn.objects.filter(trigger="nudge")
    assert made.count() == 3 * (900 // 3 // corpus.MEMORIES_A_TURN)
    assert Event.objects.count() == made.count() * corpus.EVENTS_A_TURN
    for mysis in Mysis.objects.all():
        assert mysis.turn_count == mysis.turns.count()
    for rows, when in ((Memory.objects.all(), "created_at"), (made, "started_at")):
        span = rows.aggregate(span=Max(when) - Min(when))["span"]
        assert timedelta(days=9) < span < timedelta(days=10)


@pytest.mark.django_db(transaction=True)
def test_a_day_of_it_can_be_pruned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "SENTENCES", 50)
    fill_corpus(SIZE)
    corpus.fill_rest(SIZE)
    before = timezone.now() - timedelta(days=9)
    counts = {step.what: step.count for step in retention.plan_steps(before)}
    assert 70 < counts["messages"] < 110
    assert 20 < counts["turns"] < 40


def read_rows(query: str) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(query)
        return list(cursor.fetchall())
