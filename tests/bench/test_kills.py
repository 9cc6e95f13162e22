"""The figures of workers that are killed."""

from __future__ import annotations

from bench.kills import ANOTHER, SUCCESSOR, takeover_figures


def test_the_longest_of_the_takeovers_counts():
    times = {ANOTHER: [1.0, 2.0, 3.0], SUCCESSOR: [2.0, 3.0, 7.0]}
    another, successor = takeover_figures(times)
    assert (another.value, another.met, another.note) == (3.0, True, "median 2.0 s")
    assert successor.met is False
    assert "its successor" in successor.name and "most of 3" in successor.name
