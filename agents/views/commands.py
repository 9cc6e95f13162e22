"""One command for several Myses: what can be done is done, the rest is told."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from django.http import HttpResponse, QueryDict
from django.views.decorators.http import require_POST

from agents import actions
from agents.actions import ActionError
from agents.actions.base import OPEN_STATES
from agents.dashboard import fleet
from agents.forms import MessageForm, chosen_myses
from agents.models import Mysis
from agents.views.access import (
    PageRequest,
    actor,
    find_mysis,
    operator_required,
    success,
)
from agents.views.access import error as access_error

NAMED = 3


@dataclass(frozen=True, slots=True)
class Done:
    """How many took it, and the words of those that did not."""

    count: int
    refused: tuple[str, ...]

    @property
    def why(self) -> str:
        """The first refusals in words, the others counted."""
        rest = len(self.refused) - NAMED
        more = f" And {rest} more." if rest > 0 else ""
        return f"{len(self.refused)} refused: {' '.join(self.refused[:NAMED])}{more}"


def apply(myses: Iterable[Mysis], act: Callable[[Mysis], object]) -> Done:
    """Do it to each; one that refuses stops no other."""
    count, refused = 0, []
    for mysis in myses:
        try:
            act(mysis)
        except ActionError as error:
            refused.append(error.detail)
        else:
            count += 1
    return Done(count, tuple(refused))


def counted(count: int) -> str:
    """A number of Myses in words."""
    return f"{count} {'Mysis' if count == 1 else 'Myses'}"


# SECTION Start, stop, message, broadcast: forms that also work without a script.

NOBODY = (
    "Not sent, for it would reach nobody: no Mysis is idle or running. Start one, "
    "then send it again."
)


@require_POST
@operator_required
def start(request: PageRequest, key: str) -> HttpResponse:
    """Start a Mysis that does not run."""
    mysis = find_mysis(key)
    try:
        actions.start_mysis(mysis=mysis, by=actor(request))
    except ActionError as error:
        return access_error(request, error.detail, error.status)
    return success(request, f"{mysis.name} starts.")


@require_POST
@operator_required
def stop(request: PageRequest, key: str) -> HttpResponse:
    """Stop a Mysis, whatever it does."""
    mysis = find_mysis(key)
    try:
        actions.stop_mysis(mysis=mysis, by=actor(request))
    except ActionError as error:
        return access_error(request, error.detail, error.status)
    return success(request, f"{mysis.name} is stopped.")


@require_POST
@operator_required
def send(request: PageRequest) -> HttpResponse:
    """A message to some Myses, or a broadcast to all that are idle or running."""
    form = MessageForm(_addressed(request.POST))
    if not form.is_valid():
        errors = [str(text) for texts in form.errors.values() for text in texts]
        return access_error(request, " ".join(errors), 422)
    myses: list[Mysis] | None = form.cleaned_data["to"]
    text, by = form.cleaned_data["text"], actor(request)
    if myses is not None and len(myses) > 1:
        done = apply(myses, lambda one: _message(one, text, by))
        return answered(request, done, "Sent to")
    try:
        words = _deliver(myses[0] if myses else None, text, by)
    except ActionError as error:
        return access_error(request, error.detail, error.status)
    return success(request, words)


def _addressed(sent: QueryDict) -> QueryDict:
    """With ``all``, the selected ones are all that match the view."""
    if sent.get("to") != MessageForm.SELECTED or not sent.get("all"):
        return sent
    given = sent.copy()
    found = fleet.matching(fleet.View.of(sent))
    given.setlist("mysis", [str(number) for number in found])
    return given


def _message(mysis: Mysis, text: str, by: str) -> None:
    actions.send_message(mysis=mysis, text=text, by=by)


def _deliver(mysis: Mysis | None, text: str, by: str) -> str:
    if mysis is not None:
        actions.send_message(mysis=mysis, text=text, by=by)
        return f"Sent to {mysis.name}."
    if not Mysis.objects.filter(state__in=OPEN_STATES).exists():
        # Refused, so that the text stays where it can be sent from again.
        raise ActionError(NOBODY, code="nobody", status=409)
    broadcast = actions.send_broadcast(text=text, by=by)
    return f"Sent to {counted(actions.recipients(broadcast))}."


@require_POST
@operator_required
def many(request: PageRequest) -> HttpResponse:
    """Start or stop the Myses that are ticked, or all that match the view."""
    act = ACTS.get(request.POST.get("act", ""))
    if act is None:
        return access_error(request, "Choose start or stop.", 422)
    if request.POST.get("all"):
        view = fleet.View.of(request.POST)
        myses = chosen_myses([str(number) for number in fleet.matching(view)])
    else:
        myses = chosen_myses(request.POST.getlist("mysis"))
    if not myses:
        return access_error(request, "Nobody is selected: tick some rows first.", 422)
    by = actor(request)
    done = apply(myses, lambda one: act.run(mysis=one, by=by))
    return answered(request, done, act.words)


@dataclass(frozen=True, slots=True)
class Act:
    """One thing to do to several Myses, and how to say that it was done."""

    run: Callable[..., object]
    words: str


ACTS: Mapping[str, Act] = {
    "start": Act(actions.start_mysis, "Started"),
    "stop": Act(actions.stop_mysis, "Stopped"),
}


def answered(request: PageRequest, done: Done, words: str) -> HttpResponse:
    """How many it was done to, and why not to the others."""
    said = f"{words} {counted(done.count)}."
    if not done.refused:
        return success(request, said)
    if not done.count:
        return access_error(request, f"{said} {done.why}", 409)
    # It was done to some: asked again, it would be done to these twice.
    return success(request, f"{said} {done.why}", "warning")
