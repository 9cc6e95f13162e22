"""What a figure says of itself, and how samples are taken."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console

from bench import figures as timing
from bench.figures import (
    Aim,
    Figure,
    figure_table,
    format_amount,
    list_baselines,
    measure_medians,
    percentile,
    show_steps,
)


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
        (Aim.AT_MOST, 30.0, True),
        (Aim.AT_MOST, 29.9, False),
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
    assert Figure("x", 1, "", target=8, aim=Aim.AT_MOST).goal == "at most 8"
    assert Figure("x", 1, "s").goal == ""


def test_a_table_tells_what_was_missed():
    console = Console(width=120, record=True, file=StringIO())
    console.print(figure_table("All", [Figure("slow", 3, "s", target=2, note="why")]))
    shown = console.export_text()
    assert "slow" in shown and "why" in shown and "missed" in shown


def test_amounts_are_short():
    assert format_amount(1500, "bytes") == "1.5 KB"
    assert format_amount(300_000, "bytes") == "300.0 KB"
    assert format_amount(2_340_000, "bytes") == "2.3 MB"
    assert format_amount(498_000_000, "bytes") == "498 MB"
    assert format_amount(2.345, "s") == "2.3 s"
    assert format_amount(0.345, "ms") == "0.34 ms"
    assert format_amount(50, "ms") == "50.0 ms"
    assert format_amount(30_926, "tokens") == "30,926 tok"
    assert format_amount(None, "s") == ""


def test_a_baseline_is_explained_once():
    names = ("a", "b", "c: one", "c: two")
    figures = [Figure(name, 1, "s", baseline=1, baseline_is="that") for name in names]
    assert (
        list_baselines([*figures, Figure("d", 1, "s")]) == "Baseline of a, b, c: that."
    )


def test_tasks_take_turns(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(timing, "SAMPLE_SECONDS", 0)
    ran: list[str] = []
    tasks = {name: lambda name=name: ran.append(name) for name in "ab"}
    found = measure_medians(tasks, repeats=3)
    assert ran == [*"aabb", *"ab" * 3]
    assert list(found) == ["a", "b"] and min(found.values()) >= 0


def test_a_percentile_is_one_of_the_values():
    values = [float(value) for value in range(1, 101)]
    assert percentile(values, 0.95) == 96
    assert percentile(values, 1) == 100
    assert percentile([7.0], 0.5) == 7


def test_a_log_has_a_line_for_each_step_and_a_terminal_only_the_newest():
    log, terminal = StringIO(), StringIO()
    for place, is_terminal in ((log, False), (terminal, True)):
        with show_steps(Console(file=place, force_terminal=is_terminal)) as step:
            step("Stopping [worker-1]")
            step("Starting it")
    assert log.getvalue() == "Stopping [worker-1]\nStarting it\n"
    assert "Starting it" in terminal.getvalue()
    assert "Stopping" not in terminal.getvalue().rpartition("Starting")[2]
