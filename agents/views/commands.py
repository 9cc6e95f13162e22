"""Start, stop, message, broadcast, as forms that need no script, and the palette of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from django.http import HttpResponse, QueryDict
from django.shortcuts import render
from django.views.decorators.http import require_POST, require_safe
from django_htmx.http import trigger_client_event

from agents import actions
from agents.actions import ActionError
from agents.actions.base import OPEN_STATES, act_on_each, name_operator
from agents.actions.messages import check_recipients
from agents.dashboard import fleet
from agents.dashboard.palette import list_options
from agents.forms import MessageForm, load_chosen_myses
from agents.models import Mysis
from agents.views.access import (
    PageRequest,
    find_mysis,
    is_admin,
    is_operator,
    notify_error,
    notify_success,
    operator_required,
)
from memory.handles import parse_id

# Letters of the palette that are looked at.
LONGEST = 500
# Refusals that are told word for word.
NAMED = 3
NOBODY = (
    "Not sent, for it would reach nobody: no Mysis of these is idle or running. Start "
    "one, then send it again."
)
NO_NEWEST = (
    "Which orders to clear is not said: load the page again, and see what is open now."
)
# What can be done to Myses, and how to say that it was done, to one and to several.
ACTS: Mapping[str, tuple[Callable[..., object], str, str]] = {
    "start": (actions.start_mysis, "{} starts.", "Started"),
    "stop": (actions.stop_mysis, "{} is stopped.", "Stopped"),
}
# What an admin can do to the groups of several.
GROUPING = ("group", "ungroup")
# What can be done to those that idle, and how to say so.
IDLE_ACTS: Mapping[str, str] = {
    "start": "Started",
    "restart": "Cleared the open orders of, and started,",
}


@require_POST
@operator_required
def start_or_stop(request: PageRequest, key: str, act: str) -> HttpResponse:
    """Start a Mysis that does not run, or stop one, whatever it does."""
    mysis = find_mysis(key)
    command, words, _ = ACTS[act]
    ran = act == "stop" and mysis.state == Mysis.State.RUNNING
    command(mysis=mysis, by=name_operator(request))
    again = [str(mysis.pk)] if ran else []
    return notify_success(request, words.format(mysis.name), again=again)


@require_POST
@operator_required
def send(request: PageRequest) -> HttpResponse:
    """A message to some Myses, or a broadcast to all that are idle or running."""
    form = MessageForm(_select_all(request.POST))
    if not form.is_valid():
        errors = [str(text) for texts in form.errors.values() for text in texts]
        return notify_error(request, " ".join(errors), 422)
    myses: list[Mysis] | None = form.cleaned_data["to"]
    given = {
        "text": form.cleaned_data["text"],
        "by": name_operator(request),
        "supersedes": form.cleaned_data["clear"],
    }
    if myses is None:
        return notify_success(request, _broadcast(form.members, given))
    order, refused = actions.send_order(myses=myses, **given)
    if len(myses) == 1:
        return notify_success(request, f"Sent to {myses[0].name}.")
    said = f"Sent to {_count(order.recipients.count())}."
    if not refused:
        return notify_success(request, said)
    return notify_success(request, f"{said} {_describe_refused(refused)}", "warning")


def _select_all(sent: QueryDict) -> QueryDict:
    """With ``all``, the selected ones are all that match the view."""
    if not sent.get("all"):
        return sent
    given = sent.copy()
    found = fleet.find_matching_ids(fleet.FleetView.read(sent))
    given.setlist("mysis", [str(number) for number in found])
    return given


def _broadcast(members: Mapping[str, Any], given: Mapping[str, Any]) -> str:
    """Send to the whole fleet, or to the members of a group or a tag."""
    check_recipients(**members)
    listening = Mysis.select_members(**members).filter(state__in=OPEN_STATES)
    if not listening.exists():
        # Refused, so that the text stays where it can be sent from again.
        raise ActionError(NOBODY, code="nobody", status=409)
    broadcast = actions.send_broadcast(**given, **members)
    return f"Sent to {_count(actions.count_recipients(broadcast))}."


@require_POST
@operator_required
def act_on_many(request: PageRequest) -> HttpResponse:
    """Start, stop or group the Myses that are ticked, or all that match the view."""
    wanted = request.POST.get("act", "")
    if wanted not in (*ACTS, *GROUPING):
        return notify_error(request, "Choose start or stop.", 422)
    myses = load_chosen_myses(_select_all(request.POST).getlist("mysis"))
    if not myses:
        return notify_error(request, "Nobody is selected: tick some rows first.", 422)
    if wanted in GROUPING:
        return _group_many(request, myses, adds=wanted == "group")
    act, _, words = ACTS[wanted]
    ran = [str(one.pk) for one in myses if one.state == Mysis.State.RUNNING]
    again = ran if wanted == "stop" else []
    command = partial(act, by=name_operator(request))
    return _command_many(request, myses, command, words, again)


def _group_many(
    request: PageRequest, myses: Sequence[Mysis], *, adds: bool
) -> HttpResponse:
    """Put Myses into the group that ``to_group`` names, or take them out of it.

    Without a name each leaves the group that it is in.
    """
    if not is_admin(request):
        words = "Groups need an admin: ask for the role, or sign in as somebody else."
        return notify_error(request, words, status=403)
    name = request.POST.get("to_group", "").replace("\x00", "").strip()
    if adds and not name:
        return notify_error(request, "Name the group that they are put into.", 422)
    if not adds:
        myses = [one for one in myses if one.group and name in ("", one.group)]
        if not myses:
            where = f"in group {name[:100]}" if name else "in a group"
            return notify_error(request, f"None of them is {where}.", 422)
    change = partial(
        actions.update_mysis, by=name_operator(request), group=name if adds else ""
    )
    words = f"Put into group {name[:100]}:" if adds else "Taken out of their group:"
    answer = _command_many(request, myses, change, words)
    return trigger_client_event(answer, "groups-changed")


@require_POST
@operator_required
def start_idle(request: PageRequest, act: str) -> HttpResponse:
    """Start the Myses whose numbers ``myses`` names, after clearing their orders if asked.

    Only the orders up to ``upto``, the newest that the page told, are cleared.
    """
    myses = load_chosen_myses(request.POST.get("myses", "").split(","))
    if not myses:
        return notify_error(request, "None of these Myses is there any more.", 422)
    start = partial(actions.start_mysis, by=name_operator(request))
    if act == "restart":
        upto = parse_id(request.GET.get("upto", ""))
        if upto is None:
            return notify_error(request, NO_NEWEST, 422)
        start = partial(start, clear_orders=True, upto=upto)
    return _command_many(request, myses, start, IDLE_ACTS[act])


def _command_many(
    request: PageRequest,
    myses: Iterable[Mysis],
    act: Callable[..., object],
    words: str,
    again: Sequence[str] = (),
) -> HttpResponse:
    """Do it to each; say to how many it was done, and why not to the others.

    ``again`` are those that the notice offers to start again.
    """
    count, refused = act_on_each(act, myses)
    said = f"{words} {_count(count)}."
    if not refused:
        return notify_success(request, said, again=again)
    why = _describe_refused(refused)
    if not count:
        return notify_error(request, f"{said} {why}", 409)
    # It was done to some: asked again, it would be done to these twice.
    return notify_success(request, f"{said} {why}", "warning", again=again)


def _describe_refused(refused: Sequence[str]) -> str:
    rest = len(refused) - NAMED
    more = f" And {rest} more." if rest > 0 else ""
    return f"{len(refused)} refused: {' '.join(refused[:NAMED])}{more}"


def _count(myses: int) -> str:
    return f"{myses} {'Mysis' if myses == 1 else 'Myses'}"


# --- The palette of every page


@require_safe
def palette(request: PageRequest) -> HttpResponse:
    """What is offered for what was typed."""
    typed = request.GET.get("q", "")[:LONGEST]
    options = list_options(
        typed, operator=is_operator(request), admin=is_admin(request)
    )
    context = {"typed": typed, "options": options}
    return render(request, "agents/palette/options.html", context)


@require_safe
def keys(request: PageRequest) -> HttpResponse:
    """All keys, with the switch that turns single ones off."""
    context = {"operator": is_operator(request)}
    return render(request, "agents/palette/keys.html", context)
