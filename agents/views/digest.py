"""What happened since a moment, or since the user's last visit."""

from __future__ import annotations

from datetime import datetime

from django.contrib.auth.models import User
from django.http import HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from agents.dashboard.digest import (
    bound_since,
    parse_since,
    share_digest,
)
from agents.dashboard.digest_text import (
    describe_length,
    describe_nothing,
    describe_span,
    write_brief,
    write_sections,
)
from agents.events import format_moment
from agents.models.visits import Visit
from agents.views.access import PageRequest

SPANS = ("1h", "8h", "24h", "7d")
# What a first visit is shown.
DEFAULT_SPAN_NAME = "24h"


@require_safe
def digest_page(request: PageRequest) -> HttpResponse:
    """What happened since ``since``, else since the last visit, else in a day."""
    now = timezone.now()
    asked, error = request.GET.get("since", "")[:40], ""
    visit = _note_look(request, now)
    since = bound_since(visit, now)
    if asked:
        try:
            since = parse_since(asked, now)
        except ValueError as refused:
            error = f"since: {refused}"
    digest = share_digest(since, now)
    if visit and digest.since == visit.replace(second=0, microsecond=0):
        # What the line of the Fleet page leads to.
        asked = ""
    context = {
        "asked": "" if error else asked or ("" if visit else DEFAULT_SPAN_NAME),
        "error": error,
        "visit": visit,
        "spans": SPANS,
        "span": describe_span(digest.since, digest.until),
        "nothing": describe_nothing(digest.since) if digest.is_empty else "",
        "sections": write_sections(digest),
    }
    return render(request, "agents/digest.html", context, status=422 if error else 200)


@require_safe
def last_visit(request: PageRequest) -> HttpResponse:
    """The line of the Fleet page; nothing where nothing happened, or on a first visit."""
    now = timezone.now()
    before = _note_look(request, now)
    if before is None:
        return HttpResponse("")
    since = bound_since(before, now)
    digest = share_digest(since, now)
    if digest.is_empty:
        return HttpResponse("")
    context = {
        "since": format_moment(digest.since),
        "length": describe_length(now - since),
        "brief": write_brief(digest),
    }
    return render(request, "agents/fleet/last_visit.html", context)


def _note_look(request: PageRequest, now: datetime) -> datetime | None:
    """The end of the visit before this one, which is kept."""
    assert isinstance(request.user, User)  # noqa: S101 (who is signed in)
    return Visit.note_look(request.user.pk, now)
