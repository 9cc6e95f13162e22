"""The pages of one Mysis: its conversation, what it knows of the game, its turns."""

from __future__ import annotations

from django.db.models import Count, Min
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode
from django.views.decorators.http import require_http_methods, require_safe

from agents import actions
from agents.actions.base import MAX_TEXT, ActionError, name_operator
from agents.context_inputs import preview_context
from agents.dashboard import conversation
from agents.dashboard import mysis as dashboard_mysis
from agents.dashboard.live import fragments
from agents.dashboard.live import turn_page as live_turn_page
from agents.dashboard.search import FOUND
from agents.forms import MysisForm, add_action_error
from agents.models import Mysis, Turn
from agents.views.access import PageRequest, admin_required, find_mysis
from memory.handles import parse_id
from memory.models import Memory

# Turns on a page of them.
PAGE = 50
# Lines of a turn that are drawn when all are asked for, and those that a running turn
# keeps on the page as it grows.
WHOLE, KEEP = 2_000, 1_000


@require_safe
def mysis_page(request: PageRequest, key: str) -> HttpResponse:
    """The whole page; ``?at=<memory id>`` opens the conversation at a place."""
    mysis = find_mysis(key)
    now = timezone.now()
    place = parse_id(request.GET.get("at", ""))
    if place is None:
        shown = conversation.load_newest_lines(mysis)
    else:
        shown = conversation.load_lines_around(mysis, place)
    found = dashboard_mysis.load_head(mysis, now)
    parts = fragments.draw_mysis(found, now)
    live = urlencode({"page": "mysis", "mysis": str(mysis.pk)})
    is_marked = place is not None or FOUND in request.GET
    context = {
        "mysis": mysis,
        "head": found,
        "row": found.row,
        "parts": {part.id: part for part in parts},
        "lines": shown,
        # What a search led to is marked, and its words in all lines.
        "drawn": "" if is_marked else fragments.draw_log_lines(shown, mysis),
        "older": _find_older_id(mysis, shown),
        "place": place,
        "live_query": live,
        "max_text": MAX_TEXT,
        "tab": "conversation",
        "now": now,
    }
    return render(request, "agents/mysis.html", context)


def _find_older_id(mysis: Mysis, shown: list[conversation.Line]) -> int | None:
    if not shown:
        return None
    earlier = Memory.objects.filter(mysis=mysis, id__lt=shown[0].id)
    return shown[0].id if earlier.order_by("-id").exists() else None


@require_safe
def older_lines(request: PageRequest, key: str) -> HttpResponse:
    """A page of the conversation before ``?before=<memory id>``."""
    mysis = find_mysis(key)
    before = parse_id(request.GET.get("before", ""))
    shown = conversation.load_newest_lines(mysis, before=before)
    context = {
        "mysis": mysis,
        "lines": shown,
        "older": _find_older_id(mysis, shown),
    }
    template = "agents/conversation/log.html" if request.htmx else "agents/older.html"
    return render(request, template, context)


@require_safe
def whole_message(request: PageRequest, key: str, memory_id: int) -> HttpResponse:
    """One stored message in full, as plain text."""
    mysis = find_mysis(key)
    row = Memory.objects.filter(mysis=mysis, pk=memory_id)
    found = row.values_list("content", "reasoning").first()
    if found is None:
        raise Http404("No such message.")
    content, reasoning = found
    text = reasoning if request.GET.get("part") == "reasoning" else content
    return HttpResponse(text, content_type="text/plain; charset=utf-8")


@require_safe
def inspect_message(request: PageRequest, key: str, memory_id: int) -> HttpResponse:
    """One message with all that is known of it, for the pane beside the talk."""
    mysis = find_mysis(key)
    found = conversation.load_lines(mysis, [min(memory_id, 2**63 - 1)])
    if not found:
        raise Http404("No such message.")
    ledger = preview_context(mysis).assembly.ledger
    context = {
        "mysis": mysis,
        "line": found[0],
        "turn": Turn.objects.filter(pk=found[0].turn_id or 0).first(),
        "entry": next((e for e in ledger if e.id == memory_id), None),
    }
    return render(request, "agents/mysis/inspected.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@admin_required
def new_mysis(request: PageRequest) -> HttpResponse:
    """A form for a new Mysis; errors stand at their fields."""
    form = MysisForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            mysis = actions.create_mysis(**form.cleaned_data, by=name_operator(request))
        except ActionError as error:
            add_action_error(form, error)
        else:
            return redirect(mysis)
    status = 422 if form.errors else 200
    context = {"form": form, "cancel": reverse("fleet")}
    return render(request, "agents/new_mysis.html", context, status=status)


@require_safe
def turns_page(request: PageRequest, key: str) -> HttpResponse:
    """The turns of a Mysis, newest first; ``?before=<number>`` goes further back."""
    mysis = find_mysis(key)
    before = parse_id(request.GET.get("before", ""))
    rows = Turn.objects.filter(mysis=mysis).order_by("-id")
    if before is not None:
        rows = rows.filter(number__lt=before)
    found = list(rows[: PAGE + 1])
    context = {
        "mysis": mysis,
        "tab": "turns",
        "turns": found[:PAGE],
        "before": before,
        "older": found[PAGE - 1].number if len(found) > PAGE else None,
    }
    return render(request, "agents/turns.html", context)


@require_safe
def turn_page(request: PageRequest, turn_id: int) -> HttpResponse:
    """The turn: its model calls with their contexts between its messages and results.

    ``?before=<call>`` shows what was before a call: such a page stands still.
    """
    turn = live_turn_page.find_turn(turn_id)
    if turn is None:
        raise Http404("No such turn.")
    whole = bool(request.GET.get("whole"))
    limit = WHOLE if whole else live_turn_page.LINES
    before = parse_id(request.GET.get("before", ""))
    shown = live_turn_page.load_timeline(turn, before, limit)
    called = bool(shown.calls) or before is not None
    parts = live_turn_page.draw_head(turn, called=called)
    live = urlencode({"page": "turn", "turn": str(turn.pk)})
    rest = _count_rest(turn, len(shown.lines), limit) if before is None else {}
    context = {
        "turn": turn,
        "mysis": turn.mysis,
        "parts": {part.id: part for part in parts},
        "timeline": live_turn_page.draw_timeline(turn, shown),
        "calls_before": before,
        "shown": len(shown.lines),
        "whole": whole,
        "keep": WHOLE if whole else KEEP,
        "live_query": live if turn.outcome is None and before is None else "",
        "now": timezone.now(),
        **rest,
    }
    return render(request, "agents/turn.html", context)


def _count_rest(turn: Turn, shown: int, limit: int) -> dict[str, object]:
    """How many messages there are, where not all of them are shown."""
    if shown < limit:
        return {}
    rows = Memory.objects.filter(mysis=turn.mysis, turn=turn)
    found = rows.aggregate(all=Count("id"), first=Min("id"))
    return {**found, "before": found["all"] - shown}
