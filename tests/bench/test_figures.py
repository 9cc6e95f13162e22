"""What a figure says of itself; nothing here measures time."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console

from bench.figures import Aim, Figure, amount, key_of, table_of


def test_a_figure_knows_its_ratio_and_its_target():
    figure = Figure("x", 30.0, "s", baseline=10.0, target=20.0)
    assert (figure.ratio, figure.met) == (3.0, False)
    assert Figure("x", 1.0, "s").document()["met"] is None
    assert Figure("x", 1.0, "s").ratio is None


@pytest.mark.parametrize(
    ("aim", "target", "met"),
    [
        (Aim.BELOW, 30.0, False),
        (Aim.BELOW, 30.1, True),
        (Aim.AT_LEAST, 30.0, True),
        (Aim.AT_LEAST, 30.1, False),
        (Aim.RATIO_BELOW, 3.0, False),
        (Aim.RATIO_BELOW, 3.1, True),
    ],
)
def test_a_target_lies_on_the_side_of_its_aim(aim: Aim, target: float, met: bool):
    figure = Figure("x", 30.0, "%", baseline=10.0, target=target, aim=aim)
    assert figure.met is met


def test_a_ratio_without_a_baseline_meets_nothing():
    assert Figure("x", 0.1, "s", target=2, aim=Aim.RATIO_BELOW).met is False


def test_a_goal_shows_its_side():
    assert Figure("x", 1, "ms", target=50).goal == "< 50.0 ms"
    assert Figure("x", 1, "%", target=95, aim=Aim.AT_LEAST).goal == ">= 95.0 %"
    assert Figure("x", 1, "s", target=1.5, aim=Aim.RATIO_BELOW).goal == "< 1.50 x"
    assert Figure("x", 1, "s").goal == ""


def test_a_table_tells_what_was_missed():
    console = Console(width=120, record=True, file=StringIO())
    console.print(table_of("All", [Figure("slow", 3, "s", target=2, note="why")]))
    shown = console.export_text()
    assert "slow" in shown and "why" in shown and "missed" in shown


def test_amounts_are_short():
    assert amount(1500, "bytes") == "1.5 KB"
    assert amount(300_000, "bytes") == "300.0 KB"
    assert amount(2_340_000, "bytes") == "2.3 MB"
    assert amount(498_000_000, "bytes") == "498 MB"
    assert amount(2.345, "s") == "2.3 s"
    assert amount(0.345, "ms") == "0.34 ms"
    assert amount(50, "ms") == "50.0 ms"
    assert amount(30_926, "tokens") == "30,926 tok"
    assert amount(None, "s") == ""


def test_a_baseline_is_explained_once():
    names = ("a", "b", "c: one", "c: two")
    figures = [Figure(name, 1, "s", baseline=1, baseline_is="that") for name in names]
    assert key_of([*figures, Figure("d", 1, "s")]) == "Baseline of a, b, c: that."
