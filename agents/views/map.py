"""The galaxy with the fleet's ships on it."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from agents import manual
from agents.actions import ActionError
from agents.dashboard import galaxy, ships
from agents.models import Mysis

from .access import actor, operator_required
from .answers import confirm, refuse


@require_safe
def map_page(request: HttpRequest) -> HttpResponse:
    """The newest map; the socket brings the ships as they move."""
    chart = galaxy.chart()
    context = {
        "chart": chart,
        "parts": {"map-ships": ships.on_map(chart)} if chart else {},
        "named": galaxy.NAMED,
        "askers": _askers(),
        "now": timezone.now(),
    }
    return render(request, "agents/map.html", context)


def _askers() -> list[Mysis]:
    """Who can ask the game for its map."""
    return list(Mysis.objects.exclude(account=None).order_by("name")[:50])


@require_POST
@operator_required
def ask(request: HttpRequest) -> HttpResponse:
    """Let one Mysis ask for the map, by hand."""
    number = request.POST.get("mysis", "")
    asker = next((m for m in _askers() if str(m.pk) == number), None)
    if asker is None:
        return refuse(request, "Choose a Mysis that has a game account.", 422)
    try:
        manual.run_command(
            mysis=asker, tool=galaxy.TOOL, arguments={}, by=actor(request)
        )
    except ActionError as error:
        return refuse(request, error.detail, error.status)
    return confirm(request, f"{asker.name} asked for the map.")
