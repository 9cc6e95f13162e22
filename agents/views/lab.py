"""The lab: replays of recorded calls, and what they recommend."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import (
    require_http_methods,
    require_POST,
    require_safe,
)
from django_htmx.http import HttpResponseClientRedirect

from agents import actions, context_inputs
from agents.actions import ActionError
from agents.actions.base import check_version, name_operator
from agents.dashboard import context_diff
from agents.lab import replay_page as parts
from agents.lab.advice import describe_replay_advice
from agents.lab.forms import ReplayForm
from agents.lab.kept_replays import delete_replay, list_names
from agents.lab.policies import OWN
from agents.lab.recommend import SETTINGS
from agents.lab.report import SUMMARIES
from agents.models import Replay, ReplayCall
from agents.views.access import (
    PageRequest,
    admin_required,
    ask_first,
    find_mysis,
    is_confirmed,
    is_operator,
    notify_success,
    operator_required,
)
from agents.views.context import assemble_again
from memory.assembly.prepare import PreparedRequest
from memory.assembly.replay import PastCall, load_past_call, rebuild_as_sent
from memory.context.offered_tools import pick_tool_options
from memory.context.types import Budget
from memory.handles import MAX_ID, parse_id
from memory.models import ContextPolicy, SentContext

# Replays on a page of the list, and rows of calls that are drawn at once.
PAGE, ROWS = 30, 200
# Rows that come by themselves while a replay is under way.
STREAMED = 600


@require_http_methods(["GET", "HEAD", "POST"])
def lab_page(request: PageRequest) -> HttpResponse:
    """The form of a replay and those that are kept, newest first."""
    if request.method == "POST":
        return _start(request)
    return _render_lab(request, ReplayForm(initial=request.GET.dict()), 200)


@operator_required
def _start(request: PageRequest) -> HttpResponse:
    """Ask for a replay; what was refused keeps what was typed."""
    form, status = ReplayForm(request.POST), 422
    if form.is_valid():
        try:
            replay = form.start(by=name_operator(request))
        except ActionError as error:
            form.add_refusal(error)
            status = error.status
        else:
            messages.success(request, f"Replay {replay.pk} is on its way.")
            return redirect("replay", replay.pk)
    return _render_lab(request, form, status)


def _render_lab(request: PageRequest, form: ReplayForm, status: int) -> HttpResponse:
    before = parse_id(request.GET.get("before", ""))
    rows = Replay.objects.select_related("mysis").order_by("-pk")
    if before is not None:
        rows = rows.filter(pk__lt=before)
    found = list(rows.defer("report")[: PAGE + 1])
    values = {
        "form": form,
        "replays": found[:PAGE],
        "older": found[PAGE - 1].pk if len(found) > PAGE else None,
        "before": before,
        "may_start": is_operator(request),
    }
    return render(request, "agents/lab.html", values, status=status)


@require_safe
def replay_page(request: PageRequest, number: int) -> HttpResponse:
    """One replay: progress, figures, charts, and its calls after the ``after``th.

    A script asks for what is new of one under way, and for ``rows`` alone. The first
    rows come by themselves; from then on more are offered, once.
    """
    try:
        replay = _find_replay(number)
    except Http404:
        if request.htmx:
            # It was cancelled while somebody watched it.
            return HttpResponseClientRedirect(reverse("lab"))
        raise
    after = parse_id(request.GET.get("after", "")) or 0
    under_way = replay.state in Replay.UNDER_WAY
    values: dict[str, Any] = {"replay": replay, "policies": list_names(replay)}
    values |= {"after": after, "under_way": under_way, "settled": after >= STREAMED}
    asks_rows = bool(request.htmx) and "rows" in request.GET
    if request.htmx and values["settled"] and not asks_rows:
        values |= {"rows": [], "last": after}
    else:
        values |= _list_rows(replay, after)
    if asks_rows:
        return render(request, "agents/lab/more_rows.html", values)
    values["streams"] = under_way and values["last"] < STREAMED
    values["figures"] = parts.list_figures(replay)
    values["summaries"] = SUMMARIES
    values["charts"] = parts.draw_charts(replay)
    values["may_start"] = is_operator(request)
    if replay.state == Replay.State.DONE:
        values |= describe_replay_advice(replay)
    part = "agents/lab/news.html" if request.htmx else "agents/replay.html"
    return render(request, part, values)


def _find_replay(number: int) -> Replay:
    rows = Replay.objects.select_related("mysis__policy")
    return get_object_or_404(rows, pk=min(number, MAX_ID))


def _list_rows(replay: Replay, after: int) -> dict[str, Any]:
    """The calls after one, and whether there are more; ``last`` is the last of them."""
    rows = ReplayCall.objects.filter(replay=replay, place__gt=after).order_by("place")
    found = list(rows[: ROWS + 1])
    drawn = found[:ROWS]
    return {
        "rows": parts.list_calls(replay, drawn),
        "more": len(found) > ROWS or replay.state in Replay.UNDER_WAY,
        "last": drawn[-1].place if drawn else after,
    }


@require_POST
@operator_required
def remove_replay(request: PageRequest, number: int) -> HttpResponse:
    """Cancel one that is under way, or delete one that is kept."""
    replay = _find_replay(number)
    back = reverse("replay", args=[replay.pk])
    if replay.state not in Replay.UNDER_WAY and not is_confirmed(request):
        question = f"Delete replay {replay.pk} with its figures?"
        return ask_first(request, question, label="Delete the replay", back=back)
    words = "is cancelled" if replay.state in Replay.UNDER_WAY else "is deleted"
    delete_replay(replay, by=name_operator(request))
    messages.success(request, f"Replay {replay.pk} {words}: nothing of it is left.")
    return redirect("lab")


# --- One call under two policies


@require_safe
def replay_call(request: PageRequest, number: int, place: int) -> HttpResponse:
    """A call as it was under one policy beside another: ``a`` and ``b`` are their names."""
    replay = _find_replay(number)
    row = get_object_or_404(ReplayCall, replay=replay, place=min(place, 2**31 - 1))
    names = list_names(replay)
    a, b = (request.GET.get(each, "") for each in "ab")
    a = a if a in names else OWN
    b = b if b in names else names[-1]
    values = {
        "replay": replay,
        "row": row,
        "policies": names,
        "a": a,
        "b": b,
        "more": ReplayCall.objects.filter(replay=replay, place=row.place + 1).exists(),
    }
    rows = SentContext.objects.select_related(
        "call__turn", "mysis__account", "mysis__policy", "mysis__prompt"
    )
    sent = rows.filter(call=row.call_id).first()
    if sent is not None:
        values |= _compare(replay, row, sent, (a, b))
    return render(request, "agents/replay_call.html", values)


def _compare(
    replay: Replay, row: ReplayCall, sent: SentContext, names: tuple[str, str]
) -> dict[str, Any]:
    """Both views of a call; ``apart`` are policies whose view is not the measured one."""
    then = load_past_call(sent, context_inputs.build_subject(sent.mysis))
    try:
        first, second = (_assemble(replay, then, name) for name in names)
    except ActionError as error:
        return {"call": sent.call, "refused": error.detail}
    views = dict(zip(names, (first, second), strict=True))
    return {
        "call": sent.call,
        "mysis": sent.mysis,
        "comparison": context_diff.compare_strategies(first, second, names),
        "apart": [
            name
            for name, view in views.items()
            if not view.digest.startswith(row.figures[name]["view"])
        ],
    }


def _assemble(replay: Replay, then: PastCall, name: str) -> PreparedRequest:
    """A call as it was sent, or under a policy of the replay."""
    if name == OWN:
        return rebuild_as_sent(then)
    policy = next(one for one in replay.policies if one["name"] == name)
    tokens = policy["budget_tokens"]
    budget = None if tokens is None else Budget(tokens, policy["budget_reserve"])
    options = policy["options"]
    if policy.get("keeps_tools"):
        options = pick_tool_options(then.subject.options)
    return assemble_again(
        then, strategy=policy["strategy"], options=options, budget=budget
    )


# --- Recommendations


@require_POST
@admin_required
def choose_for_mysis(request: PageRequest, key: str) -> HttpResponse:
    """Give a Mysis a policy, unless somebody else changed it since the page was drawn."""
    mysis, policy = find_mysis(key), _find_policy(request)
    actions.update_mysis(
        mysis=mysis,
        by=name_operator(request),
        version=request.POST.get("version", ""),
        policy=policy,
    )
    named = policy.name if policy else "the fleet's default"
    return notify_success(
        request, f"{mysis.name} has {named} now. It counts from its next call on."
    )


@require_POST
@admin_required
def choose_for_fleet(request: PageRequest) -> HttpResponse:
    """Make a policy the fleet's default, under the same guard."""
    policy = _find_policy(request)
    actions.choose_default_policy(
        policy=policy,
        by=name_operator(request),
        version=request.POST.get("version", ""),
    )
    named = policy.name if policy else "the built-in policy"
    return notify_success(
        request, f"The fleet has {named} now. It counts from the next calls on."
    )


def _find_policy(request: PageRequest) -> ContextPolicy | None:
    """The policy that a button names, None for none.

    Raises ActionError: 422 without a name, 404 for one that is gone, 409 for one whose
    ``settings`` are not those that the page had.
    """
    given = request.POST.get("policy")
    if given is None:
        raise ActionError(
            "policy: give its number, or nothing for none.", code="invalid", status=422
        )
    if not given:
        return None
    row = ContextPolicy.objects.filter(pk=parse_id(given) or 0).first()
    if row is None:
        raise ActionError(
            "This policy was deleted meanwhile.", code="not_found", status=404
        )
    check_version(row, SETTINGS, request.POST.get("settings"))
    return row
