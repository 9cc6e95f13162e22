"""What the next call will be sent, and what a past one was sent."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, render
from django.utils.http import urlencode
from django.views.decorators.http import require_safe

from agents import context
from agents.dashboard import calls, changes, charts, contexts, outdated
from agents.dashboard.addresses import find_mysis, page_key
from agents.dashboard.offered import tools_of
from agents.forms import WhatIfForm, number_of
from agents.models import Mysis
from memory.models import SentContext
from memory.payload import canonical
from memory.shown import show

from . import what_if

VIEWS = {
    "messages": "Messages",
    "changes": "Since the last call",
    "compare": "Side by side",
    "tools": "Tools",
    "raw": "Raw",
}
# What is drawn of a long one at first; the rest is a click away.
DRAWN = 200
RAW = 200_000


@require_safe
def next_context(request: HttpRequest, key: str) -> HttpResponseBase:
    """The exact next payload; what-if values come as GET parameters."""
    mysis = find_mysis(key)
    as_of = outdated.as_of(mysis)
    form = WhatIfForm(request.GET or None)
    view = _wanted(request)
    tried = what_if.attempt(what_if.on_next(mysis), form, compare=view == "compare")
    shown = contexts.of_preview(tried.view) if tried.view else None
    if shown is not None and request.GET.get("format") == "json":
        return _download(shown)
    values = {
        "summaries": calls.summaries(
            mysis.pk, number_of(request.GET.get("folded", ""))
        ),
        "most_summaries": calls.SUMMARIES,
        "as_of": as_of,
        "now": as_of.at,
        "live_query": _live(mysis, as_of),
        **_tried(form, tried, shown),
        **_view(request, view, mysis, shown, None),
    }
    return _page(request, mysis, values, 422 if form.errors else 200)


def _live(mysis: Mysis, as_of: outdated.AsOf) -> str:
    """The address of the socket that tells when the context is outdated."""
    values = {"event": str(as_of.event), "settings": as_of.settings}
    return urlencode({"page": "context", "mysis": str(mysis.pk), **values})


def _wanted(request: HttpRequest) -> str:
    """Which way of showing it is asked for."""
    usual = "compare" if request.GET.get("against") else "messages"
    wanted = request.GET.get("view", usual)
    return wanted if wanted in VIEWS else "messages"


def _tried(
    form: WhatIfForm, tried: what_if.Tried, shown: contexts.Shown | None
) -> dict[str, Any]:
    found: dict[str, Any] = {
        "form": form,
        "shown": shown,
        "prepared": tried.view,
        "what_if": tried.what_if is not None,
    }
    if tried.comparison is not None:
        sides = (tried.comparison.a, tried.comparison.b)
        found |= {"comparison": tried.comparison, "sides": sides}
    return found


def _view(
    request: HttpRequest,
    view: str,
    mysis: Mysis,
    shown: contexts.Shown | None,
    sent: SentContext | None,
) -> dict[str, Any]:
    """What a way of showing it needs."""
    found: dict[str, Any] = {
        "view": view,
        "views": [(n, label, _query(request, view=n)) for n, label in VIEWS.items()],
        "json_query": _query(request, format="json"),
        "tools_query": _query(request, view="tools"),
        "recent": calls.recent(mysis.pk),
    }
    if shown is None:
        return found
    earlier, prefix = changes.before(mysis.pk, sent), 0
    if earlier is not None:
        since = changes.since(earlier, shown.messages, shown.system)
        found["changes"], prefix = since, since.prefix
    most = None if request.GET.get("whole") else DRAWN
    found["kept"] = Newest.of(shown.blocks[:prefix], most)
    found["fresh"] = Newest.of(shown.blocks[prefix:], most)
    found["ledger"] = Newest.of(shown.ledger, most)
    found["whole_query"] = _query(request, whole="1")
    if view == "raw":
        found["raw"] = _readable(shown)
        found["settings_json"] = json.dumps(mysis.model_settings, ensure_ascii=False)
    if view == "tools":
        found["tools"] = tools_of(mysis)
        found["tools_tokens"] = sum(tool.tokens for tool in found["tools"])
    return found


@dataclass(frozen=True, slots=True)
class Newest:
    """The last rows of a long list, and how many stand before them."""

    rows: Sequence[object]
    before: int

    @classmethod
    def of(cls, rows: Sequence[object], most: int | None) -> Newest:
        """All of them where ``most`` is None."""
        cut = max(0, len(rows) - most) if most is not None else 0
        return cls(rows[cut:], cut)


def _query(request: HttpRequest, **values: str) -> str:
    query = request.GET.copy()
    for name, value in values.items():
        query[name] = value
    return query.urlencode()


def _readable(shown: contexts.Shown) -> str:
    """The payload indented, for the eye; the file has every byte."""
    payload: dict[str, Any] = {"messages": list(shown.messages)}
    if shown.system is not None:
        payload = {"system": shown.system, **payload}
    return json.dumps(payload, ensure_ascii=False, indent=2)[:RAW]


def _download(shown: contexts.Shown) -> HttpResponse:
    """The very bytes whose SHA-256 the page shows."""
    body = canonical(shown.messages, shown.system).encode("utf-8", "surrogatepass")
    answer = HttpResponse(body, content_type="application/json")
    answer["Content-Disposition"] = f'inline; filename="{shown.digest[:12]}.json"'
    return answer


@require_safe
def call_context(request: HttpRequest, turn_id: int, number: int) -> HttpResponse:
    """What one past model call was sent, byte for byte; or what it would have been."""
    rows = SentContext.objects.select_related(
        "call__turn", "mysis__account", "mysis__policy", "mysis__prompt"
    )
    sent = get_object_or_404(
        rows, call__turn=min(turn_id, 2**63 - 1), call__number=min(number, 2**31 - 1)
    )
    form = WhatIfForm(request.GET or None, own=what_if.AS_SENT)
    view = _wanted(request)
    tried, likeness = _tried_on(sent, form, compare=view == "compare")
    shown = _shown(sent, form, tried)
    if shown is not None and request.GET.get("format") == "json":
        return _download(shown)
    values = {
        "sent": sent,
        "call": sent.call,
        "earlier": changes.before(sent.mysis_id, sent),
        "later": changes.after(sent),
        **_tried(form, tried, shown),
        "likeness": likeness,
        **_view(request, view, sent.mysis, shown, sent),
    }
    return _page(request, sent.mysis, values, 422 if form.errors else 200)


def _tried_on(
    sent: SentContext, form: WhatIfForm, *, compare: bool
) -> tuple[what_if.Tried, what_if.Likeness | None]:
    """What is tried on a past call. To be shown it needs none of its moment."""
    if not what_if.asks(form):
        return what_if.Tried(None), None
    then = context.past_of(sent)
    tried = what_if.attempt(what_if.on_past(then), form, compare=compare)
    asked = tried.what_if is not None or tried.comparison is not None
    return tried, what_if.likeness(then) if asked else None


def _shown(
    sent: SentContext, form: WhatIfForm, tried: what_if.Tried
) -> contexts.Shown | None:
    """The call as it was sent, or what is tried instead."""
    if tried.what_if is not None:
        return contexts.of_preview(tried.what_if)
    if form.errors and tried.own is None:
        return None
    return contexts.of_sent(sent, show(sent))


def _page(
    request: HttpRequest, mysis: Mysis, values: dict[str, Any], status: int
) -> HttpResponse:
    place = {"mysis": mysis, "key": page_key(mysis), "tab": "context"}
    values = {**place, "categories": charts.CATEGORIES, **values}
    return render(request, "memory/context.html", values, status=status)
