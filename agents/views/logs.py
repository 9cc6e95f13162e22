"""The event log and the prompts, to read."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from agents.dashboard import feed
from agents.dashboard.addresses import page_key
from agents.events import Kind
from agents.models import Event, Mysis, Prompt, PromptVersion

PAGE = 100
VERSIONS = 20


@require_safe
def events_page(request: HttpRequest) -> HttpResponse:
    """Events, newest first; ``kind``, ``mysis`` and ``before`` narrow them."""
    kind = request.GET.get("kind", "")
    owner = _number(request.GET.get("mysis", ""))
    found = Event.objects.order_by("-xid", "-id")
    if kind in Kind.__members__.values():
        found = found.filter(kind=kind)
    if owner is not None:
        found = found.filter(mysis_id=owner)
    before = _number(request.GET.get("before", ""))
    edge = Event.objects.filter(pk=before).first() if before is not None else None
    if edge is not None:
        # Stream order is (xid, id): ids alone would repeat or skip some. Compared as
        # a pair, it is one range of the index.
        pair = "(agents_event.xid, agents_event.id) < (%s, %s)"
        found = found.extra(where=[pair], params=[edge.xid, edge.pk])  # noqa: S610
    page = list(found[: PAGE + 1])
    context = {
        "lines": feed.told(page[:PAGE]),
        "kinds": [(str(kind), feed.ICONS[kind]) for kind in Kind],
        "kind": kind,
        "mysis": owner,
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
