"""What the bench makes of measured turns."""

from __future__ import annotations

from typing import Any

import pytest

from bench import turns


def found(**changed: Any) -> dict[str, Any]:
    """What the program that takes turns would write."""
    turn = {
        "whole": 0.1,
        "model": 0.03,
        "game": 0.05,
        "database": 0.015,
        "database times": 10.0,
        "model times": 2.0,
        "game times": 1.0,
    }
    given = {"turns": [turn] * 9, "crossing": 0.001, "per_second": 20.0, "busy": 0.8}
    given["lengths"] = {"100": [turn] * 5, "1000000": [turn] * 5}
    return given | {"late": [0.1] * 94 + [0.5] * 6} | changed


def test_what_is_beside_model_and_game_is_the_overhead():
    beside = turns.figures_of(found())[0]
    assert beside.value == pytest.approx(20)
    assert beside.baseline == pytest.approx(10)
    assert beside.met
    assert "2 model calls" in beside.note


def test_a_turn_that_called_no_tool_waited_for_no_game():
    assert turns.overhead({"whole": 0.1, "model": 0.04}) == pytest.approx(0.06)


def test_throughput_and_lateness_have_a_baseline_of_the_same_run():
    *_, carried, late = turns.figures_of(found())
    assert carried.ratio == pytest.approx(2)
    assert (late.value, late.met) == (500, True)
    assert not turns.figures_of(found(late=[2.0] * 20))[-1].met


def test_a_fleet_that_did_not_fly_is_no_figure():
    with pytest.raises(RuntimeError, match="whole fleet"):
        turns.figures_of(found(late=[]))
