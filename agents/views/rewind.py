"""The form of a rewind, with what its first call comes to, and the page of what came of it."""

from __future__ import annotations

from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import (
    require_http_methods,
    require_POST,
    require_safe,
)
from django_htmx.http import HttpResponseClientRedirect

from agents.actions.base import ActionError, name_operator
from agents.forms import add_action_error
from agents.lab import rewind as lab
from agents.lab.forms import RewindForm
from agents.models import Rewind
from agents.views.access import PageRequest, notify_success, operator_required
from memory.handles import parse_id
from memory.models import SentContext

# Earlier rewinds of a Mysis that its form names.
EARLIER = 10


@require_http_methods(["GET", "HEAD", "POST"])
@operator_required
def rewind_form(request: PageRequest, turn_id: int, number: int) -> HttpResponse:
    """From which call on, with what otherwise; a POST starts it, or only forecasts."""
    sent = _find_sent(turn_id, number)
    order = lab.find_order(sent)
    had = {
        "prompt": lab.read_prompt(sent),
        "model": sent.call.model,
        "order": order.content if order else "",
    }
    form = RewindForm(request.POST or None, had=had)
    found = None
    if not form.is_bound or form.is_valid():
        settings = form.read_settings()
        by = name_operator(request)
        try:
            if form.is_bound and "forecast" not in request.POST:
                return redirect(lab.start_rewind(sent=sent, settings=settings, by=by))
            found = lab.forecast(lab.plan_rewind(sent, settings, by), sent)
        except ActionError as error:
            if not form.is_bound:
                raise
            add_action_error(form, error)
    mysis = sent.mysis
    values = {
        "mysis": mysis,
        "tab": "turns",
        "sent": sent,
        "call": sent.call,
        "form": form,
        "forecast": found,
        "earlier": mysis.rewinds.order_by("-pk")[:EARLIER],
    }
    status = 422 if form.errors else 200
    return render(request, "agents/rewind/form.html", values, status=status)


def _find_sent(turn_id: int, number: int) -> SentContext:
    try:
        return lab.find_call(min(turn_id, 2**63 - 1), min(number, 2**31 - 1))
    except ActionError as error:
        raise Http404(error.detail) from error


@require_safe
def rewind_page(request: PageRequest, rewind_id: int) -> HttpResponse:
    """A rewind with its steps, side by side; a script asks for those ``after`` one."""
    rows = Rewind.objects.select_related("mysis__account")
    try:
        row = get_object_or_404(rows, pk=min(rewind_id, 2**63 - 1))
    except Http404:
        if request.htmx:
            # It was discarded while somebody watched it.
            return HttpResponseClientRedirect(reverse("fleet"))
        raise
    after = parse_id(request.GET.get("after", "")) or 0 if request.htmx else 0
    steps = list(row.steps.filter(place__gt=after).order_by("place"))
    values = {
        "mysis": row.mysis,
        "tab": "turns",
        "rewind": row,
        "steps": steps,
        "last": steps[-1].place if steps else after,
    }
    template = "news" if request.htmx else "page"
    return render(request, f"agents/rewind/{template}.html", values)


@require_POST
@operator_required
def discard(request: PageRequest, rewind_id: int) -> HttpResponse:
    """End a rewind and delete it; its form names where to go from there."""
    row = get_object_or_404(Rewind.objects.select_related("mysis"), pk=rewind_id)
    lab.discard_rewind(rewind=row, by=name_operator(request))
    return notify_success(request, f"Rewind {rewind_id} is discarded.")
