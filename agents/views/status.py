"""Accounts and Health: what stands behind the fleet."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from agents.dashboard import machine, pilots, upkeep


@require_safe
def accounts_page(request: HttpRequest) -> HttpResponse:
    """The game accounts with their cached state."""
    wanted = request.GET.get("q", "").replace("\x00", "").strip()[:100]
    after = request.GET.get("after", "").replace("\x00", "")[:300]
    found = pilots.load(timezone.now(), wanted, after)
    context = {
        "pilots": found[: pilots.PAGE],
        "more": len(found) > pilots.PAGE,
        "after": after,
        "query": wanted,
        "nav": "accounts",
    }
    return render(request, "agents/accounts.html", context)


@require_safe
def health_page(request: HttpRequest) -> HttpResponse:
    """What is wrong and what it costs: fleet, worker, models, database."""
    now = timezone.now()
    context = {
        "parts": {part.id: part for part in upkeep.parts(now)},
        "stock": machine.stock(),
        "now": now,
        "nav": "health",
    }
    return render(request, "agents/health.html", context)
