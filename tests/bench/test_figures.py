"""What a figure says of itself, how samples are taken, and where tables go."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

from bench import figures as timing
from bench.figures import (
    Aim,
    Figure,
    Table,
    describe_counts,
    describe_times,
    find_figures,
    format_amount,
    markdown_table,
    measure_medians,
    rich_table,
    write_docs,
)


@pytest.mark.parametrize(
    ("aim", "target", "met", "goal"),
    [
        (Aim.BELOW, 30.0, False, "< 30.0 %"),
        (Aim.BELOW, 30.1, True, "< 30.1 %"),
        (Aim.AT_MOST, 30.0, True, "at most 30.0 %"),
        (Aim.AT_MOST, 29.9, False, "at most 29.9 %"),
        (Aim.RATIO_BELOW, 3.0, False, "< 3.00 x"),
        (Aim.RATIO_BELOW, 3.1, True, "< 3.10 x"),
    ],
)
def test_a_target_lies_on_the_side_of_its_aim(
    aim: Aim, target: float, met: bool, goal: str
):
    figure = Figure("x", 30.0, "%", baseline=10.0, target=target, aim=aim)
    assert (figure.met, figure.goal, figure.ratio) == (met, goal, 3.0)


def test_a_ratio_without_a_baseline_meets_nothing():
    assert Figure("x", 0.1, "s", target=2, aim=Aim.RATIO_BELOW).met is False


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (1500, "bytes", "1.5 KB"),
        (2_340_000, "bytes", "2.3 MB"),
        (498_000_000, "bytes", "498 MB"),
        (0.345, "ms", "0.34 ms"),
        (50, "ms", "50.0 ms"),
        (30_926, "tokens", "30,926 tok"),
        (None, "s", ""),
    ],
)
def test_amounts_are_short(value: float | None, unit: str, text: str):
    assert format_amount(value, unit) == text


def test_figures_are_a_table_that_explains_each_baseline_once():
    names = ("a", "c: one", "c: two")
    figures = [Figure(name, 1, "s", baseline=1, baseline_is="that") for name in names]
    slow = Figure("slow [x]", 3, "s", target=2, note="why")
    [table] = find_figures("All", [*figures, slow], "all").tables
    assert table.notes == ["Baseline: that."]
    other = Figure("d", 1, "s", baseline=1, baseline_is="this")
    [both] = find_figures("All", [*figures, other], "all").tables
    assert both.notes == ["Baseline of a, c: that.", "Baseline of d: this."]
    console = Console(width=120)
    with console.capture() as shown:
        console.print(rich_table(table))
    assert "slow [x] (why)" in shown.get()
    assert table.rows[-1][-1] == "missed"


def test_tasks_take_turns(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(timing, "SAMPLE_SECONDS", 0)
    ran: list[str] = []
    tasks = {name: lambda name=name: ran.append(name) for name in "ab"}
    found = measure_medians(tasks, repeats=3)
    assert ran == [*"aabb", *"ab" * 3]
    assert list(found) == ["a", "b"] and min(found.values()) >= 0


def test_times_and_counts_have_the_same_percentiles():
    times = [float(each) for each in range(1, 1001)]
    counts = {str(each): 1 for each in range(1, 1001)}
    assert describe_times(times) == describe_counts(counts)
    assert describe_times(times)["p95"] == 951
    assert describe_times([]) == describe_counts({}) == {}


def test_tables_are_written_between_their_marks_and_nowhere_else(tmp_path: Path):
    page = tmp_path / "page.md"
    page.write_text("# A\n<!-- bench a: begin -->\nold\n<!-- bench a: end -->\nB\n")
    other = tmp_path / "other.md"
    other.write_text("# Mine\n")
    tables = [Table("T", ["", "n|m"], [["x", "1"]], ["Why."], mark=m) for m in "aab"]
    for _ in range(2):
        assert write_docs(tables, "Measured.", [page, other]) == ["a"]
    written = page.read_text()
    assert written.startswith("# A\n<!-- bench a: begin -->\n\nMeasured.\n\n### T\n\n")
    assert written.endswith("<!-- bench a: end -->\nB\n")
    assert written.count(markdown_table(tables[0])) == 2
    assert "| --- | ---: |" in written and "| x | 1 |\n\nWhy." in written
    assert other.read_text() == "# Mine\n"
