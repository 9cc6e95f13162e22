"""The page of the fleet's analytics: what came of prompts, policies and models."""

from __future__ import annotations

from django.http import HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe
from django_htmx.http import reselect, retarget

from agents.dashboard.charts import CATEGORIES
from agents.dashboard.yields import GROUPINGS, SPANS
from agents.lab.analytics_board import AnalyticsView, load_outcomes, write_csv
from agents.views.access import PageRequest
from memory import audit
from memory.problems import SlowSearchError

# What a page that is not whole yet draws anew.
LINES = "analytics-lines"


@require_safe
def analytics_page(request: PageRequest) -> HttpResponse:
    """The board, by the address; ``format=csv`` gives its lines as a file."""
    now = timezone.now()
    view = AnalyticsView.read(request.GET)
    try:
        board = load_outcomes(view, now)
    except SlowSearchError:
        board = None
    wants_file = request.GET.get("format") == "csv"
    if wants_file and board is not None and board.whole:
        if request.method == "GET":
            told = {"by": view.by, "since": view.since}
            audit.record("analytics.download", after=told)
        name = f"analytics-{view.by}-{view.since}.csv"
        return HttpResponse(
            write_csv(board.lines),
            content_type="text/csv; charset=utf-8",
            headers={"Content-Disposition": f'attachment; filename="{name}"'},
        )
    context = {
        "view": view,
        "board": board,
        "wants_file": wants_file,
        "query": view.write_query(),
        "categories": CATEGORIES,
        "groupings": [
            (label, view.write_query(by=by), by == view.by)
            for by, label in GROUPINGS.items()
        ],
        "spans": [
            (span, view.write_query(since=span), span == view.since) for span in SPANS
        ],
        "now": now,
    }
    page = render(request, "agents/analytics.html", context)
    if request.htmx and request.htmx.target == LINES and (board is None or board.whole):
        # All is there: with the lines what stands above them.
        return reselect(retarget(page, "#analytics"), "#analytics")
    return page
