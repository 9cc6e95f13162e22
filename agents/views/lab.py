"""The lab: replays of recorded calls, and what they recommend."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.http import urlencode
from django.views.decorators.http import (
    require_http_methods,
    require_POST,
    require_safe,
)

from agents import context_inputs
from agents.actions import ActionError
from agents.actions.base import name_operator
from agents.dashboard import context_diff, replays
from agents.lab.recommend import recommend_from_report
from agents.models import Mysis, Replay, ReplayCall
from agents.replay_forms import ReplayForm
from agents.views.access import (
    PageRequest,
    is_admin,
    is_operator,
    notify_success,
    operator_required,
)
from memory.handles import MAX_ID, parse_id

# Replays on a page of the list, and rows of calls that are drawn at once.
PAGE, ROWS = 30, 200


@require_http_methods(["GET", "HEAD", "POST"])
def lab_page(request: PageRequest) -> HttpResponse:
    """The form of a replay and those that are kept, newest first."""
    if request.method == "POST":
        return start(request)
    return _render_lab(request, ReplayForm(initial=request.GET.dict()), 200)


@operator_required
def start(request: PageRequest) -> HttpResponse:
    """Ask for a replay; what was refused keeps what was typed."""
    form, status = ReplayForm(request.POST), 422
    if form.is_valid():
        try:
            replay = form.start(by=name_operator(request))
        except ActionError as error:
            form.add_error(None, error.detail)
            status = error.status
        else:
            messages.success(request, f"Replay {replay.pk} is on its way.")
            return redirect("replay", replay.pk)
    return _render_lab(request, form, status)


def _render_lab(request: PageRequest, form: ReplayForm, status: int) -> HttpResponse:
    before = parse_id(request.GET.get("before", ""))
    rows = Replay.objects.select_related("mysis").order_by("-pk")
    if before is not None:
        rows = rows.filter(pk__lt=before)
    found = list(rows.defer("report")[: PAGE + 1])
    values = {
        "form": form,
        "replays": found[:PAGE],
        "older": found[PAGE - 1].pk if len(found) > PAGE else None,
        "before": before,
        "may_start": is_operator(request),
    }
    return render(request, "agents/lab.html", values, status=status)


def _find_replay(number: int) -> Replay:
    rows = Replay.objects.select_related("mysis")
    return get_object_or_404(rows, pk=min(number, MAX_ID))


@require_safe
def replay_page(request: PageRequest, number: int) -> HttpResponse:
    """One replay: progress, figures, charts, and its calls after ``after``."""
    replay = _find_replay(number)
    after = parse_id(request.GET.get("after", "")) or 0
    rows = list(_select_rows(replay, after)[: ROWS + 1])
    names = dict(Mysis.objects.values_list("pk", "name"))
    shown = replays.list_calls(replay, rows[:ROWS], names)
    values: dict[str, Any] = {
        "replay": replay,
        "rows": shown,
        "more": len(rows) > ROWS,
        "last": rows[:ROWS][-1].place if rows else after,
        "after": after,
        "policies": replays.name_policies(replay),
        "may_cancel": is_operator(request),
    }
    if request.htmx and request.GET.get("rows"):
        return render(request, "agents/lab/more_rows.html", values)
    figures = replays.read_figures(replay)
    values |= {
        "figures": replays.list_figures(figures),
        "charts": replays.draw_charts(replay),
        "under_way": replay.state in Replay.UNDER_WAY,
    }
    if replay.state == Replay.State.DONE:
        values |= {"advice": recommend_from_report(replay), "may_apply": is_admin(request)}
    part = "agents/lab/news.html" if request.htmx else "agents/replay.html"
    return render(request, part, values)
