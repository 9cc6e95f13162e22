"""The event log and the prompts, to read."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.utils import timezone
from django.utils.http import urlencode
from django.views.decorators.http import require_safe

from agents import events
from agents.dashboard import chips, feed, fragments
from agents.dashboard.addresses import page_key
from agents.dashboard.logbook import PAGE, Chosen, rows
from agents.events import Kind
from agents.models import Mysis, Prompt, PromptVersion

from .answers import uses_htmx

VERSIONS = 20


@require_safe
def events_page(request: HttpRequest) -> HttpResponse:
    """Events, newest first; ``kind``, ``mysis`` and ``before`` narrow them."""
    owner = _number(request.GET.get("mysis", ""))
    chosen = Chosen.of(request.GET.get("kind", ""), owner)
    before = _number(request.GET.get("before", ""))
    # Before the rows: what settles meanwhile comes by the socket, not never.
    settled = events.newest()
    page = rows(chosen, before)
    if uses_htmx(request):
        return HttpResponse(fragments.feed_lines(feed.told(page[:PAGE])))
    query = {"kind": chosen.kind, "mysis": "" if owner is None else str(owner)}
    live = {"page": "events", **query, "after": str(settled)}
    context = {
        "lines": feed.told(page[:PAGE]),
        "kinds": [(str(kind), feed.ICONS[kind], chips.place_of(kind)) for kind in Kind],
        "kind": chosen.kind,
        "mysis": owner,
        "parts": {part.id: part for part in chips.of_kinds()},
        "counted": chips.COUNTED,
        "query": urlencode(query),
        "live_query": "" if before else urlencode(live),
        "now": timezone.now(),
        "myses": Mysis.objects.order_by("name").values_list("pk", "name"),
        "before": before,
        "next": page[PAGE - 1].pk if len(page) > PAGE else None,
    }
    return render(request, "agents/events.html", context)


@require_safe
def prompts_page(request: HttpRequest) -> HttpResponse:
    """All prompts, their current version and who uses them."""
    newest = PromptVersion.objects.order_by("prompt", "-number").distinct("prompt")
    current = {version.prompt_id: version for version in newest}
    prompts = [
        {
            "prompt": prompt,
            "current": current.get(prompt.pk),
            "myses": [(page_key(m), m.name) for m in prompt.myses.all()],
        }
        for prompt in Prompt.objects.prefetch_related("myses").order_by("name")
    ]
    return render(request, "agents/prompts.html", {"prompts": prompts})


@require_safe
def prompt_page(request: HttpRequest, prompt_id: int) -> HttpResponse:
    """One prompt with all its versions, newest first."""
    prompt = get_object_or_404(Prompt, pk=min(prompt_id, 2**63 - 1))
    before = _number(request.GET.get("before", ""))
    rows = prompt.versions.all()
    if before is not None:
        rows = rows.filter(number__lt=min(before, 2**31 - 1))
    versions = list(rows[: VERSIONS + 1])
    context = {
        "prompt": prompt,
        "before": before,
        "versions": versions[:VERSIONS],
        "older": versions[VERSIONS - 1].number if len(versions) > VERSIONS else None,
        "myses": [(page_key(m), m.name) for m in prompt.myses.order_by("name")],
    }
    return render(request, "agents/prompt.html", context)


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) < 19 else None
