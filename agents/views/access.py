"""What every view shares: who may do what, and how a command answers.

Reading is for everybody who is signed in. Beyond that there are the same steps as over
REST: superusers administer, staff operates. With htmx a command is answered by a notice
in place, else by the way back to the page that its form stood on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Concatenate, Literal, ParamSpec

from django.contrib import messages
from django.contrib.auth.models import User
from django.contrib.messages.constants import DEFAULT_LEVELS
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django_htmx.middleware import HtmxDetails

from agents.actions import ActionError
from agents.models import Mysis
from memory.handles import parse_id

P = ParamSpec("P")


class PageRequest(HttpRequest):
    """A request as the middleware hands it to a view."""

    htmx: HtmxDetails


View = Callable[Concatenate[PageRequest, P], HttpResponse]


def is_operator(request: HttpRequest) -> bool:
    """Whether the user may start, stop and send messages."""
    user = request.user
    return isinstance(user, User) and (user.is_staff or user.is_superuser)


def is_admin(request: HttpRequest) -> bool:
    """Whether the user may create Myses and edit prompts and policies."""
    return isinstance(request.user, User) and request.user.is_superuser


def operator_required(view: View[P]) -> View[P]:
    return _required(view, is_operator, "an operator")


def admin_required(view: View[P]) -> View[P]:
    return _required(view, is_admin, "an admin")


def _required(
    view: View[P], allowed: Callable[[HttpRequest], bool], who: str
) -> View[P]:
    @wraps(view)
    def checked(
        request: PageRequest, /, *args: P.args, **kwargs: P.kwargs
    ) -> HttpResponse:
        if not allowed(request):
            words = f"This needs {who}: ask for the role, or sign in as somebody else."
            return notify_error(request, words, status=403)
        try:
            return view(request, *args, **kwargs)
        except ActionError as error:
            return notify_error(request, error.detail, error.status)

    return checked


def find_mysis(key: str) -> Mysis:
    """The Mysis by the key of its page, its name or number; raises Http404."""
    rows = Mysis.objects.select_related("account", "prompt", "policy")
    if not key.isdecimal():
        return get_object_or_404(rows, name__iexact=key.replace("\x00", ""))
    return get_object_or_404(rows, pk=parse_id(key))


def is_confirmed(request: PageRequest) -> bool:
    """Whether somebody was asked already: by a script's dialog, or by `ask_first`."""
    return bool(request.htmx) or request.POST.get("confirmed") == "yes"


def ask_first(
    request: PageRequest, question: str, *, label: str, back: str
) -> HttpResponse:
    """A page that asks; its button, which says ``label``, sends the same form again."""
    sent = [one for one in request.POST.items() if one[0] != "csrfmiddlewaretoken"]
    context = {"question": question, "label": label, "back": back, "sent": sent}
    return render(request, "agents/confirm.html", context)


def notify_success(
    request: PageRequest,
    words: str,
    level: Literal["success", "warning"] = "success",
    *,
    again: Sequence[str] = (),
) -> HttpResponse:
    """Say that a command was done; its effects come by the socket.

    ``again`` are the numbers of Myses that the notice offers to start again.
    """
    return _notify(request, words, level, 200, again)


def notify_error(request: PageRequest, words: str, status: int) -> HttpResponse:
    """Say that a command could not be done; ``words`` tell why and what to do."""
    return _notify(request, words, "error", status)


def _notify(
    request: PageRequest,
    words: str,
    level: str,
    status: int,
    again: Sequence[str] = (),
) -> HttpResponse:
    if request.htmx:
        context = {"words": words, "level": level, "again": again}
        return render(request, "agents/shared/notice.html", context, status=status)
    messages.add_message(request, DEFAULT_LEVELS[level.upper()], words)
    wanted = request.POST.get("next") or request.headers.get("Referer", "")
    safe = url_has_allowed_host_and_scheme(
        wanted, allowed_hosts={request.get_host()}, require_https=request.is_secure()
    )
    return HttpResponseRedirect(wanted if safe else reverse("fleet"))
