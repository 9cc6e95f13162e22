"""The front page: who flies, how they fare, what just happened."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.utils.http import urlencode
from django.views.decorators.http import require_safe

from agents.actions import MAX_TEXT
from agents.dashboard import charts, fleet, fragments, health
from agents.forms import MessageForm


@require_safe
def fleet_page(request: HttpRequest) -> HttpResponse:
    """The fleet as filtered and sorted by the address."""
    now = timezone.now()
    view = fleet.View.of(request.GET)
    rows = fleet.sorted_rows(view, now)
    found = health.look(now)
    live = urlencode(
        {"page": "fleet", "state": view.state, "q": view.query, "sort": view.sort}
    )
    parts = [
        fragments.fleet_rows(rows, filtered=bool(view.state or view.query)),
        *fragments.fleet_head(found),
        fragments.newest_feed(),
    ]
    context = {
        "view": view,
        "health": found,
        "sorts": fleet.SORTS,
        "states": fleet.STATES,
        "parts": {part.id: part for part in parts},
        "live_query": live,
        "form": MessageForm(initial={"to": request.GET.get("to", "")}),
        "max_text": MAX_TEXT,
        "categories": charts.CATEGORIES,
        "now": now,
    }
    return render(request, "agents/fleet.html", context)
