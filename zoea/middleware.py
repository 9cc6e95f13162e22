"""Headers and the door: a strict content policy, and sign-in for every page."""

from __future__ import annotations

from collections.abc import Callable

from django.conf import settings
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import resolve_url

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
