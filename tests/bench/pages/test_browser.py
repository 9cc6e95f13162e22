"""Which painted row showed which word first."""

from __future__ import annotations

from bench.pages.browser import Paint, Word, measure_lateness


def test_a_word_is_painted_with_itself_or_with_a_newer_one():
    words = [
        Word(event=1, mysis=7, written=1000.7, told=1010.0),
        Word(event=2, mysis=7, written=1200.2, told=1210.0),
        Word(event=3, mysis=8, written=1300.0, told=1310.0),
        Word(event=4, mysis=7, written=1500.0, told=1510.0),
    ]
    paints = [Paint(7, 900, 1100), Paint(7, 1200, 1400), Paint(7, 1500, 1600)]
    assert measure_lateness(words, paints) == [390, 190, None, 90]
