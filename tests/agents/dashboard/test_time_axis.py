"""Spans of time as addresses say them, and for how long what they show is shared."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from agents.dashboard.lanes import find_version
from agents.dashboard.time_axis import LONGEST, SHORTEST, TimeSpan

# A round moment, from which an axis begins at the second that was asked for.
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("since", "until", "length", "ends"),
    [
        ("1h", "", 3600, False),
        ("", "", 6 * 3600, False),
        ("1m", "", 6 * 3600, False),
        ("31d", "", 2 * 86_400, False),
        ("2026-03-01T10:00:00Z", "2026-03-01T12:00:00Z", 7200, True),
        ("2026-03-01T12:00:00Z", "2026-03-01T10:00:00Z", 6 * 3600, True),
        ("2h", "2026-03-01T12:00", 7200, True),
        ("0001-01-01", "9999-12-31T23:59:59+14:00", 6 * 3600, False),
        ("x" * 9999, "\x00", 6 * 3600, False),
    ],
)
def test_odd_spans_fall_back(since: str, until: str, length: int, ends: bool):
    span = TimeSpan.read({"since": since, "until": until})
    assert (span.length.total_seconds(), span.until is not None) == (length, ends)
    assert SHORTEST <= span.length <= LONGEST
    axis = span.make_axis(NOON, 100)
    assert axis.until <= NOON
    assert 1 <= axis.count <= 101
    assert len(axis.ticks) <= 9


def test_only_what_is_long_over_is_shared_for_long():
    def count_versions(ended: timedelta) -> int:
        span = TimeSpan(timedelta(hours=1), NOON - ended)
        moments = (NOON + timedelta(seconds=n) for n in range(0, 60, 10))
        return len({find_version(span, moment) for moment in moments})

    # An action in it may still be told of.
    assert count_versions(timedelta(seconds=1)) == 6
    assert count_versions(timedelta(minutes=9)) == 6
    assert count_versions(timedelta(minutes=11)) == 1


def test_links_move_along_the_time():
    span = TimeSpan(timedelta(hours=2))
    assert dict(span.list_links(NOON)) == {
        "Narrower": {"since": "1h"},
        "Wider": {"since": "4h"},
        "Earlier": {"since": "2026-03-01T09:00:00Z", "until": "2026-03-01T11:00:00Z"},
        "Later": {},
    }
    past = TimeSpan(timedelta(hours=2), NOON - timedelta(hours=1))
    links = dict(past.list_links(NOON))
    # At the edge of what is known it follows it again.
    assert links["Later"] == {"since": "2h"}
    assert links["Wider"] == {"since": "4h"}
    assert links["Narrower"] == {
        "since": "2026-03-01T09:30:00Z",
        "until": "2026-03-01T10:30:00Z",
    }
    shortest = TimeSpan(SHORTEST)
    assert dict(shortest.list_links(NOON))["Narrower"] == {}
