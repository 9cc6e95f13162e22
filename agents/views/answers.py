"""How a command answers: a notice in place with htmx, else back where it came from."""

from __future__ import annotations

from typing import Literal

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme

LEVELS = {"success": messages.SUCCESS, "warning": messages.WARNING}


def uses_htmx(request: HttpRequest) -> bool:
    """Whether htmx asks for a part of the page."""
    return request.headers.get("HX-Request") == "true"


Level = Literal["success", "warning"]


def confirm(request: HttpRequest, words: str, level: Level = "success") -> HttpResponse:
    """A command was done, with a warning not to all. The socket brings its effects."""
    if not uses_htmx(request):
        messages.add_message(request, LEVELS[level], words)
        return back(request)
    context = {"words": words, "level": level}
    return render(request, "agents/live/notice.html", context)


def refuse(request: HttpRequest, words: str, status: int) -> HttpResponse:
    """A command could not be done; ``words`` tell why and what to do."""
    if not uses_htmx(request):
        messages.error(request, words)
        return back(request)
    context = {"words": words, "level": "error"}
    return render(request, "agents/live/notice.html", context, status=status)


def back(request: HttpRequest) -> HttpResponse:
    """To the page that the form stood on, if that is one of ours."""
    wanted = request.POST.get("next") or request.headers.get("Referer", "")
    safe = url_has_allowed_host_and_scheme(
        wanted, allowed_hosts={request.get_host()}, require_https=request.is_secure()
    )
    return HttpResponseRedirect(wanted if safe else reverse("fleet"))
