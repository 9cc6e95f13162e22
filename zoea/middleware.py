"""The middleware: probes, traces, methods, sign-in, actors, limits.

The probes /healthz and /readyz are answered before anything else, so that a probe that
calls the process by its IP address, or over plain HTTP behind a TLS proxy, is answered.
"""

from __future__ import annotations

import math
import re
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import MAXYEAR, MINYEAR, date
from typing import Any

import psycopg
from django.conf import settings
from django.contrib.auth.middleware import LoginRequiredMiddleware
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import MiddlewareNotUsed
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.utils import Error
from django.http import (
    HttpRequest,
    HttpResponse,
    HttpResponseNotAllowed,
    JsonResponse,
    QueryDict,
)
from django.http.response import HttpResponseBase
from django.middleware.gzip import GZipMiddleware
from django.shortcuts import render, resolve_url
from django.utils.cache import patch_vary_headers
from django_htmx.http import HttpResponseClientRedirect
from opentelemetry.trace import SpanKind

from agents.telemetry import mark_failed, open_span, telemetry
from memory.audit import Actor, acting_as
from memory.problems import BUSY_SECONDS, find_busy
from memory.redaction import (
    hide_secrets,
    hide_secrets_in_page,
    hide_secrets_offline,
)
from zoea import rate_limits
from zoea.auth import API_ROOT, READS, find_address, find_user_caller
from zoea.commandline import connect_directly
from zoea.releases import find_refusal

# Without the last year: a lookup by year ends at the first day of the next one.
YEARS = range(MINYEAR, MAXYEAR)
LEAP_YEAR = 2000
DATE_PARTS = ("year", "month", "day")

# What can only be read: probes, files, and sockets that are asked for as pages.
PROBES = ("/healthz", "/readyz")
READABLE = ("/static/", "/ws/")
# Columns with something sealed, and hashes of tokens, links and passwords.
_SECRET = re.compile(r"sealed_\w+|(?:\w+_)?digest|password|session_(?:key|data)")

# Any other word of a client is no name of a span.
HTTP_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")

GetResponse = Callable[[HttpRequest], HttpResponseBase]

CONNECT_SECONDS = 3
# Seconds for which the answer of /readyz is that of the next ones too.
SHARED = 1.0


class Middleware:
    """Keeps what comes next, as every middleware of Django does."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response


class HealthMiddleware(Middleware):
    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if request.method in ("GET", "HEAD"):
            if request.path_info == "/healthz":
                return JsonResponse({"status": "ok"})
            if request.path_info == "/readyz":
                return readiness.read()
        return self.get_response(request)


class TracingMiddleware(Middleware):
    """A span for each request: method, route and status, never the address itself.

    That may hold a link that signs in, or what somebody searches for.
    """

    def __init__(self, get_response: GetResponse) -> None:
        if not telemetry.is_on:
            raise MiddlewareNotUsed
        super().__init__(get_response)

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        method = request.method if request.method in HTTP_METHODS else "_OTHER"
        named = {"http.request.method": method}
        with open_span(method, named, SpanKind.SERVER) as span:
            response = self.get_response(request)
            if request.resolver_match is not None:
                route = f"/{request.resolver_match.route}"
                span.update_name(f"{method} {route}")
                span.set_attribute("http.route", route)
            span.set_attribute("http.response.status_code", response.status_code)
            if response.status_code >= 500:
                mark_failed(span, response.status_code)
            return response


class MethodMiddleware(Middleware):
    """Answers 405 to methods that no page takes, such as TRACE, whoever asks.

    A page that takes fewer says so itself; so do the REST API and the metrics.
    """

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        path = request.path_info
        if path.startswith((f"{API_ROOT}/", "/metrics")):
            return self.get_response(request)
        readable = path in PROBES or path.startswith(READABLE)
        taken = ("GET", "HEAD") if readable else ("GET", "HEAD", "POST")
        if request.method in taken:
            return self.get_response(request)
        if request.method == "OPTIONS":
            return HttpResponse(status=204, headers={"Allow": ", ".join(taken)})
        said = f"This address takes {', '.join(taken)} alone."
        return HttpResponseNotAllowed(taken, said, content_type="text/plain")


class Readiness:
    """One check at a time, whose answer is shared: each opens a connection of its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._answer: JsonResponse | None = None
        self._valid_until = 0.0

    def read(self) -> HttpResponse:
        """The answer to a probe, at most SHARED seconds old."""
        with self._lock:
            if self._answer is None or time.monotonic() >= self._valid_until:
                self._answer = _check_ready()
                self._valid_until = time.monotonic() + SHARED
            found = self._answer
        return HttpResponse(
            found.content, status=found.status_code, headers=dict(found.headers)
        )

    def forget(self) -> None:
        """Check anew when asked next."""
        self._answer = None


readiness = Readiness()


def _check_ready() -> JsonResponse:
    """200 when the database answers and is migrated, else 503 with the reason."""
    try:
        # Past the pool, which would try for 20 s.
        with connect_directly(CONNECT_SECONDS) as fresh:
            fresh.execute("SELECT 1")
        refusal = find_refusal()
        pending = 0 if refusal else count_pending_migrations()
    except (Error, psycopg.Error) as error:
        problem = find_busy(error)
        return _not_ready(
            problem.detail if problem else "The database does not answer."
        )
    if refusal:
        return _not_ready(refusal)
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


class PartOrPageMiddleware(Middleware):
    """Tells caches that a page's answer depends on whether htmx asks: a part or a whole.

    On every page, since sign-in and notices answer in two ways as well.
    """

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        if response.headers.get("Content-Type", "").startswith("text/html"):
            patch_vary_headers(response, ["HX-Request"])
        return response


class CompressionMiddleware(GZipMiddleware):
    """Compresses all answers but streams.

    Django makes a gzip file of its own of each piece, and browsers read the first alone.
    """

    def process_response(
        self, request: HttpRequest, response: HttpResponseBase
    ) -> HttpResponseBase:
        if getattr(response, "is_async", False):
            return response
        return super().process_response(request, response)


class PrivateAnswersMiddleware(Middleware):
    """Keeps pages and REST answers out of every cache; static files come before this.

    A view that lets its answer be asked about again (an ETag) says so itself.
    """

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        response.headers.setdefault("Cache-Control", "private, no-store")
        return response


class SignInRequiredMiddleware(LoginRequiredMiddleware):
    """Nobody who is not signed in sees a page, but for views marked as open."""

    def handle_no_permission(self, request: HttpRequest, view_func: Any) -> Any:
        """Send strangers to the sign-in page; tell htmx to go there whole."""
        if request.htmx:  # type: ignore[attr-defined]
            return HttpResponseClientRedirect(
                resolve_url(settings.LOGIN_URL), status=204
            )
        # The admin's views name a sign-in page of their own, which is none here.
        return redirect_to_login(request.get_full_path())


class ActorMiddleware(Middleware):
    """Lets the audit log know who acts in a page, and from where; the API has its gate."""

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if request.path_info.startswith(f"{API_ROOT}/"):
            return self.get_response(request)
        caller, address = find_user_caller(request.user), find_address(request)
        actor = caller.as_actor(address) if caller else Actor(address=address)
        with acting_as(actor):
            return self.get_response(request)


class AdminAddressMiddleware(Middleware):
    """Answers 404 to an admin address with a NUL, an impossible date, or for a secret.

    Django's list filters would pass it on to the database: the first two would end in a
    500, and who filters by what a sealed text begins with could read it letter by letter.
    """

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if not request.path_info.startswith("/admin/"):
            return self.get_response(request)
        nul = "\x00" in request.path_info or "%00" in request.META["QUERY_STRING"]
        if nul or _asks_for_secret(request.GET) or not _has_real_dates(request.GET):
            return render(request, "404.html", status=404)
        return self.get_response(request)


def _asks_for_secret(query: QueryDict) -> bool:
    """Whether a list would be filtered by a secret column, also of a related table."""
    return any(_SECRET.fullmatch(part) for name in query for part in name.split("__"))


def _has_real_dates(query: QueryDict) -> bool:
    """Whether all years and dates in an admin list's query exist in the calendar.

    What is no number is left to the list, which answers it by itself.
    """
    parts: dict[str, dict[str, int]] = defaultdict(dict)
    for name, texts in query.lists():
        field, *lookup = name.split("__")
        numbers = list(_parse_numbers(texts))
        if {"year", "iso_year"} & set(lookup) and not all(
            one in YEARS for one in numbers
        ):
            return False
        if numbers and lookup[-1:] and lookup[-1] in DATE_PARTS:
            parts["__".join([field, *lookup[:-1]])][lookup[-1]] = numbers[-1]
    return all(map(_is_date, parts.values()))


def _is_date(parts: dict[str, int]) -> bool:
    try:
        date(parts.get("year", LEAP_YEAR), parts.get("month", 1), parts.get("day", 1))
    except (ValueError, OverflowError):
        return False
    return True


def _parse_numbers(texts: Iterable[str]) -> Iterable[int]:
    for one in ",".join(texts).split(","):
        with suppress(ValueError):
            yield int(one)


class WriteLimitMiddleware(Middleware):
    """Limits the writes of a browser session.

    Those of programs are counted by the API and MCP; a person's writes by page and API
    share one limit.
    """

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if request.method in READS or request.path_info.startswith(f"{API_ROOT}/"):
            return self.get_response(request)
        caller = find_user_caller(request.user)
        wait = rate_limits.writes.take(caller.by) if caller is not None else 0.0
        return _refuse_write(request, wait) if wait else self.get_response(request)


def _refuse_write(request: HttpRequest, wait: float) -> HttpResponse:
    """The 429 of a page: a notice for htmx, else a page of its own."""
    seconds = max(1, math.ceil(wait))
    if request.htmx:  # type: ignore[attr-defined]
        words = f"Too many changes at once: not done. Try again in {seconds} s."
        context = {"words": words, "level": "error"}
        answer = render(request, "agents/shared/notice.html", context, status=429)
        # Wherever the form would have put the answer.
        answer["HX-Retarget"], answer["HX-Reswap"] = "#notices", "innerHTML"
    else:
        answer = render(request, "429.html", {"seconds": seconds}, status=429)
    answer["Retry-After"] = str(seconds)
    return answer


def count_pending_migrations() -> int:
    executor = MigrationExecutor(connection)
    return len(executor.migration_plan(executor.loader.graph.leaf_nodes()))


class MaskingMiddleware(Middleware):
    """Hides secrets in whatever a page shows, however they came there (A11).

    The REST API hides them itself, in texts alone: a name may be any word there.
    """

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        if (
            not isinstance(response, HttpResponse)
            or request.path_info.startswith(f"{API_ROOT}/")
            # Strangers are shown nothing that is stored.
            or not request.user.is_authenticated
            # A page that shows a secret which was made just now, and never again.
            or hasattr(request, "made_secret")
        ):
            return response
        kind = response.headers.get("Content-Type", "")
        hide: Callable[[str], str] = hide_secrets
        if response.status_code >= 500:
            # What failed may be the database.
            hide = hide_secrets_offline
        elif kind.startswith("text/html"):
            hide = hide_secrets_in_page
        # What this page exists to show.
        told: str = getattr(request, "told_html", "")
        if kind.startswith(("text/", "application/json")):
            text = response.content.decode(response.charset, "surrogateescape")
            pieces = text.split(told) if told else [text]
            if (masked := told.join(map(hide, pieces))) != text:
                response.content = masked.encode(response.charset, "surrogateescape")
        return response
