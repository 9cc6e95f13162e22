"""What long histories are held against, and short ones out of a database."""

from __future__ import annotations

import pytest

from bench import figures
from bench.core import histories
from bench.logs import make_log
from memory.models import GameSnapshot, HistorySummary, Memory


def test_growth_is_held_against_the_shorter_history():
    seconds = {"100000": 0.03, "1000": 0.01}
    figure = histories.growth_figure("window", seconds, rows=121)
    assert (figure.value, figure.baseline, figure.met) == (30, 10, False)
    assert figure.note == "121 rows read"


def test_a_merge_is_held_against_one_after_few_events():
    figures = histories.merge_figures({"2000": 0.5, "10": 0.01, "1000": 0.1})
    assert [(f.value, f.baseline) for f in figures] == [(100, 10), (500, 10)]


@pytest.mark.django_db
def test_a_context_of_a_long_log_reads_what_no_summary_covers(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(figures, "SAMPLE_SECONDS", 0)
    monkeypatch.setattr(histories, "CONTEXT_REPEATS", 1)
    monkeypatch.setattr(histories, "UNCOVERED", 4)
    monkeypatch.setattr(histories, "LONG", 40)
    log = make_log(40)
    myses = {length: histories.store_log(log[-length:]) for length in (20, 40)}
    assert Memory.objects.count() == 60
    assert HistorySummary.objects.count() == 2
    figure = histories._measure_strategy("summary", myses)
    assert figure.name == "context of 40 rows: summary"
    assert figure.value > 0 and figure.ratio
    assert 4 <= int(figure.note.split()[0]) < 20


@pytest.mark.django_db
def test_an_account_is_told_of_events():
    histories.prepare_account("Ben", 7)
    assert GameSnapshot.objects.count() == len(histories.ANSWERS)
    assert GameSnapshot.objects.exclude(merged="").exists()
