"""What the measurements of search and sockets reckon, without any timing."""

from __future__ import annotations

import pytest

from bench.search import corpus, part
from bench.search.corpus import ELSEWHERE, Size, fill, word
from bench.surfaces import part as surfaces
from bench.surfaces.clients import frame_of
from memory.models import Memory
from memory.search.results import search_messages


def frame(payload: bytes) -> bytes:
    """A text frame of a server."""
    size = len(payload)
    if size < 126:
        return bytes([0x81, size]) + payload
    if size < 65536:
        return bytes([0x81, 126]) + size.to_bytes(2, "big") + payload
    return bytes([0x81, 127]) + size.to_bytes(8, "big") + payload


@pytest.mark.parametrize("size", [0, 5, 125, 126, 65_535, 65_536])
def test_frames_are_taken_whole(size: int) -> None:
    payload = bytes(range(256)) * (size // 256 + 1)
    payload = payload[:size]
    both = frame(payload) + frame(b"next")
    assert frame_of(both) == (payload, frame(b"next"))
    assert frame_of(frame(payload)[:-1] if size else b"\x81") is None


def test_no_word_is_a_part_of_another() -> None:
    words = {word(rank) for rank in range(1, corpus.VOCABULARY + 1)}
    assert len(words) == corpus.VOCABULARY
    assert len({len(each) for each in words}) == 1
    assert ELSEWHERE not in words


@pytest.mark.django_db(transaction=True)
def test_a_corpus_is_made_once_with_its_indexes(
    monkeypatch: pytest.MonkeyPatch, django_assert_max_num_queries
) -> None:
    monkeypatch.setattr(corpus, "SENTENCES", 50)
    size = Size(60, 3, 20)
    first, *others = fill(size).values()
    with django_assert_max_num_queries(40):
        assert list(fill(size).values()) == [first, *others]
    assert Memory.objects.count() == 60
    assert Memory.objects.filter(mysis_id=first).count() == 20
    assert search_messages(query=ELSEWHERE, mysis_id=first) == []
    assert search_messages(query=ELSEWHERE)


def test_figures_are_held_against_their_baselines() -> None:
    times = {"median": 1.0, "p95": 4.0}
    question = {
        "ours": times,
        "plain SQL": times,
        "ILIKE": {"median": 9.0, "p95": 40.0},
    }
    names = {*part.MEDIANS, *part.P95}
    figures = part.searching(dict.fromkeys(names, question))
    assert {figure.target for figure in figures} <= {2.0, 50.0, 300.0}
    assert all(figure.met for figure in figures)
    stored = {"mean": 2.0, "median": 2.0, "p999": 30.0, "worst": 31.0}
    mean, slowest = part.storing({"ours": stored, "bare": stored})
    assert (mean.met, slowest.met) == (True, False)
    got = {"lost": 1, "twice": 0, "disordered": 0, "median": 9.0, "p95": 60.0}
    median, late, lost = surfaces.sending("200 clients", {"ours": got, "bare": got})
    assert (median.met, late.met, lost.met) == (None, False, False)
