"""The page of a context: of the next call, or of one that was made.

Either can be tried under other settings than its own, and two be laid side by side;
only what is assembled differs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from django.http import HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.safestring import SafeString
from django.views.decorators.http import require_safe

from agents import context_inputs
from agents.actions import ActionError
from agents.dashboard import charts, context, context_diff
from agents.dashboard.context_tabs import lay_steps, show_tools
from agents.dashboard.live import context_page
from agents.forms import WhatIfForm
from agents.lab.advice import describe_mysis_advice
from agents.models import ModelCall, Mysis
from agents.views.access import PageRequest, find_mysis
from memory import audit
from memory.assembly import replay
from memory.assembly.hashes import to_canonical_json
from memory.assembly.prepare import PreparedRequest, Subject, prepare_request
from memory.assembly.replay import PastCall, list_guesses, rebuild_as_sent
from memory.assembly.sent_view import render_messages
from memory.context.types import Budget
from memory.handles import parse_id
from memory.models import SentContext
from memory.redaction import hide_secret_texts

Row = TypeVar("Row")
AS_SENT, WHAT_IF = "as it was sent", "what if"
VIEWS = {
    "messages": "Messages",
    "changes": "Since the last call",
    "compare": "Side by side",
    "steps": "Step by step",
    "tools": "Tools",
    "raw": "Raw",
}
# A view that is gone on with when something else is tried.
STAYING = VIEWS.keys() - {"messages", "compare"}
# The part of the page that what is tried draws anew.
TRIED = "tried"
# Messages that are drawn of a long context at first; the rest is a click away.
DRAWN = 200
# As many while a slider is moved, so that each move is answered at once.
DRAWN_AT_ONCE = 40
# Characters of the payload that are shown; the file has all.
RAW = 200_000


@dataclass(frozen=True, slots=True)
class ContextTrial:
    """What came of a form. ``what_if`` is None where nothing else was asked for, and
    ``comparison`` where nothing was to be laid beside.
    """

    own: PreparedRequest | None
    what_if: PreparedRequest | None = None
    comparison: context_diff.Comparison | None = None

    @property
    def view(self) -> PreparedRequest | None:
        return self.what_if or self.own


@dataclass(frozen=True, slots=True)
class Likeness:
    """How well a past call can be made again: what is not known of then, and how much
    of it, in per cent from its beginning, comes out as it was sent. ``refused`` says
    why it cannot be made again at all.
    """

    same: bool
    percent: int
    unknown: tuple[str, ...]
    refused: str = ""


@dataclass(frozen=True, slots=True)
class Basis:
    """What is tried on: the subject with its own settings, ``own`` its own view and
    ``make`` another; ``name`` is what its own view is called.
    """

    subject: Subject
    own: Callable[[], PreparedRequest]
    make: Callable[..., PreparedRequest]
    name: str = ""


def assemble_again(then: PastCall, **settings: Any) -> PreparedRequest:
    """What a past call was sent, or would have been under ``settings``: `vary_subject`."""
    subject = context_inputs.vary_subject(then.subject, **settings)
    return prepare_request(subject, before=then.before)


def try_settings(basis: Basis, form: WhatIfForm, *, compare: bool) -> ContextTrial:
    """What a form asks for; what cannot be is told at its fields.

    With ``compare``, other settings are laid beside its own.
    """
    if form.is_bound and not form.is_valid():
        return ContextTrial(None)
    what_if = other = None
    beside = False
    try:
        if form.has_values():
            what_if = basis.make(**form.read_settings(basis.subject))
        if beside := form.lays_beside():
            other = basis.make(**form.read_settings(basis.subject, beside=True))
    except ActionError as error:
        form.add_refusal(error.detail, beside=beside)
        if not beside:
            return ContextTrial(None)
    # What goes without its own view need not wait for it.
    own = basis.own() if what_if is None or compare else None
    tried = ContextTrial(own, what_if)
    if not compare or form.errors:
        return tried
    return replace(tried, comparison=_compare(basis, tried, other))


def _compare(
    basis: Basis, tried: ContextTrial, other: PreparedRequest | None
) -> context_diff.Comparison | None:
    """The one beside it, or what is tried beside its own."""
    first = tried.view if other is not None else tried.own
    second = other or tried.what_if
    if first is None or second is None:
        return None
    what_if = WHAT_IF if basis.name else ""
    names = basis.name if first is tried.own else what_if, what_if
    return context_diff.compare_strategies(first, second, names)


def measure_likeness(then: PastCall) -> Likeness:
    """Make a past call again under its own settings, and lay it beside what was sent."""
    try:
        made = assemble_again(then)
    except ActionError as error:
        # A strategy or an option of then may be gone.
        return Likeness(False, 0, then.unknown, error.detail)
    a, b = then.shown, made.assembly
    found = context_diff.compare_requests(
        (b.messages, b.system), (a.messages, a.system), whole=False
    )
    same = made.digest == then.sent.digest
    # What had to be guessed was guessed right where the same bytes come of it.
    unknown = then.unknown if same else (*then.unknown, *list_guesses(then))
    return Likeness(same, found.percent, unknown)


@require_safe
@context_inputs.previews.taken()
def next_context(request: PageRequest, key: str) -> HttpResponseBase:
    """The exact next payload; what-if values come as GET parameters."""
    mysis = find_mysis(key)
    as_of = context_page.note_moment(mysis)
    form = WhatIfForm(request.GET or None)
    view = _read_view(request)
    subject = context_inputs.build_subject(mysis)
    form.add_sliders(subject.strategy, subject.options, subject.budget.tokens)
    make = partial(_preview, subject)
    basis = Basis(subject, make, make)
    tried = try_settings(basis, form, compare=view == "compare")
    shown = context.show_preview(tried.view) if tried.view else None
    if shown is not None and request.GET.get("format") == "json":
        return _download(mysis, shown)
    # The address of the socket that tells when the context is outdated.
    live: dict[str, str | int] = {"page": "context", "mysis": mysis.pk}
    values = {
        "form": form,
        "tried": tried,
        "shown": shown,
        "pins": mysis.pins.order_by("pk"),
        "as_of": as_of,
        "now": as_of.at,
        "live_query": urlencode(
            {**live, "event": as_of.event, "settings": as_of.settings}
        ),
        **_view(request, view, mysis, shown, None),
    }
    if view == "steps" and tried.view is not None:
        values["traced"] = _trace(request, tried.view)
    if not _draws_tried(request):
        folded = parse_id(request.GET.get("folded", ""))
        values |= {
            "summaries": context.load_summaries(mysis.pk, folded),
            "most_summaries": context.SUMMARIES,
            **describe_mysis_advice(mysis),
        }
    return _page(request, mysis, values, 422 if form.errors else 200)


def _draws_tried(request: PageRequest) -> bool:
    """Whether a slider was moved: then only what is tried is drawn."""
    return bool(request.htmx) and request.htmx.target == TRIED


def _preview(subject: Subject, **settings: Any) -> PreparedRequest:
    return prepare_request(context_inputs.vary_subject(subject, **settings))


def _trace(request: PageRequest, prepared: PreparedRequest) -> dict[str, Any]:
    """Each turn in full beside what a coalesced view tells of it; the newest ones."""
    found = lay_steps(prepared)
    rows, before = _cut(found.steps, _count_drawn(request))
    return {"box": found.box, "rows": rows, "before": before}


def _trace_sent(
    request: PageRequest, sent: SentContext, tried: ContextTrial
) -> dict[str, Any] | None:
    """The same of a past call, made again; None where its settings are gone."""
    if tried.what_if is not None:
        return _trace(request, tried.what_if)
    then = replay.load_past_call(sent, context_inputs.build_subject(sent.mysis))
    try:
        return _trace(request, assemble_again(then))
    except ActionError:
        return None


def _read_view(request: PageRequest) -> str:
    usual = "compare" if request.GET.get("against") else "messages"
    wanted = request.GET.get("view", usual)
    return wanted if wanted in VIEWS else "messages"


def _view(
    request: PageRequest,
    view: str,
    mysis: Mysis,
    shown: context.ShownContext | None,
    sent: SentContext | None,
) -> dict[str, Any]:
    found: dict[str, Any] = {
        "view": view,
        "views": VIEWS,
        "stays": view if view in STAYING else "",
    }
    if not _draws_tried(request):
        found["recent"] = context.load_recent_calls(mysis.pk)
    if shown or sent:
        found["earlier"] = context_diff.find_call_before(mysis.pk, sent)
    if shown is None:
        return found
    prefix = 0
    if earlier := found["earlier"]:
        before = render_messages(earlier)
        since = context_diff.compare_requests(
            before, shown.payload, whole=view == "changes"
        )
        found["changes"], prefix = since, since.prefix
    if view == "messages":
        found |= _draw_messages(shown, prefix, mysis.page_key, _count_drawn(request))
    whole = _list_sent(shown)
    found["masked"] = hide_secret_texts(whole) != whole
    if view == "raw":
        found["raw"] = _readable(shown)
        found["settings_json"] = json.dumps(mysis.model_settings, ensure_ascii=False)
    if view == "tools":
        found["tools"] = show_tools(shown)
    return found


def _draw_messages(
    shown: context.ShownContext, prefix: int, page_key: str, most: int | None
) -> dict[str, dict[str, object]]:
    """The messages as in the call before, those that are new, and the ledger."""
    blocks = partial(context.draw_blocks, page_key=page_key)
    ledger = partial(context.draw_ledger, page_key=page_key)
    return {
        "kept": _draw_newest(shown.blocks[:prefix], most, blocks),
        "fresh": _draw_newest(shown.blocks[prefix:], most, blocks),
        "ledger": _draw_newest(shown.ledger, most, ledger),
    }


def _draw_newest(
    rows: Sequence[Row], most: int | None, draw: Callable[[Sequence[Row]], SafeString]
) -> dict[str, object]:
    """The last rows of a long list as HTML; of how many, and how many stand before."""
    last, before = _cut(rows, most)
    drawn = draw(last)
    return {"drawn": drawn, "count": len(rows), "shown": len(last), "before": before}


def _count_drawn(request: PageRequest) -> int | None:
    """How many messages of a list are drawn; None for all."""
    if request.GET.get("whole"):
        return None
    return DRAWN_AT_ONCE if _draws_tried(request) else DRAWN


def _cut(rows: Sequence[Row], most: int | None) -> tuple[Sequence[Row], int]:
    """The last rows of a long list and how many stand before them; None for all."""
    before = max(0, len(rows) - most) if most is not None else 0
    return rows[before:], before


def _readable(shown: context.ShownContext) -> str:
    """The payload indented, for the eye; the file has every byte."""
    messages, system = shown.payload
    first = {} if system is None else {"system": system}
    payload = hide_secret_texts({**first, "messages": messages})
    return json.dumps(payload, ensure_ascii=False, indent=2)[:RAW]


def _list_sent(shown: context.ShownContext) -> dict[str, Any]:
    messages, system = shown.payload
    return {"messages": messages, "system": system, "tools": shown.tools}


def _download(mysis: Mysis, shown: context.ShownContext) -> HttpResponse:
    """The very bytes whose SHA-256 the page shows; where some are hidden, its name says so."""
    sent = _list_sent(shown)
    told = hide_secret_texts(sent)
    text = to_canonical_json(told["messages"], told["system"], told["tools"])
    body = text.encode("utf-8", "surrogatepass")
    audit.record("context.download", f"mysis:{mysis.name}")
    masked = "-masked" if told != sent else ""
    name = f'inline; filename="{shown.document["hash"][:12]}{masked}.json"'
    headers = {"Content-Disposition": name}
    return HttpResponse(body, content_type="application/json", headers=headers)


@require_safe
@context_inputs.previews.taken()
def call_context(request: PageRequest, turn_id: int, number: int) -> HttpResponse:
    """What one past model call was sent, byte for byte; or what it would have been."""
    rows = SentContext.objects.select_related(
        "call__turn", "mysis__account", "mysis__policy", "mysis__prompt"
    )
    asked = {"turn": min(turn_id, 2**63 - 1), "number": min(number, 2**31 - 1)}
    call = get_object_or_404(ModelCall, **asked, kind=ModelCall.Kind.TURN)
    sent = rows.filter(call=call).first()
    if sent is None:
        # Among the calls of its turn it stands all the same.
        turn = reverse("turn", args=[turn_id])
        return redirect(f"{turn}?before={call.pk + 1}#call-{number}")
    form = WhatIfForm(request.GET or None, own=AS_SENT)
    then = sent.stats
    budget = then.get("budget", Budget().tokens)
    form.add_sliders(sent.strategy, then.get("options", {}), budget)
    view = _read_view(request)
    tried, likeness = _tried_on(sent, form, compare=view == "compare")
    shown = _shown(sent, form, tried)
    if shown is not None and request.GET.get("format") == "json":
        return _download(sent.mysis, shown)
    values = {
        "sent": sent,
        "call": sent.call,
        "later": context_diff.find_call_after(sent),
        "form": form,
        "tried": tried,
        "shown": shown,
        "likeness": likeness,
        **_view(request, view, sent.mysis, shown, sent),
    }
    if view == "steps" and shown is not None:
        values["traced"] = _trace_sent(request, sent, tried)
    return _page(request, sent.mysis, values, 422 if form.errors else 200)


def _tried_on(
    sent: SentContext, form: WhatIfForm, *, compare: bool
) -> tuple[ContextTrial, Likeness | None]:
    """What is tried on a past call. To be shown it needs none of its moment."""
    if not form.is_bound or not (form.has_values() or form.lays_beside()):
        return ContextTrial(None), None
    then = replay.load_past_call(sent, context_inputs.build_subject(sent.mysis))
    own, make = partial(rebuild_as_sent, then), partial(assemble_again, then)
    basis = Basis(then.subject, own, make, AS_SENT)
    tried = try_settings(basis, form, compare=compare)
    asked = tried.what_if is not None or tried.comparison is not None
    return tried, measure_likeness(then) if asked else None


def _shown(
    sent: SentContext, form: WhatIfForm, tried: ContextTrial
) -> context.ShownContext | None:
    if tried.what_if is not None:
        return context.show_preview(tried.what_if)
    if form.errors and tried.own is None:
        return None
    return context.show_sent(sent)


def _page(
    request: PageRequest, mysis: Mysis, values: dict[str, Any], status: int
) -> HttpResponse:
    values |= {"mysis": mysis, "tab": "context", "categories": charts.CATEGORIES}
    part = "what_if/answer.html" if _draws_tried(request) else "context.html"
    return render(request, f"memory/{part}", values, status=status)
