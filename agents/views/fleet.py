"""The pages of the whole fleet: front page, map, accounts, health, what happened."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from functools import lru_cache

from django.conf import settings
from django.contrib.auth.models import User
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html_join
from django.utils.safestring import SafeString
from django.views.decorators.http import require_POST, require_safe
from django_htmx.http import push_url

from agents import manual_command
from agents.actions.base import MAX_TEXT, name_operator
from agents.dashboard import (
    accounts,
    charts,
    event_kinds,
    flags,
    fleet,
    map,
    system_status,
)
from agents.dashboard.digest import bound_since, parse_since, share_digest
from agents.dashboard.digest_text import (
    describe_length,
    describe_nothing,
    describe_span,
    write_brief,
    write_sections,
)
from agents.dashboard.live import events_page, fragments, pages
from agents.dashboard.live import fleet_page as live_page
from agents.dashboard.yield_board import YieldView
from agents.dashboard.yields import GROUPINGS, SPANS
from agents.events import format_moment
from agents.models import Mysis, Visit
from agents.tool_catalogue import read_game_offer
from agents.views.access import (
    PageRequest,
    notify_error,
    notify_success,
    operator_required,
)
from agents.views.saved_views import find_default_view

# Groups that stand as chips; more of them are a list to choose from.
CHIPS = 12


@require_safe
def fleet_page(request: PageRequest) -> HttpResponse:
    """The fleet as filtered and sorted by the address."""
    if not request.GET and (default := find_default_view(request)):
        return redirect(f"{reverse('fleet')}?{default.query}")
    now = timezone.now()
    view = fleet.FleetView.read(request.GET)
    parts = [
        live_page.draw_shared_rows(fleet.load_view(view, now)),
        *live_page.share_front(now),
        *events_page.draw_group_counts(),
    ]
    rows = _list_addressees()
    context = {
        "view": view,
        "members": _offer_members(rows, view),
        "most_chips": CHIPS,
        "columns": fleet.COLUMNS,
        "optional": fleet.OPTIONAL,
        "sorts": fleet.SORTS,
        "states": fleet.STATES,
        "flags": flags.FLAGS,
        "parts": {part.id: part for part in parts},
        "live_query": f"page=fleet&{view.write_query()}",
        "targets": _draw_options(rows, request.GET.get("to", "")),
        "groups": event_kinds.GROUPS,
        "counted": events_page.COUNTED,
        "max_text": MAX_TEXT,
        "categories": charts.CATEGORIES,
        "now": now,
    }
    answer = render(request, "agents/fleet.html", context)
    if request.htmx.target == "fleet-view":
        # An address to share, without what a form sends for nothing.
        return push_url(answer, f"{reverse('fleet')}?{view.write_query()}")
    return answer


# Names of several that are addressed at once.
NAMED = 3
# The number, the name, the group and the tags of a Mysis.
Addressee = tuple[int, str, str, tuple[str, ...]]


def _list_addressees() -> tuple[Addressee, ...]:
    rows = Mysis.objects.order_by("name").values_list("pk", "name", "group", "tags")
    return tuple((pk, name, group, tuple(tags)) for pk, name, group, tags in rows)


@lru_cache(maxsize=16)
def _count_members(rows: tuple[Addressee, ...]) -> dict[str, list[tuple[str, int]]]:
    """How many Myses each group and each tag has, by name."""
    groups = Counter(group for _, _, group, _ in rows if group)
    tags = Counter(tag for *_, each in rows for tag in each)
    return {"group": sorted(groups.items()), "tag": sorted(tags.items())}


def _offer_members(
    rows: tuple[Addressee, ...], view: fleet.FleetView
) -> dict[str, list[tuple[str, int]]]:
    """The groups and tags to choose from, with those of the address in any case."""
    found = _count_members(rows)
    chosen = {"group": view.group, "tag": view.tag}
    return {
        what: found[what] + [(word, 0)] * bool(word and word not in dict(found[what]))
        for what, word in chosen.items()
    }


@lru_cache(maxsize=16)
def _draw_options(rows: tuple[Addressee, ...], chosen: str) -> SafeString:
    """All groups, tags and Myses as options, which a template would take long to write."""
    members = [
        (f"{what}:{name}", f"{what} {name} ({count})")
        for what, found in _count_members(rows).items()
        for name, count in found
    ]
    each = [(str(pk), name) for pk, name, _, _ in rows]
    if "," in chosen and (meant := _name_several(rows, chosen)):
        each.insert(0, (chosen, meant))
    options = (
        (value, " selected" if chosen == value else "", label)
        for value, label in (*members, *each)
    )
    return format_html_join("", '<option value="{}"{}>{}</option>', options)


def _name_several(rows: tuple[Addressee, ...], chosen: str) -> str:
    """How many are meant by numbers with commas between, and the first of them."""
    numbers = set(chosen.split(","))
    names = [name for pk, name, _, _ in rows if str(pk) in numbers]
    named = ", ".join(names[:NAMED])
    return f"{len(names)} Myses: {named}{', …' * (len(names) > NAMED)}" if names else ""


@require_safe
def newest_feed(request: PageRequest) -> HttpResponse:
    """The feed from its newest line on, after a pause; ``group`` names a chip."""
    return HttpResponse(fragments.draw_newest_feed(request.GET.get("group", "")).html)


@require_safe
def map_page(request: PageRequest) -> HttpResponse:
    """The newest map; the socket brings the ships as they move."""
    now = timezone.now()
    chart = map.load_chart()
    parts = pages.draw_ships(chart) if chart else pages.draw_map_arrived(now)
    context = {
        "chart": chart,
        "parts": {part.id: part for part in parts},
        "by_itself": settings.ZOEA_FETCH_MAP,
        "askers": _askers(),
        "now": now,
    }
    return render(request, "agents/map.html", context)


def _askers() -> list[Mysis]:
    return list(Mysis.objects.exclude(account=None).order_by("name")[:50])


@require_POST
@operator_required
def ask_for_map(request: PageRequest) -> HttpResponse:
    """Let one Mysis ask for the map, by hand."""
    number = request.POST.get("mysis", "")
    asker = next((m for m in _askers() if str(m.pk) == number), None)
    if asker is None:
        return notify_error(request, "Choose a Mysis that has a game account.", 422)
    by = name_operator(request)
    manual_command.run_command(mysis=asker, tool=map.TOOL, arguments={}, by=by)
    return notify_success(request, f"{asker.name} asked for the map.")


@require_safe
def accounts_page(request: PageRequest) -> HttpResponse:
    """The game accounts with their cached state."""
    wanted = request.GET.get("q", "").replace("\x00", "").strip()[:100]
    after = request.GET.get("after", "").replace("\x00", "")[:300]
    found = accounts.load_accounts(timezone.now(), wanted, after)
    context = {
        "pilots": found[: accounts.ACCOUNTS_A_PAGE],
        "more": len(found) > accounts.ACCOUNTS_A_PAGE,
        "after": after,
        "query": wanted,
        "nav": "accounts",
    }
    return render(request, "agents/accounts.html", context)


@require_safe
def yield_page(request: PageRequest) -> HttpResponse:
    """What the fleet earns by Mysis, prompt version, policy or model."""
    now = timezone.now()
    view = YieldView.read(request.GET)
    context = {
        "view": view,
        "parts": {part.id: part for part in pages.draw_yield_parts(view, now)},
        "groupings": [
            (label, view.write_query(by=by), by == view.by)
            for by, label in GROUPINGS.items()
        ],
        "spans": [
            (span, view.write_query(since=span), span == view.since) for span in SPANS
        ],
        "now": now,
    }
    return render(request, "agents/yield.html", context)


@require_safe
def health_page(request: PageRequest) -> HttpResponse:
    """What is wrong and what it costs: fleet, worker, models, database."""
    now = timezone.now()
    context = {
        "parts": {part.id: part for part in pages.draw_health_parts(now)},
        "stock": system_status.read_storage(),
        "offer": read_game_offer(),
        "now": now,
        "nav": "health",
    }
    return render(request, "agents/health.html", context)


# --- What happened since a moment, or since the last visit

DIGEST_SPANS = ("1h", "8h", "24h", "7d")
# What a first visit is shown.
DEFAULT_SPAN_NAME = "24h"


@require_safe
def digest_page(request: PageRequest) -> HttpResponse:
    """What happened since ``since``, else since the last visit, else in a day."""
    now = timezone.now()
    asked, error = request.GET.get("since", "")[:40], ""
    visit = _note_look(request, now)
    since = bound_since(visit, now)
    if asked:
        try:
            since = parse_since(asked, now)
        except ValueError as refused:
            error = f"since: {refused}"
    digest = share_digest(since, now)
    if visit and digest.since == visit.replace(second=0, microsecond=0):
        # What the line of the Fleet page leads to.
        asked = ""
    context = {
        "asked": "" if error else asked or ("" if visit else DEFAULT_SPAN_NAME),
        "error": error,
        "visit": visit,
        "spans": DIGEST_SPANS,
        "span": describe_span(digest.since, digest.until),
        "nothing": describe_nothing(digest.since) if digest.is_empty else "",
        "sections": write_sections(digest),
    }
    return render(request, "agents/digest.html", context, status=422 if error else 200)


@require_safe
def last_visit(request: PageRequest) -> HttpResponse:
    """The line of the Fleet page; nothing where nothing happened, or on a first visit."""
    now = timezone.now()
    before = _note_look(request, now)
    if before is None:
        return HttpResponse("")
    since = bound_since(before, now)
    digest = share_digest(since, now)
    if digest.is_empty:
        return HttpResponse("")
    context = {
        "since": format_moment(digest.since),
        "length": describe_length(now - since),
        "brief": write_brief(digest),
    }
    return render(request, "agents/fleet/last_visit.html", context)


def _note_look(request: PageRequest, now: datetime) -> datetime | None:
    """The end of the visit before this one, which is kept."""
    assert isinstance(request.user, User)  # noqa: S101 (who is signed in)
    return Visit.note_look(request.user.pk, now)
