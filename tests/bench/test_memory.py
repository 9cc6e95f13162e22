"""The made-up memories, and what searches and inserts are held against."""

from __future__ import annotations

import pytest

from bench import memory
from bench.memory import ELSEWHERE, Size, fill_corpus, make_word
from memory.models import Memory
from memory.search.results import search_messages


def test_no_word_is_a_part_of_another() -> None:
    words = {make_word(rank) for rank in range(1, memory.VOCABULARY + 1)}
    assert len(words) == memory.VOCABULARY
    assert len({len(each) for each in words}) == 1
    assert ELSEWHERE not in words


@pytest.mark.django_db(transaction=True)
def test_a_corpus_is_made_once_with_its_indexes(
    monkeypatch: pytest.MonkeyPatch, django_assert_max_num_queries
) -> None:
    monkeypatch.setattr(memory, "SENTENCES", 50)
    size = Size(60, 3, 20)
    first, *others = fill_corpus(size).values()
    with django_assert_max_num_queries(40):
        assert list(fill_corpus(size).values()) == [first, *others]
    assert Memory.objects.count() == 60
    assert Memory.objects.filter(mysis_id=first).count() == 20
    assert search_messages(query=ELSEWHERE, mysis_id=first) == []
    assert search_messages(query=ELSEWHERE)
    found = memory.measure_searches(first, others[0])
    assert {*found} == {*memory.MEDIAN_TARGETS, *memory.P95_TARGETS}
    assert memory.measure_inserts(first)["ours"]["mean"] > 0
    assert Memory.objects.count() == 60


def test_figures_are_held_against_their_baselines() -> None:
    times = {"median": 1.0, "p95": 4.0}
    question = {
        "ours": times,
        "plain SQL": times,
        "ILIKE": {"median": 9.0, "p95": 40.0},
    }
    names = {*memory.MEDIAN_TARGETS, *memory.P95_TARGETS}
    figures = memory.search_figures(dict.fromkeys(names, question))
    assert {figure.target for figure in figures} <= {2.0, 50.0, 300.0}
    assert all(figure.met for figure in figures)
    stored = {"mean": 2.0, "median": 2.0, "p999": 30.0, "worst": 31.0}
    mean, slowest = memory.insert_figures({"ours": stored, "bare": stored})
    assert (mean.met, slowest.met) == (True, False)
