"""The pages to read and compare: events, search, prompts, policies; logs as files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.utils import timezone
from django.utils.http import urlencode
from django.views.decorators.http import require_safe

from agents import context_inputs, events
from agents.actions import ActionError
from agents.actions.settings import SUMMARY_PROMPT_NAME
from agents.dashboard import context_diff, event_kinds, feed
from agents.dashboard.live import events_page as live_page
from agents.dashboard.live import fragments
from agents.dashboard.live.turn_page import find_turn
from agents.dashboard.search import (
    SearchPage,
    count_everything,
    search_everything,
    write_question,
)
from agents.events import Kind
from agents.forms import PoliciesForm, SearchForm
from agents.models import Mysis, Prompt, PromptVersion
from agents.streamed import StreamedAnswer
from agents.views.access import PageRequest, find_mysis
from memory import audit
from memory.handles import parse_id
from memory.models import ContextPolicy
from memory.problems import SlowSearchError
from memory.transfer import in_out

# Versions of a prompt on a page.
VERSIONS = 20
# Results of a search on a page, and Myses that narrow it.
PAGE = 20
FACETS = 8
# What leads to a hit that is no message.
OPENS = {
    "orders": "Show the order",
    "notes": "Show the note",
    "summaries": "Show the summary",
    "pins": "Show the standing orders",
    "prompts": "Open the version",
    "events": "Show it in the log",
    "acts": "Show it in the log",
}


@require_safe
def events_page(request: PageRequest) -> HttpResponse:
    """Events, newest first; ``kind``, ``mysis`` and ``before`` narrow them."""
    owner = parse_id(request.GET.get("mysis", ""))
    chosen = live_page.EventFilter.read(request.GET.get("kind", ""), owner)
    before = parse_id(request.GET.get("before", ""))
    # Before the rows: what settles meanwhile comes by the socket, not never.
    settled = events.read_settled_end().id
    page = live_page.load_events(chosen, before)
    lines = feed.make_event_lines(page[: live_page.PAGE])
    if request.htmx:
        return HttpResponse(fragments.draw_feed_lines(lines))
    query = {"kind": chosen.kind, "mysis": "" if owner is None else str(owner)}
    live = {"page": "events", **query, "after": str(settled)}
    context = {
        "lines": lines,
        "kinds": [
            (str(kind), event_kinds.KINDS[kind].icon, live_page.make_element_id(kind))
            for kind in Kind
        ],
        "kind": chosen.kind,
        "mysis": owner,
        "parts": {part.id: part for part in live_page.draw_kind_counts()},
        "counted": live_page.COUNTED,
        "query": urlencode(query),
        "live_query": "" if before else urlencode(live),
        "now": timezone.now(),
        "myses": Mysis.objects.order_by("name").values_list("pk", "name"),
        "before": before,
        "next": page[len(lines) - 1].pk if len(page) > live_page.PAGE else None,
    }
    return render(request, "agents/events.html", context)


@require_safe
def prompts_page(request: PageRequest) -> HttpResponse:
    """All prompts, their current version and who uses them."""
    newest = PromptVersion.objects.order_by("prompt", "-number").distinct("prompt")
    current = {version.prompt_id: version for version in newest}
    prompts = [
        {"prompt": prompt, "current": current.get(prompt.pk)}
        for prompt in Prompt.objects.prefetch_related("myses").order_by("name")
    ]
    context = {"prompts": prompts, "summaries": SUMMARY_PROMPT_NAME}
    return render(request, "agents/prompts.html", context)


@require_safe
def prompt_page(request: PageRequest, prompt_id: int) -> HttpResponse:
    """One prompt with all its versions, newest first."""
    prompt = get_object_or_404(Prompt, pk=prompt_id)
    before = parse_id(request.GET.get("before", ""))
    rows = prompt.versions.all()
    if before is not None:
        rows = rows.filter(number__lt=before)
    versions = list(rows[: VERSIONS + 1])
    context = {
        "prompt": prompt,
        "summaries": SUMMARY_PROMPT_NAME,
        "before": before,
        "versions": versions[:VERSIONS],
        "older": versions[VERSIONS - 1].number if len(versions) > VERSIONS else None,
        "myses": prompt.myses.order_by("name"),
    }
    return render(request, "agents/prompt.html", context)


@require_safe
def search_page(request: PageRequest) -> HttpResponse:
    """The newest matches, newest first."""
    asked = bool(request.GET.get("q"))
    form = SearchForm(request.GET if asked else None, initial=request.GET.dict())
    found: SearchPage | None = None
    if asked:
        # The hits are read first, and may be walked by keys.
        del form.fields["q"].widget.attrs["autofocus"]
    if asked and form.is_valid():
        try:
            found = search_everything(form.cleaned_data)
        except SlowSearchError as error:
            form.add_error("q", error.detail)
    context: dict[str, Any] = {"form": form, "asked": found is not None}
    if found is not None:
        shown = found.results[:PAGE]
        context |= {
            "results": shown,
            "where": form.cleaned_data["where"],
            "opens": OPENS.get(form.cleaned_data["where"], "Show it in its place"),
            "chips": _count_chips(form.cleaned_data),
            "older": _find_older(found),
            "passed": (form.cleaned_data["passed"] or 0) + len(shown),
            "newest": bool(request.GET.get("before")),
            "facets": _count_by_mysis(found) if not request.GET.get("mysis") else (),
            "counted": len(found.results),
            "full": found.reached is not None,
        }
    return render(request, "memory/search.html", context)


def _count_chips(asked: dict[str, Any]) -> list[tuple[str, str, str, bool]]:
    """Each kind of hit: its label, its address, how many there are, and if it is shown."""
    counts = count_everything(asked)
    question = write_question(asked | {"before": None})
    chips = []
    for kind, label in SearchForm.WHERE:
        count = counts.get(kind)
        number = f"{count.number:,}{'+' if count.more else ''}" if count else ""
        query = urlencode({**question, "where": kind})
        chips.append((label, f"?{query}", number, kind == asked["where"]))
    return chips


def _count_by_mysis(found: SearchPage) -> Sequence[tuple[Mysis, int]]:
    """The Myses that most of the matches are of."""
    counts = Counter(hit.mysis for hit in found.results if hit.mysis and hit.origin)
    return counts.most_common(FACETS)


def _find_older(found: SearchPage) -> int | None:
    """Where the next page begins: behind what is shown, or what was looked through."""
    return found.results[PAGE - 1].id if len(found.results) > PAGE else found.reached


@require_safe
def policies_page(request: PageRequest) -> HttpResponse:
    """Every policy, and any two of them side by side; nothing is written."""
    asked = bool(request.GET.get("mysis"))
    form = PoliciesForm(request.GET if asked else None, initial=request.GET.dict())
    users = Mysis.count_by_policy()
    rows = [
        (policy, users.get(policy.pk, 0))
        for policy in ContextPolicy.objects.order_by("name")
    ]
    values = {"form": form, "policies": rows, "nav": "prompts"}
    if asked and form.is_valid():
        values |= _compared(form)
    status = 422 if form.errors else 200
    return render(request, "agents/policies.html", values, status=status)


@context_inputs.previews.taken()
def _compared(form: PoliciesForm) -> dict[str, object]:
    mysis: Mysis = form.cleaned_data["mysis"]
    a, b = form.cleaned_data["a"], form.cleaned_data["b"]
    try:
        # Under a policy, too, the budget is never more than the model reads.
        mysis.policy = a or mysis.policy
        first = context_inputs.assemble_preview(mysis)
        mysis.policy = b
        second = context_inputs.assemble_preview(mysis)
    except ActionError as error:
        form.add_error(None, error.detail)
        return {}
    comparison = context_diff.compare_strategies(first, second)
    return {"comparison": comparison, "mysis": mysis}


# --- Logs as files: of a Mysis, or of one of its turns, without secrets

# The end of a file's name, and what browsers are told that it is.
KINDS: Mapping[str, tuple[str, str]] = {
    "jsonl": ("jsonl", "application/x-ndjson"),
    "openai": ("json", "application/json"),
    "markdown": ("md", "text/markdown; charset=utf-8"),
}
# Characters that are sent at once.
AT_ONCE = 64 * 1024


@require_safe
def download_log(request: HttpRequest, key: str) -> StreamedAnswer:
    """All that was said, thought, called and answered; ``?format=`` as `export` has it."""
    mysis = find_mysis(key)
    return _send(request, mysis.pk, mysis.name)


@require_safe
def download_turn(request: HttpRequest, turn_id: int) -> StreamedAnswer:
    """The same of one turn."""
    turn = find_turn(min(turn_id, 2**63 - 1))
    if turn is None:
        raise Http404("No such turn.")
    name = f"{turn.mysis.name} turn {turn.number}"
    return _send(request, turn.mysis_id, name, turn.pk)


def _send(
    request: HttpRequest, mysis_id: int, name: str, turn_id: int | None = None
) -> StreamedAnswer:
    form = request.GET.get("format", "jsonl")
    if form not in KINDS:
        raise Http404(f"format: give one of {', '.join(KINDS)}.")
    ending, kind = KINDS[form]
    if request.method == "GET":
        audit.record("log.download", f"log:{name}", after={"format": form})
    pieces = in_out.write_pieces(mysis_id, form, turn_id=turn_id)
    return StreamedAnswer(_join(pieces), kind, f"{name}.{ending}")


def _join(pieces: Iterator[str]) -> Iterator[str]:
    """The same in larger pieces: each is sent by itself, which takes its time."""
    joined = ""
    for piece in pieces:
        joined += piece
        if len(joined) >= AT_ONCE:
            yield joined
            joined = ""
    yield joined
