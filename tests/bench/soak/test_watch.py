"""Trends of memory, percentiles, and what in a log is an error."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.soak import watch
from bench.soak.watch import describe_counts, describe_times, find_trend


def test_memory_that_rises_in_the_warm_up_alone_is_flat() -> None:
    samples = [(at * 10.0, min(100.0 + 10 * at, 200.0)) for at in range(120)]
    trend = find_trend(samples)
    assert not trend.grows
    assert (trend.first, trend.third, trend.last, trend.most) == (100, 200, 200, 200)
    assert trend.slope == pytest.approx(0)


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
    samples = [(at * 10.0, size) for at, size in enumerate(held)]
    assert find_trend(samples).grows is grows


def test_memory_that_goes_on_rising_grows() -> None:
    samples = [(at * 10.0, 100.0 + at) for at in range(120)]
    trend = find_trend(samples)
    assert trend.grows
    assert (trend.third, trend.last) == (174.5, 204.5)
    assert trend.slope == pytest.approx(360)


def test_a_process_of_few_samples_has_a_trend() -> None:
    assert find_trend([(5.0, 80.0)]).slope == 0
    assert not find_trend([(5.0, 80.0), (6.0, 81.0)]).grows


def test_times_and_counts_have_the_same_percentiles() -> None:
    times = [float(each) for each in range(1, 1001)]
    counts = {str(each): 1 for each in range(1, 1001)}
    assert describe_times(times) == describe_counts(counts)
    assert describe_times(times)["p95"] == 951
    assert describe_times([]) == describe_counts({}) == {}


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
    assert "1 x postgres: too many clients" in found["lines"]
    web.write_text("2026-02-05 11:00:00,123 ERROR zoea: cut\n")
    assert watch.read_logs(tmp_path, since)["errors"] == 2
