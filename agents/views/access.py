"""How a command answers: a notice in place with htmx, else back where it came from."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, Literal, ParamSpec

from django.contrib import messages
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme

LEVELS = {"success": messages.SUCCESS, "warning": messages.WARNING}


def uses_htmx(request: HttpRequest) -> bool:
    """Whether htmx asks for a part of the page."""
    return request.headers.get("HX-Request") == "true"


Level = Literal["success", "warning"]


def success(request: HttpRequest, words: str, level: Level = "success") -> HttpResponse:
    """A command was done, with a warning not to all. The socket brings its effects."""
    if not uses_htmx(request):
        messages.add_message(request, LEVELS[level], words)
        return back(request)
    context = {"words": words, "level": level}
    return render(request, "agents/shared/notice.html", context)


def error(request: HttpRequest, words: str, status: int) -> HttpResponse:
    """A command could not be done; ``words`` tell why and what to do."""
    if not uses_htmx(request):
        messages.error(request, words)
        return back(request)
    context = {"words": words, "level": "error"}
    return render(request, "agents/shared/notice.html", context, status=status)


def back(request: HttpRequest) -> HttpResponse:
    """To the page that the form stood on, if that is one of ours."""
    wanted = request.POST.get("next") or request.headers.get("Referer", "")
    safe = url_has_allowed_host_and_scheme(
        wanted, allowed_hosts={request.get_host()}, require_https=request.is_secure()
    )
    return HttpResponseRedirect(wanted if safe else reverse("fleet"))


# SECTION Who may do what on the pages; reading is for everybody who is signed in.
#
# The same three steps as over REST: superusers administer, staff operates, all
# others look on.

P = ParamSpec("P")
View = Callable[Concatenate[HttpRequest, P], HttpResponse]


def operates(request: HttpRequest) -> bool:
    """Whether the user may start, stop and send messages."""
    user = request.user
    return isinstance(user, User) and (user.is_staff or user.is_superuser)


def administers(request: HttpRequest) -> bool:
    """Whether the user may create Myses and edit prompts and policies."""
    return isinstance(request.user, User) and request.user.is_superuser


def operator_required(view: View[P]) -> View[P]:
    """Refuse viewers, in words."""
    return _required(view, operates, "an operator")


def admin_required(view: View[P]) -> View[P]:
    """Refuse viewers and operators, in words."""
    return _required(view, administers, "an admin")


def _required(
    view: View[P], allowed: Callable[[HttpRequest], bool], who: str
) -> View[P]:
    @wraps(view)
    def checked(
        request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs
    ) -> HttpResponse:
        if allowed(request):
            return view(request, *args, **kwargs)
        words = f"This needs {who}: ask for the role, or sign in as somebody else."
        return error(request, words, status=403)

    return checked


def actor(request: HttpRequest) -> str:
    """How the log names the user."""
    return f"operator:{request.user.get_username()}"
