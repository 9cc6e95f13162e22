"""Start, stop, message, broadcast: forms that also work without a script."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_POST

from agents import actions
from agents.actions import ActionError
from agents.dashboard.addresses import find_mysis
from agents.forms import MessageForm
from agents.models import Mysis

from .access import actor, operator_required
from .answers import confirm, refuse


@require_POST
@operator_required
def start(request: HttpRequest, key: str) -> HttpResponse:
    """Start a Mysis that does not run."""
    mysis = find_mysis(key)
    try:
        actions.start_mysis(mysis=mysis, by=actor(request))
    except ActionError as error:
        return refuse(request, error.detail, error.status)
    return confirm(request, f"{mysis.name} starts.")


@require_POST
@operator_required
def stop(request: HttpRequest, key: str) -> HttpResponse:
    """Stop a Mysis, whatever it does."""
    mysis = find_mysis(key)
    try:
        actions.stop_mysis(mysis=mysis, by=actor(request))
    except ActionError as error:
        return refuse(request, error.detail, error.status)
    return confirm(request, f"{mysis.name} is stopped.")


@require_POST
@operator_required
def send(request: HttpRequest) -> HttpResponse:
    """A message to one Mysis, or a broadcast to all that are idle or running."""
    form = MessageForm(request.POST)
    if not form.is_valid():
        errors = [str(text) for texts in form.errors.values() for text in texts]
        return refuse(request, " ".join(errors), 422)
    mysis: Mysis | None = form.cleaned_data["to"]
    try:
        words = _deliver(mysis, form.cleaned_data["text"], actor(request))
    except ActionError as error:
        return refuse(request, error.detail, error.status)
    return confirm(request, words)


def _deliver(mysis: Mysis | None, text: str, by: str) -> str:
    if mysis is not None:
        actions.send_message(mysis=mysis, text=text, by=by)
        return f"Sent to {mysis.name}."
    broadcast = actions.send_broadcast(text=text, by=by)
    count = broadcast.deliveries.count()
    if count == 0:
        return "Stored, but it reached nobody: no Mysis is idle or running. Start one."
    return f"Sent to {count} {'Mysis' if count == 1 else 'Myses'}."
