"""The estimate of tokens by class of text (A30)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.context.assemble import assemble
from memory.context.tokens import (
    ERROR_BOUND,
    Calibration,
    choose_counter,
    estimate_tokens,
)
from memory.context.types import AssemblyRequest
from tests.context.histories import Log

GAME = json.dumps(
    {
        "ship": {"hull": 85, "max_hull": 100},
        "cargo": [{"id": "iron_ore", "quantity": 3}],
    }
)


def ratio(text: str) -> float:
    return len(text) / estimate_tokens(text)


def test_json_costs_more_than_prose_and_cjk_more_than_both() -> None:
    prose = "I will travel to the asteroid belt and mine some iron ore there. " * 5
    assert 1.7 <= ratio(GAME) <= 2.0
    assert 3.5 <= ratio(prose) <= 4.5
    assert ratio("採掘中です" * 20) < 1
    assert 2 <= ratio("0f3a9c2e77b1" * 20) < 3.5


@given(st.text())
def test_any_text_has_a_count(text: str) -> None:
    assert estimate_tokens(text) >= (1 if text else 0)


def test_chars_counts_characters_and_ignores_the_calibration() -> None:
    assert choose_counter("chars", 3.0)("漢字!") == 3


def test_the_calibration_scales_the_estimate() -> None:
    assert choose_counter("estimate", 2.0)(GAME) == 2 * estimate_tokens(GAME)


@pytest.mark.parametrize(("name", "factor"), [("words", 1.0), ("estimate", 0.0)])
def test_a_bad_counter_is_refused(name: str, factor: float) -> None:
    with pytest.raises(ValueError, match=r"counter|calibration"):
        choose_counter(name, factor)


def test_the_factor_moves_toward_what_was_reported() -> None:
    known = Calibration()
    for _ in range(30):
        known = known.learn(estimated=round(1_000 * known.factor), reported=1_400)
    assert known.factor == pytest.approx(1.4, abs=0.02)
    assert Calibration().learn(estimated=100, reported=100_000).factor == 2.0
    assert Calibration().learn(estimated=100_000, reported=1).factor > 0.5


@pytest.mark.parametrize(("estimated", "reported"), [(0, 50), (50, 0), (-1, 9)])
def test_a_call_without_counts_teaches_nothing(estimated: int, reported: int) -> None:
    known = Calibration(1.1, 0.2, 4)
    assert known.learn(estimated=estimated, reported=reported) is known


def test_the_error_is_a_mean_that_moves_slowly() -> None:
    """A30: at first the bound counts as one sample, at last one call for a 64th."""
    first = Calibration().learn(estimated=90, reported=100)
    assert first.error == pytest.approx((0.25 + 0.10) / 2)
    assert first.samples == 1
    second = first.learn(estimated=120, reported=100)
    assert second.error == pytest.approx((0.25 + 0.10 + 0.20) / 3)
    late = Calibration(1.0, 0.02, 500).learn(estimated=150, reported=100)
    assert late.error == pytest.approx(0.02 + (0.50 - 0.02) / 64)


@given(
    st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 10**9)), max_size=40),
)
def test_no_reports_upset_a_calibration(calls: list[tuple[int, int]]) -> None:
    known = Calibration()
    for estimated, reported in calls:
        known = known.learn(estimated=estimated, reported=reported)
        assert 0.5 <= known.factor <= 2.0
        assert 0 <= known.error <= 1
    assert known.samples <= len(calls)


def figures(**more: Any) -> tuple[float, float]:
    log = Log()
    log.user("Mine iron.")
    stats = assemble(AssemblyRequest(log.done(), **more)).stats
    return stats["calibration"], stats["estimate_error"]


def test_the_statistics_tell_factor_and_error() -> None:
    """A30: the error bound is reported, the measured one where there is one."""
    assert figures() == (1.0, ERROR_BOUND)
    assert figures(calibration=1.2, estimate_error=0.04) == (1.2, 0.04)
    assert figures(calibration=1.2, estimate_error=0.04, counter="chars") == (1.0, 0)


@pytest.mark.parametrize("error", [-0.1, float("nan"), float("inf")])
def test_an_error_that_is_none_is_refused(error: float) -> None:
    with pytest.raises(ValueError, match="estimate_error"):
        figures(estimate_error=error)
