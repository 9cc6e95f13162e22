"""The palette of every page and the list of keys, as fragments."""

from __future__ import annotations

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from agents.dashboard.palette import list_options
from agents.views.access import PageRequest, is_admin, is_operator

LONGEST = 500


@require_safe
def palette(request: PageRequest) -> HttpResponse:
    """What is offered for what was typed."""
    typed = request.GET.get("q", "")[:LONGEST]
    options = list_options(
        typed, operator=is_operator(request), admin=is_admin(request)
    )
    context = {"typed": typed, "options": options}
    return render(request, "agents/palette/options.html", context)


@require_safe
def keys(request: PageRequest) -> HttpResponse:
    """All keys, with the switch that turns single ones off."""
    context = {"operator": is_operator(request)}
    return render(request, "agents/palette/keys.html", context)
