"""One turn: its calls, what each was sent, what it cost; live while it goes on."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.utils.http import urlencode
from django.views.decorators.http import require_safe

from agents.dashboard import made, one_turn
from agents.dashboard.addresses import find_mysis, page_key
from agents.forms import number_of
from agents.models import Turn
from memory.models import Memory

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
    turn = one_turn.find(turn_id)
    if turn is None:
        raise Http404("No such turn.")
    whole = bool(request.GET.get("whole"))
    limit = WHOLE if whole else one_turn.LINES
    before = number_of(request.GET.get("before", ""))
    # The calls first: what is missed of them then, the socket brings.
    calls = made.page_of(turn, None if before is None else min(before, 2**63 - 1))
    shown = one_turn.newest_lines(turn, limit)
    parts = [
        *one_turn.head(turn),
        made.list_of(turn, calls, made.parts_of(turn, calls.made)),
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
