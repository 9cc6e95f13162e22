"""Which painted row showed which word first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from math import floor
from typing import NamedTuple


class Word(NamedTuple):
    """A word of a Mysis. ``written`` is its own time, ``told`` that of its event.

    All times are in milliseconds.
    """

    event: int
    mysis: int
    written: float
    told: float


class Seen(NamedTuple):
    """A row that was painted at ``at`` with a word that was written then."""

    mysis: int
    written: float
    at: float


def lateness(words: Sequence[Word], seen: Sequence[Seen]) -> list[float | None]:
    """From each word's event to its paint in milliseconds, None for one never painted.

    A word that a newer one took the place of at once is painted with that one. Pages
    tell times to the millisecond.
    """
    rows: defaultdict[int, list[Seen]] = defaultdict(list)
    for one in seen:
        rows[one.mysis].append(one)
    found: list[float | None] = []
    for word in words:
        paints = [
            one.at for one in rows[word.mysis] if one.written >= floor(word.written)
        ]
        found.append(min(paints) - word.told if paints else None)
    return found
