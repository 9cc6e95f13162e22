"""One Mysis: its conversation, what it knows of the game, its turns."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode
from django.views.decorators.http import require_http_methods, require_safe

from agents import actions
from agents.actions import MAX_TEXT, ActionError
from agents.context_inputs import preview
from agents.dashboard import conversation
from agents.dashboard import mysis as dashboard_mysis
from agents.dashboard.addresses import find_mysis, mysis_url, page_key
from agents.dashboard.live import fragments
from agents.dashboard.live import turn_page as live_turn_page
from agents.forms import MysisForm, number_of
from agents.models import Mysis, Turn
from agents.views.access import actor, admin_required, uses_htmx
from memory.models import Memory


@require_safe
def mysis_page(request: HttpRequest, key: str) -> HttpResponse:
    """The whole page; ``?at=<memory id>`` opens the conversation at a place."""
    mysis = find_mysis(key)
    now = timezone.now()
    place = _number(request.GET.get("at", ""))
    shown = _conversation(mysis, place)
    found = dashboard_mysis.head(mysis, now)
    parts = fragments.mysis(found, dashboard_mysis.panel(mysis, now))
    live = urlencode({"page": "mysis", "mysis": str(mysis.pk)})
    context = {
        "mysis": mysis,
        "key": found.key,
        "head": found,
        "row": found.row,
        "parts": {part.id: part for part in parts},
        "lines": shown,
        "older": _older(mysis.pk, shown),
        "place": place,
        "live_query": live,
        "max_text": MAX_TEXT,
        "tab": "conversation",
        "now": now,
    }
    return render(request, "agents/mysis.html", context)


def _conversation(mysis: Mysis, place: int | None) -> list[conversation.Line]:
    if place is None:
        return conversation.newest(mysis.pk, mysis.name)
    return conversation.around(mysis.pk, mysis.name, place)


def _older(mysis_id: int, shown: list[conversation.Line]) -> int | None:
    """The id before which there is more to read."""
    if not shown:
        return None
    earlier = Memory.objects.filter(mysis_id=mysis_id, id__lt=shown[0].id)
    return shown[0].id if earlier.order_by("-id").exists() else None


@require_safe
def older_lines(request: HttpRequest, key: str) -> HttpResponse:
    """A page of the conversation before ``?before=<memory id>``."""
    mysis = find_mysis(key)
    before = _number(request.GET.get("before", ""))
    shown = conversation.before(mysis.pk, mysis.name, before)
    context = {
        "mysis": mysis,
        "key": page_key(mysis),
        "lines": shown,
        "older": _older(mysis.pk, shown),
    }
    template = (
        "agents/conversation/log.html" if uses_htmx(request) else "agents/older.html"
    )
    return render(request, template, context)


@require_safe
def whole_message(request: HttpRequest, key: str, memory_id: int) -> HttpResponse:
    """One stored message in full, as plain text."""
    mysis = find_mysis(key)
    row = Memory.objects.filter(mysis=mysis, pk=min(memory_id, 2**63 - 1))
    found = row.values_list("content", "reasoning").first()
    if found is None:
        raise Http404("No such message.")
    content, reasoning = found
    text = reasoning if request.GET.get("part") == "reasoning" else content
    return HttpResponse(text, content_type="text/plain; charset=utf-8")


@require_safe
def inspect(request: HttpRequest, key: str, memory_id: int) -> HttpResponse:
    """One message with all that is known of it, for the pane beside the talk."""
    mysis = find_mysis(key)
    found = conversation.chosen(mysis.pk, mysis.name, [min(memory_id, 2**63 - 1)])
    if not found:
        raise Http404("No such message.")
    ledger = preview(mysis).assembly.ledger
    context = {
        "mysis": mysis,
        "key": page_key(mysis),
        "line": found[0],
        "turn": Turn.objects.filter(pk=found[0].turn_id or 0).first(),
        "entry": next((e for e in ledger if e.id == memory_id), None),
    }
    return render(request, "agents/mysis/inspected.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@admin_required
def new_mysis(request: HttpRequest) -> HttpResponse:
    """A form for a new Mysis; errors stand at their fields."""
    form = MysisForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            mysis = actions.create_mysis(**form.values(), by=actor(request))
        except ActionError as error:
            _blame(form, error)
        else:
            return redirect(mysis_url(mysis))
    status = 422 if form.errors else 200
    context = {"form": form, "cancel": reverse("fleet")}
    return render(request, "agents/new_mysis.html", context, status=status)


def _blame(form: MysisForm, error: ActionError) -> None:
    """Put an action's error at the field that it names, if it names one."""
    field, colon, words = error.detail.partition(": ")
    if colon and field in form.fields:
        form.add_error(field, words)
    else:
        form.add_error(None, error.detail)


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) < 19 else None


# SECTION One turn: its calls, what each was sent, what it cost; live while it goes on.

PAGE = 50
# Lines of a turn that are drawn when all are asked for.
WHOLE = 2_000
# Lines that a running turn keeps on the page as it grows.
KEEP = 1_000


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
    """The turn, its model calls with their contexts, and its messages.

    ``?before=<call>`` lists the calls before one: such a page stands still.
    """
    turn = live_turn_page.find(turn_id)
    if turn is None:
        raise Http404("No such turn.")
    whole = bool(request.GET.get("whole"))
    limit = WHOLE if whole else live_turn_page.LINES
    before = number_of(request.GET.get("before", ""))
    # The calls first: what is missed of them then, the socket brings.
    calls = live_turn_page.page_of(
        turn, None if before is None else min(before, 2**63 - 1)
    )
    shown = live_turn_page.newest_lines(turn, limit)
    parts = [
        *live_turn_page.head(turn),
        live_turn_page.list_of(turn, calls, live_turn_page.parts_of(turn, calls.made)),
    ]
    context = {
        "turn": turn,
        "mysis": turn.mysis,
        "key": page_key(turn.mysis),
        "parts": {part.id: part for part in parts},
        "calls_before": before,
        "lines": shown,
        "whole": whole,
        "keep": WHOLE if whole else KEEP,
        "live_query": _live(turn) if before is None else "",
        "now": timezone.now(),
        **_rest(turn, len(shown), limit),
    }
    return render(request, "agents/turn.html", context)


def _live(turn: Turn) -> str:
    """The address of its socket while it goes on; what is over needs none."""
    if turn.outcome is not None:
        return ""
    return urlencode({"page": "turn", "turn": str(turn.pk)})


def _rest(turn: Turn, shown: int, limit: int) -> dict[str, object]:
    """How many messages there are, where not all of them are shown."""
    if shown < limit:
        return {}
    rows = Memory.objects.filter(mysis=turn.mysis, turn=turn)
    count = rows.count()
    first = rows.order_by("id").values_list("id", flat=True).first()
    return {"before": count - shown, "all": count, "first": first}
