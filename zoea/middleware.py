"""Days in the addresses of the admin's lists: those that no calendar has."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import MAXYEAR, MINYEAR, date

import psycopg
from django.conf import settings
from django.contrib.auth.views import redirect_to_login
from django.db import connection, connections
from django.db.migrations.executor import MigrationExecutor
from django.db.utils import Error
from django.http import HttpRequest, HttpResponse, JsonResponse, QueryDict
from django.http.response import HttpResponseBase
from django.shortcuts import render, resolve_url
from django.utils.cache import patch_vary_headers

from memory.lookup import BUSY_SECONDS, busy_problem
from zoea import rate_limits
from zoea.auth import API_ROOT, READS, caller_of_user

# Without the last: a year is looked for up to the first day of the next.
YEARS = range(MINYEAR, MAXYEAR)
# A year in which every day exists that exists in any.
LEAP = 2000
PARTS = ("year", "month", "day")


def have_days(query: QueryDict) -> bool:
    """Whether all years, and all days of a date's parts, can be.

    What is no number at all is left to the list, which has an answer to it.
    """
    parts: dict[str, dict[str, int]] = defaultdict(dict)
    for name, texts in query.lists():
        field, *lookup = name.split("__")
        numbers = list(_numbers(texts))
        if {"year", "iso_year"} & set(lookup) and not all(
            one in YEARS for one in numbers
        ):
            return False
        if numbers and lookup[-1:] and lookup[-1] in PARTS:
            parts["__".join([field, *lookup[:-1]])][lookup[-1]] = numbers[-1]
    return all(map(_is_day, parts.values()))


def _is_day(parts: dict[str, int]) -> bool:
    try:
        date(parts.get("year", LEAP), parts.get("month", 1), parts.get("day", 1))
    except (ValueError, OverflowError):
        return False
    return True


def _numbers(texts: Iterable[str]) -> Iterable[int]:
    for text in texts:
        for one in text.split(","):
            with suppress(ValueError):
                yield int(one)


# SECTION Headers and the door: a content policy, sign-in for every page, a pace for writes.

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
    return nul or not have_days(request.GET)


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
        wait = rate_limits.writes.take(caller.by) if caller is not None else 0.0
        return too_fast(request, wait) if wait else self.get_response(request)


def too_fast(request: HttpRequest, wait: float) -> HttpResponse:
    """The 429 of a page: a notice with htmx, else a page of its own."""
    seconds = max(1, math.ceil(wait))
    if request.headers.get("HX-Request") == "true":
        words = f"Too many changes at once: not done. Try again in {seconds} s."
        context = {"words": words, "level": "error"}
        answer = render(request, "agents/shared/notice.html", context, status=429)
        # Wherever the form would have put its answer.
        answer["HX-Retarget"], answer["HX-Reswap"] = "#notices", "innerHTML"
    else:
        answer = render(request, "429.html", {"seconds": seconds}, status=429)
    answer["Retry-After"] = str(seconds)
    return answer


# SECTION /healthz and /readyz: for those who watch the process, without secrets.
#
# They are answered before anything else, so that a probe that calls the process
# by its address, or over plain HTTP behind a TLS proxy, is not turned away.

CONNECT_SECONDS = 3
SILENT = "The database does not answer."


class HealthMiddleware:
    """Answers the two probes and leaves everything else alone."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Answer a probe, or pass on."""
        if request.method in ("GET", "HEAD"):
            if request.path_info == "/healthz":
                return JsonResponse({"status": "ok"})
            if request.path_info == "/readyz":
                return ready()
        return self.get_response(request)


def ready() -> JsonResponse:
    """200 when the database answers and is migrated, else 503 with the reason."""
    if not reachable():
        return _not_ready(SILENT)
    try:
        pending = pending_migrations()
    except (Error, psycopg.Error) as error:
        problem = busy_problem(error)
        return _not_ready(problem.detail if problem else SILENT)
    if pending:
        return _not_ready(
            f"{pending} migrations are not applied: run `manage.py migrate`."
        )
    return JsonResponse({"status": "ready"})


def _not_ready(detail: str) -> JsonResponse:
    return JsonResponse(
        {"detail": detail, "code": "not_ready"},
        status=503,
        headers={"Retry-After": str(BUSY_SECONDS)},
    )


def reachable() -> bool:
    """Whether the database takes a connection now.

    Past the pool, which would go on trying for 20 s.
    """
    parameters = connections["default"].get_connection_params()
    for name in ("pool", "cursor_factory", "context"):
        parameters.pop(name, None)
    parameters["connect_timeout"] = CONNECT_SECONDS
    try:
        with psycopg.connect(**parameters) as fresh:
            fresh.execute("SELECT 1")
    except psycopg.Error:
        return False
    return True


def pending_migrations() -> int:
    """How many migrations the database still lacks."""
    executor = MigrationExecutor(connection)
    return len(executor.migration_plan(executor.loader.graph.leaf_nodes()))
