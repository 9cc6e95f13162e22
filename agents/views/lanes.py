"""The pages of time: lanes of the whole fleet, and two Myses side by side."""

from __future__ import annotations

from datetime import UTC, datetime

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.utils.http import urlencode
from django.views.decorators.http import require_safe

from agents.dashboard.charts import find_first_turn_since
from agents.dashboard.compare import CompareView
from agents.dashboard.flags import FLAGS
from agents.dashboard.fleet import STATES
from agents.dashboard.lane_marks import MARK_KINDS, find_place_link, read_marks
from agents.dashboard.lane_seconds import ACTIVITIES, make_values
from agents.dashboard.lanes import LANES, LanesView
from agents.dashboard.live import pages
from agents.dashboard.time_axis import SPANS, TimeSpan, format_span
from agents.models import Mysis, Turn
from agents.views.access import PageRequest
from memory.handles import find_owner, parse_id
from memory.models import Memory

# Moments that a click can mean, in seconds since 1970.
MOST_SECONDS = 4_000_000_000


@require_safe
def lanes_page(request: PageRequest) -> HttpResponse:
    """What each Mysis did over time; whom and when by the address."""
    now = timezone.now()
    view = LanesView.read(request.GET)
    context = {
        "view": view,
        "parts": {part.id: part for part in pages.draw_lanes_parts(view, now)},
        "spans": [
            (span, view.write_query(since=span), _is_chosen(view.span, span))
            for span in SPANS
        ],
        "moves": [
            (link.name, view.write_query(**link.params) if link.params else "")
            for link in view.span.list_links(now)
        ],
        "states": (*STATES, *FLAGS),
        "groups": _list_groups(view.fleet.group),
        "other_view": view.write_query(view="" if view.table else "table"),
        "whole": view.write_query(page=""),
        "without_tag": view.write_query(tag="", page=""),
        "without_q": view.write_query(q="", page=""),
        "activities": ACTIVITIES,
        "mark_kinds": MARK_KINDS,
        "lanes_a_page": LANES,
        "now": now,
    }
    return render(request, "agents/lanes.html", context)


def _is_chosen(span: TimeSpan, words: str) -> bool:
    return span.until is None and format_span(span.length) == words


def _list_groups(chosen: str) -> list[str]:
    """All groups by name, and the one of the address in any case."""
    rows = Mysis.objects.exclude(group="").values_list("group", flat=True)
    return sorted({*rows.distinct(), *filter(None, [chosen])})


@require_safe
def lanes_place(request: HttpRequest) -> HttpResponse:
    """Lead to the message that a Mysis was at in a moment: ``mysis``, ``at`` in seconds.

    With ``step`` it is what is marked in so many seconds, else their first message, if
    there is one in them.
    """
    number = parse_id(request.GET.get("mysis", "")) or 0
    mysis = get_object_or_404(Mysis, pk=number)
    at = min(parse_id(request.GET.get("at", "")) or 0, MOST_SECONDS)
    step = min(parse_id(request.GET.get("step", "")) or 0, MOST_SECONDS)
    begin = datetime.fromtimestamp(at, UTC)
    end = datetime.fromtimestamp(at + step, UTC)
    marked = _find_marked(mysis, begin, end)
    if marked is not None:
        return redirect(marked)
    turn = _find_turn(mysis, end)
    if turn is None:
        return redirect(mysis)
    said = Memory.objects.filter(turn=turn, mysis=mysis).order_by("id")
    found = said.filter(created_at__gte=begin).first() or said.last()
    memory = found.pk if found else None
    return redirect(find_place_link(mysis.pk, begin, memory, turn.pk))


def _find_marked(mysis: Mysis, begin: datetime, end: datetime) -> str | None:
    """Where the newest mark of a step leads that knows its message or turn."""
    if begin >= end:
        return None
    marks, _ = read_marks(make_values([mysis.pk], begin, end))
    placed = (one for one in marks[mysis.pk] if one.memory or one.turn)
    return next((one.link for one in placed), None)


def _find_turn(mysis: Mysis, moment: datetime) -> Turn | None:
    """Its newest turn that had begun at a moment, by the index of ids."""
    later = find_first_turn_since(moment)
    turns = Turn.objects.filter(mysis=mysis).order_by("-id")
    begun = turns if later is None else turns.filter(id__lt=later)
    return begun.first()


@require_safe
def compare_page(request: PageRequest) -> HttpResponse:
    """Two Myses on one time axis: ``a`` and ``b`` are their names or numbers."""
    now = timezone.now()
    given = [_read_reference(request, name) for name in ("a", "b")]
    found = [find_owner(reference) if reference else None for reference in given]
    trouble = _explain(given, [one is not None for one in found])
    numbers = [one.pk if one is not None else 0 for one in found]
    if not trouble and all(given) and numbers[0] == numbers[1]:
        trouble = "Both are the same Mysis: choose another for one of them."
    view = CompareView(numbers[0], numbers[1], TimeSpan.read(request.GET))
    chosen = not trouble and all(given)
    parts = pages.draw_compare_parts(view, now) if chosen else []
    own = dict(zip(("a", "b"), given, strict=True))
    context = {
        "view": view,
        "parts": {part.id: part for part in parts},
        "trouble": trouble,
        "myses": Mysis.objects.order_by("name").values_list("pk", "name"),
        "live_query": urlencode({"page": "compare", **view.params, **view.span.params}),
        "spans": [
            (span, urlencode({**own, "since": span}), _is_chosen(view.span, span))
            for span in SPANS
        ],
        "moves": [
            (link.name, urlencode({**own, **link.params}) if link.params else "")
            for link in view.span.list_links(now)
        ],
        "activities": ACTIVITIES,
        "mark_kinds": MARK_KINDS,
        "now": now,
    }
    missing = any(g and f is None for g, f in zip(given, found, strict=True))
    return render(
        request, "agents/compare.html", context, status=404 if missing else 200
    )


def _read_reference(request: HttpRequest, name: str) -> str:
    """A name or number of the address; what no page can show is replaced."""
    given = request.GET.get(name, "").replace("\x00", "\N{REPLACEMENT CHARACTER}")
    return given.strip()[:100]


def _explain(given: list[str], there: list[bool]) -> str:
    """Which of the two there is not, in words; "" where nothing is wrong."""
    gone = [
        reference
        for reference, found in zip(given, there, strict=True)
        if reference and not found
    ]
    if not gone:
        return ""
    named = " and ".join(f"\u201c{reference}\u201d" for reference in gone)
    return f"There is no Mysis {named}: choose another."
