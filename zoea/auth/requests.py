"""The door of the REST API: who asks, may they, and how often."""

from __future__ import annotations

import math

from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import CsrfViewMiddleware

from memory.problems import Problem
from zoea import limits

from .callers import Caller, bearer_of, caller_of_token, caller_of_user
from .roles import READS, required_role

NOBODY = (
    "Send 'Authorization: Bearer <token>' with a token of `manage.py create_token`, "
    "or sign in with a browser."
)
WRONG = (
    "This token is unknown, expired or revoked: make a new one with "
    "`manage.py create_token`."
)
NO_CSRF = (
    "A write from a browser session needs the X-CSRFToken header (or use a bearer "
    "token)."
)


def admit(request: HttpRequest) -> Caller:
    """Let a request in, or raise the Problem that says why not.

    In this order: 401 for nobody, 403 for too little role, 429 for too many
    writes. The body has not been looked at yet.
    """
    caller = identify(request)
    method = request.method or "GET"
    needed = required_role(method, request.path_info)
    if caller.role < needed:
        raise Problem(
            403,
            "forbidden",
            f"This needs the role {needed.label}; yours is {caller.role.label}.",
        )
    if method not in READS:
        throttle(caller)
    return caller


def identify(request: HttpRequest) -> Caller:
    """Who asks; a token that is given decides alone, also beside a session."""
    given = request.headers.get("Authorization", "")
    if given:
        caller = caller_of_token(bearer_of(given)) if bearer_of(given) else None
        if caller is None:
            raise stranger(request.META.get("REMOTE_ADDR", ""), WRONG)
        return caller
    caller = caller_of_user(getattr(request, "user", AnonymousUser()))
    if caller is None:
        raise unauthenticated(NOBODY)
    return caller


def unauthenticated(detail: str) -> Problem:
    """The 401."""
    return Problem(
        401, "unauthenticated", detail, headers={"WWW-Authenticate": "Bearer"}
    )


def stranger(address: str, detail: str) -> Problem:
    """The answer to a wrong token: 401, or 429 for one who keeps guessing."""
    wait = limits.wrong_tokens.take(address)
    return too_many(wait) if wait else unauthenticated(detail)


def too_many(wait: float) -> Problem:
    """The 429; Retry-After in whole seconds."""
    seconds = max(1, math.ceil(wait))
    return Problem(
        429,
        "too_many_requests",
        f"Too many requests: try again in {seconds} s.",
        headers={"Retry-After": str(seconds)},
    )


def throttle(caller: Caller) -> None:
    """Count one write."""
    wait = limits.writes.take(caller.by)
    if wait:
        raise too_many(wait)


def check_csrf(request: HttpRequest) -> None:
    """Raise a Problem unless the request carries its CSRF token.

    To be called after the body was read: the check may look for it in a form.
    """
    if _csrf_refused(request):
        raise Problem(403, "csrf", NO_CSRF)


def _csrf_refused(request: HttpRequest) -> bool:
    def view(request: HttpRequest) -> HttpResponse:
        raise NotImplementedError

    # Routes of the API are exempt from the middleware, because a bearer token
    # needs none; so the check runs here, for sessions.
    guard = CsrfViewMiddleware(view)
    request.csrf_processing_done = False  # type: ignore[attr-defined]
    guard.process_request(request)
    return guard.process_view(request, view, (), {}) is not None
