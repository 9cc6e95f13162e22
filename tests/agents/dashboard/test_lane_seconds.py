"""Blocks of steps: what is over is read once, and what was read is kept."""

from __future__ import annotations

from datetime import datetime, timedelta
from random import Random
from typing import Any

import pytest

from agents.dashboard import lane_seconds
from agents.dashboard.lanes import read_lanes
from agents.dashboard.time_axis import Axis, TimeSpan
from tests.agents.dashboard.test_lanes import (
    NOON,
    SECOND,
    Story,
    tell_at_random,
    write,
)
from tests.factories import make_mysis
from tests.statements import record_statements


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
