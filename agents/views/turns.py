"""One past turn: its calls, what each was sent, what it cost."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from agents.dashboard import charts, lines
from agents.dashboard.addresses import find_mysis, page_key
from agents.forms import number_of
from agents.models import ModelCall, Turn
from memory.models import Memory, SentContext

LINES = 200
PAGE = 50


@require_safe
def turns_page(request: HttpRequest, key: str) -> HttpResponse:
    """The turns of a Mysis, newest first; ``?before=<number>`` goes further back."""
    mysis = find_mysis(key)
    before = number_of(request.GET.get("before", ""))
    rows = Turn.objects.filter(mysis=mysis).order_by("-id")
    if before is not None:
        rows = rows.filter(number__lt=min(before, 2**31 - 1))
    found = list(rows[: PAGE + 1])
    context = {
        "mysis": mysis,
        "key": page_key(mysis),
        "tab": "turns",
        "turns": found[:PAGE],
        "before": before,
        "older": found[PAGE - 1].number if len(found) > PAGE else None,
    }
    return render(request, "agents/turns.html", context)


@require_safe
def turn_page(request: HttpRequest, turn_id: int) -> HttpResponse:
    """The turn, its model calls with their contexts, and its messages."""
    rows = Turn.objects.select_related("mysis", "mysis__account")
    turn = get_object_or_404(rows, pk=min(turn_id, 2**63 - 1))
    sent = SentContext.objects.filter(call__turn=turn).in_bulk(field_name="call_id")
    calls = [
        _shown(call, sent.get(call.pk))
        for call in ModelCall.objects.filter(turn=turn).order_by("pk")
    ]
    found = Memory.objects.filter(mysis=turn.mysis, turn=turn).order_by("id")[:LINES]
    context = {
        "turn": turn,
        "mysis": turn.mysis,
        "key": page_key(turn.mysis),
        "calls": calls,
        "summaries": sum(item["summary"] for item in calls),
        "lines": [lines.line(row, turn.mysis.name) for row in lines.rows(found)],
        "earlier": _neighbour(turn, -1),
        "later": _neighbour(turn, 1),
    }
    return render(request, "agents/turn.html", context)


def _shown(call: ModelCall, sent: SentContext | None) -> dict[str, Any]:
    summary = call.kind == ModelCall.Kind.SUMMARY
    return {
        "call": call,
        "id": f"{'summary' if summary else 'call'}-{call.number}",
        "summary": summary,
        "sent": sent,
        "gauge": _gauge(sent),
    }


def _gauge(sent: SentContext | None) -> charts.Gauge | None:
    return None if sent is None else charts.gauge(sent.stats)


def _neighbour(turn: Turn, step: int) -> Turn | None:
    return Turn.objects.filter(mysis=turn.mysis, number=turn.number + step).first()
