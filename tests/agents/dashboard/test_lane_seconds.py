"""Blocks of steps: what is over is read once, and what was read is kept."""

from __future__ import annotations

from datetime import datetime, timedelta
from random import Random
from typing import Any

import pytest

from agents.dashboard import lane_seconds
from agents.dashboard.lanes import read_lanes
from agents.dashboard.shared_results import SharedResults
from agents.dashboard.time_axis import Axis, TimeSpan
from memory.problems import SlowSearchError
from tests.agents.dashboard.test_lanes import (
    NOON,
    SECOND,
    Story,
    tell_at_random,
    write,
)
from tests.factories import make_mysis
from tests.statements import record_statements


def test_only_what_is_missing_is_read(db: None, monkeypatch: pytest.MonkeyPatch):
    """Each run of neighbours by itself; what was used last is kept longest."""
    story = Story(make_mysis(), NOON)
    tell_at_random(story, Random(1), 6000)  # noqa: S311 (no secret)
    write(story)
    ids = (story.mysis.pk,)
    axis = Axis(NOON, NOON + 8 * 8 * 20 * SECOND, 20, 64)
    monkeypatch.setattr(lane_seconds, "_past_blocks", SharedResults(8))
    first = lane_seconds.read_seconds(ids, axis, 60)
    kept = lane_seconds._past_blocks._results
    # The oldest two of eight make room for others, then the oldest is used again.
    for key in list(kept)[1:3]:
        del kept[key]
    asked: list[tuple[int, int]] = []
    read = lane_seconds._read_run

    def count(ids: tuple[int, ...], axis: Axis, begin: int, end: int) -> Any:
        asked.append((begin, end))
        return read(ids, axis, begin, end)

    monkeypatch.setattr(lane_seconds, "_read_run", count)
    assert lane_seconds.read_seconds(ids, axis, 60) == first
    begin = round(NOON.timestamp()) // 160
    assert asked == [(begin + 1, begin + 2)]
    oldest = next(iter(kept))
    lane_seconds._past_blocks.peek(oldest)
    assert next(iter(kept)) != oldest


def test_a_second_look_goes_on_where_the_first_was_given_up(
    db: None, monkeypatch: pytest.MonkeyPatch
):
    story = Story(make_mysis(), NOON)
    tell_at_random(story, Random(2), 6000)  # noqa: S311 (no secret)
    write(story)
    ids, axis = (story.mysis.pk,), Axis(NOON, NOON + 8 * 8 * 20 * SECOND, 20, 64)
    monkeypatch.setattr(lane_seconds, "_past_blocks", SharedResults(64))
    # Two blocks of 160 s at once, and no time for more than one statement.
    monkeypatch.setattr(lane_seconds, "HOURS_AT_ONCE", 330 / 3600)
    for look in range(3):
        with pytest.raises(SlowSearchError):
            lane_seconds.read_seconds(ids, axis, 0.0)
        assert len(lane_seconds._past_blocks._results) == 2 * (look + 1)
    found = lane_seconds.read_seconds(ids, axis, 0.0)
    monkeypatch.setattr(lane_seconds, "_past_blocks", SharedResults(64))
    assert lane_seconds.read_seconds(ids, axis, 60.0) == found


def test_what_is_over_is_read_once(db: None):
    """As the span moves on, kept blocks tell the same as the log would."""
    stories = [Story(make_mysis(), NOON - 900 * SECOND) for _ in range(3)]
    for seed, story in enumerate(stories):
        tell_at_random(story, Random(seed), 6000)  # noqa: S311 (no secret)
    write(*stories)
    ids = [story.mysis.pk for story in stories]
    span = TimeSpan(timedelta(minutes=30))

    def read(moment: datetime) -> tuple[Any, int]:
        axis = span.make_axis(moment, 100)
        with record_statements() as told:
            found = read_lanes(ids, axis)
        asked = sum("generate_series" in sql for sql in told)
        return found.lanes, asked

    moments = [NOON + minutes * 60 * SECOND for minutes in (31, 33, 45, 52, 40)]
    kept = [read(moment) for moment in moments]
    assert [asked for _, asked in kept] == [1, 1, 1, 1, 0]
    for moment, (found, _) in zip(moments, kept, strict=True):
        lane_seconds._past_blocks._results.clear()
        for anew, one in zip(read(moment)[0], found, strict=True):
            assert anew.steps == one.steps
            assert anew.seconds == pytest.approx(one.seconds, abs=0.001)
    # A span that ends where a block ends is kept as a whole.
    axis = Axis(NOON, NOON + 8 * 20 * SECOND, 20, 8)
    with record_statements() as told:
        first, again = read_lanes(ids, axis), read_lanes(ids, axis)
    assert first == again
    assert sum("generate_series" in sql for sql in told) == 1
