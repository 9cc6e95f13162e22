"""The way from hit to hit of a search, on whatever page a hit leads to."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.http import HttpRequest
from django.urls import reverse
from django.utils.functional import SimpleLazyObject
from django.utils.http import urlencode

from agents.dashboard.search import (
    FOUND,
    Result,
    SearchPage,
    search_everything,
    write_question,
)
from agents.forms import SearchForm
from memory.handles import parse_id
from memory.problems import Problem
from memory.search.results import build_marker

# A hit is shown without its neighbours where a search for them takes more seconds, or
# waits for longer until it may begin.
SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class HitPlace:
    """Where a hit stands among all hits, and the addresses of its neighbours.

    ``total`` are those that were looked at; with ``more`` there are others behind.
    """

    number: int
    total: int
    more: bool
    newer: str
    older: str


@dataclass(frozen=True, slots=True)
class HitWalk:
    """What a page says of the hit that it shows.

    ``marker`` finds the words that were searched, ``results`` is the address of all
    hits. ``place`` is None where the hit is none of those looked at any more, or where
    that takes too long to find, which ``slow`` tells.
    """

    marker: re.Pattern[str] | None
    results: str
    place: HitPlace | None = None
    slow: bool = False


def add_hit_walk(request: HttpRequest) -> dict[str, object]:
    """For the templates: the way from hit to hit, if a hit of a search led here."""
    if FOUND not in request.GET:
        return {}
    return {"hit_walk": SimpleLazyObject(partial(_find_walk, request))}


def _find_walk(request: HttpRequest) -> HitWalk | None:
    user = getattr(request, "user", None)
    number = parse_id(request.GET[FOUND])
    form = SearchForm(request.GET, prefix=FOUND)
    if user is None or not user.is_authenticated or number is None:
        return None
    if not form.is_valid():
        return None
    asked = form.cleaned_data
    marker = build_marker(asked["q"], asked["mode"] or "fts")
    results = f"{reverse('search')}?{urlencode(write_question(asked))}"
    try:
        return HitWalk(marker, results, _find_place(asked, number))
    except Problem:
        # It took too long, or others are searching: the page is shown all the same.
        return HitWalk(marker, results, slow=True)


def _find_place(asked: dict[str, Any], number: int) -> HitPlace | None:
    """The place of a hit; None where it is none of those looked at."""
    found = search_everything(asked, SECONDS)
    ids = [one.id for one in found.results]
    if number not in ids:
        return None
    place = ids.index(number)
    passed = (asked["passed"] or 0) if asked["before"] else 0
    return HitPlace(
        number=passed + place + 1,
        total=passed + len(ids),
        more=found.reached is not None,
        newer=_find_first_link(found.results[:place][::-1])
        or (_go_back(asked, found.results[0].id, passed) if passed else ""),
        older=_find_first_link(found.results[place + 1 :])
        or _go_on(asked, found, passed),
    )


def _find_first_link(results: Sequence[Result]) -> str:
    """The nearest hit that is read somewhere: a broadcast that nobody has is not."""
    return next((one.link for one in results if one.link), "")


def _go_back(asked: dict[str, Any], number: int, passed: int) -> str:
    """The last of the ``passed`` hits before a hit of this number.

    Searches begin at the newest hit, so one is looked for that reaches just far enough:
    half as far in each step.
    """
    low, high, before = number, number, None
    while before is None or low < high:
        page = search_everything(asked | {"before": before, "passed": 0}, SECONDS)
        newer = sum(one.id > number for one in page.results)
        if newer and (page.reached is None or page.reached <= number):
            place = {"before": page.results[0].id + 1, "passed": max(0, passed - newer)}
            nearest = search_everything(asked | place, SECONDS).results[:newer]
            return _find_first_link(nearest[::-1])
        if newer:
            high = page.results[newer - 1].id + 1
        elif before is None:
            break
        else:
            low = before
        before = (low + high + 1) // 2
    return ""


def _go_on(asked: dict[str, Any], found: SearchPage, passed: int) -> str:
    """The first hit behind those that were looked at."""
    if found.reached is None:
        return ""
    further = asked | {"before": found.reached, "passed": passed + len(found.results)}
    return _find_first_link(search_everything(further, SECONDS).results)
