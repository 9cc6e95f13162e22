"""The front page: who flies, how they fare, what just happened."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.utils.html import format_html_join
from django.utils.safestring import SafeString
from django.views.decorators.http import require_safe

from agents.actions import MAX_TEXT
from agents.dashboard import charts, chips, feed, fleet, fragments, health, pages
from agents.models import Mysis


@require_safe
def fleet_page(request: HttpRequest) -> HttpResponse:
    """The fleet as filtered and sorted by the address."""
    now = timezone.now()
    view = fleet.View.of(request.GET)
    found = health.look(now)
    parts = [
        pages.drawn(fleet.rows_of(view, now)),
        *fragments.fleet_head(found),
        *chips.of_groups(),
        fragments.newest_feed(),
    ]
    context = {
        "view": view,
        "health": found,
        "sorts": fleet.SORTS,
        "states": fleet.STATES,
        "flags": fleet.FLAGS,
        "parts": {part.id: part for part in parts},
        "live_query": f"page=fleet&{view.query_of()}",
        "targets": _targets(request.GET.get("to", "")),
        "groups": feed.GROUPS,
        "counted": chips.COUNTED,
        "max_text": MAX_TEXT,
        "categories": charts.CATEGORIES,
        "now": now,
    }
    return render(request, "agents/fleet.html", context)


def _targets(chosen: str) -> SafeString:
    """All Myses as options, which a template would take long to write."""
    rows = Mysis.objects.order_by("name").values_list("pk", "name")
    options = (
        (pk, " selected" if chosen == str(pk) else "", name) for pk, name in rows
    )
    return format_html_join("", '<option value="{}"{}>{}</option>', options)


@require_safe
def newest_feed(request: HttpRequest) -> HttpResponse:
    """The feed from its newest line on, after a pause; ``group`` names a chip."""
    return HttpResponse(fragments.newest_feed(request.GET.get("group", "")).html)
