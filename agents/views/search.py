"""One box over messages, reasoning and broadcasts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from agents.dashboard import feed
from agents.dashboard.lines import person
from agents.forms import SearchForm
from agents.search import search_broadcasts
from memory.patience import SlowSearchError
from memory.search import search_messages

PAGE = 20
# The newest matches that are counted by Mysis and by origin.
COUNTED = 100
FACETS = 8


@dataclass(frozen=True, slots=True)
class Result:
    """A hit as the page shows it. ``snippet`` holds escaped text and marks."""

    id: int
    name: str
    key: str
    who: str
    snippet: str
    at: datetime
    owner: int = 0


@require_safe
def search_page(request: HttpRequest) -> HttpResponse:
    """The newest matches, newest first."""
    asked = bool(request.GET.get("q"))
    form = SearchForm(request.GET if asked else None, initial=request.GET.dict())
    found: list[Result] | None = None
    if asked and form.is_valid():
        try:
            found = _found(form.cleaned_data)
        except SlowSearchError as error:
            form.add_error("q", error.detail)
    more = found is not None and len(found) > PAGE
    page = found[:PAGE] if found is not None else None
    facets = _facets(request, found) if found else ()
    context = {
        "form": form,
        "results": page,
        "where": form.cleaned_data["where"] if page is not None else "",
        "next": _next(request, page) if more and page else "",
        "facets": facets,
        "counted": len(found) if found else 0,
        "full": found is not None and len(found) == COUNTED,
    }
    return render(request, "memory/search.html", context)


def _found(asked: dict[str, Any]) -> list[Result]:
    chosen = {
        "query": asked["q"],
        "mode": asked["mode"] or "fts",
        "limit": COUNTED,
        "before": asked["before"],
    }
    if asked["where"] == "broadcasts":
        return [
            Result(hit.id, "", "", person(hit.sender), hit.snippet, hit.timestamp)
            for hit in search_broadcasts(**chosen)
        ]
    owner = asked["mysis"]
    hits = search_messages(
        **chosen,
        mysis_id=owner.pk if owner else None,
        reasoning=asked["where"] == "reasoning",
    )
    known = feed.names(hit.mysis for hit in hits)
    gone = feed.Named()
    return [
        Result(
            hit.memory_id,
            known.get(hit.mysis, gone).name,
            known.get(hit.mysis, gone).key,
            hit.role if hit.origin == "agent" else hit.origin,
            hit.snippet,
            hit.timestamp,
            hit.mysis,
        )
        for hit in hits
    ]


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


def _next(request: HttpRequest, page: Sequence[Result]) -> str:
    query = request.GET.copy()
    query["before"] = str(page[-1].id)
    return query.urlencode()
