"""One box over messages, reasoning and broadcasts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from agents.dashboard.finding import Found, Result, find
from agents.forms import SearchForm
from memory.patience import SlowSearchError

PAGE = 20
FACETS = 8


@require_safe
def search_page(request: HttpRequest) -> HttpResponse:
    """The newest matches, newest first."""
    asked = bool(request.GET.get("q"))
    form = SearchForm(request.GET if asked else None, initial=request.GET.dict())
    found: Found | None = None
    if asked and form.is_valid():
        try:
            found = find(form.cleaned_data)
        except SlowSearchError as error:
            form.add_error("q", error.detail)
    context: dict[str, Any] = {"form": form, "asked": found is not None}
    if found is not None:
        context |= {
            "results": found.results[:PAGE],
            "where": form.cleaned_data["where"],
            "older": _older(request, found),
            "newest": _with(request, before="") if request.GET.get("before") else "",
            "facets": _facets(request, found.results),
            "counted": len(found.results),
            "full": found.reached is not None,
        }
    return render(request, "memory/search.html", context)


@dataclass(frozen=True, slots=True)
class Facet:
    """A narrower search, and how many of the newest matches it has."""

    label: str
    count: int
    query: str


def _facets(request: HttpRequest, found: Sequence[Result]) -> Sequence[Facet]:
    """The Myses that most of the matches are of."""
    if request.GET.get("mysis"):
        return ()
    counts = Counter((hit.name, hit.owner) for hit in found if hit.owner)
    return [
        Facet(name, count, _with(request, mysis=str(owner), before=""))
        for (name, owner), count in counts.most_common(FACETS)
    ]


def _with(request: HttpRequest, **values: str) -> str:
    query = request.GET.copy()
    for name, value in values.items():
        query[name] = value
    return query.urlencode()


def _older(request: HttpRequest, found: Found) -> str:
    """The query of the next page: behind what is shown, or what was looked through."""
    if len(found.results) > PAGE:
        return _with(request, before=str(found.results[PAGE - 1].id))
    return _with(request, before=str(found.reached)) if found.reached else ""
