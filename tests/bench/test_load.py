"""What the load is judged by, and what a large database is made of, made small."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.db.models import Max, Min
from django.utils import timezone

from agents import retention
from agents.models import Event, Mysis, Turn
from bench.load import corpus, large, run, watch
from bench.load.corpus import Size
from bench.load.large import MEMORY_BYTES, SPARE_BYTES, fit_rows
from bench.load.watch import find_trend
from bench.sockets import Seen, Stream
from memory.models import HistorySummary, Memory

SIZE = Size(900, 3)
INDEXES = (
    "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY 1"
)
NEWEST = 50_000


@pytest.mark.parametrize(
    ("until", "more", "grows"),
    [(0.45, 1.0, False), (0.0, 1.03, False), (0.0, 1.05, True)],
)
def test_the_third_quarter_is_what_the_last_is_compared_with(
    until: float, more: float, grows: bool
) -> None:
    rise = [
        100.0 + 200 * min(1.0, at / 120 / until if until else 1.0) for at in range(120)
    ]
    held = [size * (more if at >= 90 else 1.0) for at, size in enumerate(rise)]
    assert (
        find_trend([(at * 10.0, size) for at, size in enumerate(held)]).grows is grows
    )


def test_memory_that_goes_on_rising_grows() -> None:
    trend = find_trend([(at * 10.0, 100.0 + at) for at in range(120)])
    assert trend.grows
    assert (trend.third, trend.last) == (174.5, 204.5)
    assert trend.slope == pytest.approx(360)
    assert find_trend([(5.0, 80.0)]).slope == 0


def test_errors_of_all_programs_are_found_and_like_ones_counted_together(
    tmp_path: Path,
) -> None:
    (tmp_path / "logs").mkdir()
    web = tmp_path / "logs" / "web.log"
    web.write_text("2026-02-05 09:00:00,123 ERROR agents: before it began\n")
    since = watch.measure_logs(tmp_path)
    web.write_text(
        web.read_text() + "2026-02-05 10:00:00,123 INFO agents: all is well\n"
        "2026-02-05 10:00:01,123 ERROR agents.hub: event 12 was lost\n"
        "Traceback (most recent call last):\n"
        "2026-02-05 10:00:02,123 ERROR agents.hub: event 345 was lost\n"
        "2026-02-05 10:00:03,123 WARNING agents: slow\n"
    )
    (tmp_path / "postgres.log").write_text(
        "2026-02-05 10:00:00.123 UTC [7] LOG:  ready\n"
        "2026-02-05 10:00:00.123 UTC [7] FATAL:  too many clients\n"
        "2026-02-05 10:00:00.123 UTC [8] ERROR:  duplicate key\n"
    )
    found = watch.read_logs(tmp_path, since)
    assert (found["errors"], found["warnings"], found["refused"]) == (4, 1, 1)
    assert found["lines"][0] == "2 x web: agents.hub: event N was lost"


def test_missing_and_repeated_events_are_counted() -> None:
    wanted, seen = Seen(NEWEST), Seen(NEWEST)
    for number in (NEWEST - 3, NEWEST + 1, NEWEST + 2, NEWEST + 400):
        wanted.add(number)
    assert seen.count_missing(wanted) == 4
    for number in (NEWEST + 2, NEWEST - 3, NEWEST + 2, NEWEST + 900):
        seen.add(number)
    assert (seen.count_missing(wanted), seen.count_repeated()) == (2, 1)


def test_an_event_is_as_late_as_its_own_moment_says() -> None:
    async def read() -> Counter[int]:
        stream = Stream(b"", Counter(), Seen(0))
        at = datetime.fromisoformat("2026-02-05T10:00:00.125+00:00").timestamp()
        event = b'{"id":7,"kind":"error","at":"2026-02-05T10:00:00.125Z"}'
        stream.count_frame(event, at + 0.040)
        return stream.late_by

    assert asyncio.run(read()) == {40: 1}


def test_there_are_as_many_memories_as_the_disk_holds_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(large, "KEPT", tmp_path)
    size = Size(1_000_000, 200)
    room = SPARE_BYTES + 1_000_000 * MEMORY_BYTES
    assert fit_rows(size, 2 * room) == size
    assert fit_rows(size, room) == Size(500_000, 200)
    large.find_folder(size).mkdir()
    assert fit_rows(size, room) == size, "the first copy is there already"
    with pytest.raises(RuntimeError, match="no room"):
        fit_rows(size, SPARE_BYTES)


def test_the_large_database_is_held_against_the_small_one() -> None:
    def size(rows: int, ms: float) -> dict[str, Any]:
        times = {name: {"p50": ms, "p95": ms} for name in run.TARGETS}
        prune = {"seconds": ms, "removed": {"turns": 1_000}}
        known = {"rows": rows, "myses": 3, "times": times}
        return known | {"prune": prune, "bytes": rows}

    sizes = {"small": size(20_000, 2.0), "large": size(30_000, 4.0)}
    table = run.build_large_table({"asked": 40_000, "sizes": sizes})
    found = {row[0]: row[1:] for row in table.rows}
    absent = found["search, fleet: absent, p95"]
    assert absent == ["4.00 ms", "2.00 ms", "2.00", "< 50.0 ms", "met"]
    assert found["Mysis page, p50"][-2:] == ["< 1.50 x", "missed"]
    assert table.notes[-1] == "The disk holds no more; asked for 40,000."


@pytest.mark.django_db(transaction=True)
def test_days_of_memories_turns_and_events_are_made_with_all_their_indexes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(corpus, "SENTENCES", 50)
    indexes = read_rows(INDEXES)
    corpus.fill_memories(SIZE)
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
        assert timedelta(days=29) < span < timedelta(days=30)
    # And a day of it can be pruned.
    before = timezone.now() - timedelta(days=29)
    counts = {step.what: step.count for step in retention.plan_steps(before)}
    assert 20 < counts["messages"] < 40
    assert 5 < counts["turns"] < 15


def read_rows(query: str) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(query)
        return list(cursor.fetchall())
