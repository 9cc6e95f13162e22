"""Headers and the door: a content policy, sign-in for every page, a pace for writes."""

from __future__ import annotations

import math
from collections.abc import Callable

from django.conf import settings
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render, resolve_url
from django.utils.cache import patch_vary_headers

from . import limits, lookups
from .auth.callers import caller_of_user
from .auth.roles import API_ROOT, READS

GetResponse = Callable[[HttpRequest], HttpResponseBase]

# These authenticate by themselves, or must answer before anybody signs in.
OPEN_PREFIXES = ("/api/", "/sign-in/", "/static/", "/mcp")
OPEN_PATHS = frozenset({"/healthz", "/readyz", "/metrics", "/favicon.ico"})


class ContentSecurityPolicyMiddleware:
    """Sends ``settings.SECURE_CSP`` with every answer."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response
        self.policy = "; ".join(f"{k} {v}" for k, v in settings.SECURE_CSP.items())

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Add the header unless the view set its own."""
        response = self.get_response(request)
        response.headers.setdefault("Content-Security-Policy", self.policy)
        return response


class PartOrPageMiddleware:
    """Asked by htmx, an address may answer with a part of its page: caches must know.

    Every page says so, since the door and the notices answer in two ways as well.
    """

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Let HTML vary by who asked."""
        response = self.get_response(request)
        if response.headers.get("Content-Type", "").startswith("text/html"):
            patch_vary_headers(response, ["HX-Request"])
        return response


class SignInRequiredMiddleware:
    """Nobody who is not signed in sees a page."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Send strangers to the sign-in page; tell htmx to go there whole."""
        path = request.path_info
        is_open = path in OPEN_PATHS or path.startswith(OPEN_PREFIXES)
        if is_open or request.user.is_authenticated:
            return self.get_response(request)
        if request.headers.get("HX-Request") == "true":
            answer = HttpResponse(status=204)
            answer["HX-Redirect"] = resolve_url(settings.LOGIN_URL)
            return answer
        return redirect_to_login(request.get_full_path())


class AdminAddressMiddleware:
    """No column can hold a NUL or a day of the year 99999: such an address of the
    admin names nothing.

    The stock filters would take it on, and what refuses it then is a fault of ours.
    """

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Tell those that there is no such page."""
        if request.path_info.startswith("/admin/") and _names_nothing(request):
            return render(request, "404.html", status=404)
        return self.get_response(request)


def _names_nothing(request: HttpRequest) -> bool:
    nul = "\x00" in request.path_info or "%00" in request.META["QUERY_STRING"]
    return nul or not lookups.have_days(request.GET)


class WriteLimitMiddleware:
    """Nobody's browser writes faster than the database is to be asked to.

    Programs are counted at their own doors, the API and MCP; a person who has both
    doors open has one account for them.
    """

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Count one write of a page; refuse it, where there were too many."""
        if request.method in READS or request.path_info.startswith(f"{API_ROOT}/"):
            return self.get_response(request)
        caller = caller_of_user(request.user)
        wait = limits.writes.take(caller.by) if caller is not None else 0.0
        return too_fast(request, wait) if wait else self.get_response(request)


def too_fast(request: HttpRequest, wait: float) -> HttpResponse:
    """The 429 of a page: a notice with htmx, else a page of its own."""
    seconds = max(1, math.ceil(wait))
    if request.headers.get("HX-Request") == "true":
        words = f"Too many changes at once: not done. Try again in {seconds} s."
        context = {"words": words, "level": "error"}
        answer = render(request, "agents/live/notice.html", context, status=429)
        # Wherever the form would have put its answer.
        answer["HX-Retarget"], answer["HX-Reswap"] = "#notices", "innerHTML"
    else:
        answer = render(request, "429.html", {"seconds": seconds}, status=429)
    answer["Retry-After"] = str(seconds)
    return answer
