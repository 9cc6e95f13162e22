"""What the next call will be sent, and what a past one was sent."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from agents import context
from agents.actions import ActionError
from agents.dashboard import charts, contexts
from agents.dashboard.addresses import find_mysis, page_key
from agents.forms import WhatIfForm
from agents.models import Mysis
from memory.models import SentContext
from memory.preview import Prepared


@require_safe
def next_context(request: HttpRequest, key: str) -> HttpResponseBase:
    """The exact next payload; what-if values come as GET parameters."""
    mysis = find_mysis(key)
    form = WhatIfForm(request.GET or None)
    prepared = _prepare(mysis, form)
    if prepared is not None and request.GET.get("format") == "json":
        return _download(prepared)
    shown = contexts.of_preview(prepared) if prepared else None
    values = {
        "form": form,
        "shown": shown,
        "prepared": prepared,
        "what_if": bool(form.is_bound and form.has_values()),
        "raw_query": _raw_query(request),
    }
    return _page(request, mysis, values, 422 if form.errors else 200)


def _prepare(mysis: Mysis, form: WhatIfForm) -> Prepared | None:
    if form.is_bound and not form.is_valid():
        return None
    try:
        if not form.is_bound:
            return context.preview(mysis)
        return context.preview(mysis, **form.changes(context.subject_of(mysis)))
    except ActionError as error:
        form.blame(error.detail)
        return None


def _raw_query(request: HttpRequest) -> str:
    query = request.GET.copy()
    query["format"] = "json"
    return query.urlencode()


def _download(prepared: Prepared) -> JsonResponse:
    assembly = prepared.assembly
    payload: dict[str, Any] = {"messages": assembly.messages}
    if assembly.system is not None:
        payload = {"system": assembly.system, **payload}
    options = {"ensure_ascii": False, "indent": 2}
    return JsonResponse(payload, json_dumps_params=options)


@require_safe
def call_context(request: HttpRequest, turn_id: int, number: int) -> HttpResponse:
    """What one past model call was sent, byte for byte."""
    rows = SentContext.objects.select_related("call__turn", "mysis__account")
    sent = get_object_or_404(
        rows, call__turn=min(turn_id, 2**63 - 1), call__number=min(number, 2**31 - 1)
    )
    values = {"shown": contexts.of_sent(sent), "sent": sent, "call": sent.call}
    return _page(request, sent.mysis, values, 200)


def _page(
    request: HttpRequest, mysis: Mysis, values: dict[str, Any], status: int
) -> HttpResponse:
    place = {"mysis": mysis, "key": page_key(mysis), "tab": "context"}
    values = {**place, "categories": charts.CATEGORIES, **values}
    return render(request, "memory/context.html", values, status=status)
