"""The estimate of tokens by class of text (A30)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.context.tokens import calibrate, counter_for, estimate

GAME = json.dumps(
    {
        "ship": {"hull": 85, "max_hull": 100},
        "cargo": [{"id": "iron_ore", "quantity": 3}],
    }
)


def ratio(text: str) -> float:
    return len(text) / estimate(text)


def test_json_costs_more_than_prose_and_cjk_more_than_both() -> None:
    prose = "I will travel to the asteroid belt and mine some iron ore there. " * 5
    assert 1.7 <= ratio(GAME) <= 2.0
    assert 3.5 <= ratio(prose) <= 4.5
    assert ratio("採掘中です" * 20) < 1
    assert 2 <= ratio("0f3a9c2e77b1" * 20) < 3.5


@given(st.text())
def test_any_text_has_a_count(text: str) -> None:
    assert estimate(text) >= (1 if text else 0)


def test_chars_counts_characters_and_ignores_the_calibration() -> None:
    assert counter_for("chars", 3.0)("漢字!") == 3


def test_the_calibration_scales_the_estimate() -> None:
    assert counter_for("estimate", 2.0)(GAME) == 2 * estimate(GAME)


@pytest.mark.parametrize(("name", "factor"), [("words", 1.0), ("estimate", 0.0)])
def test_a_bad_counter_is_refused(name: str, factor: float) -> None:
    with pytest.raises(ValueError, match=r"counter|calibration"):
        counter_for(name, factor)


def test_calibrate_moves_toward_what_was_reported() -> None:
    factor = 1.0
    for _ in range(30):
        factor = calibrate(factor, round(1_000 * factor), 1_400)
    assert factor == pytest.approx(1.4, abs=0.02)
    assert calibrate(1.0, 100, 100_000) == 2.0
    assert calibrate(1.1, 0, 50) == 1.1
