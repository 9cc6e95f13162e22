"""/healthz and /readyz: for those who watch the process, without secrets.

They are answered before anything else, so that a probe that calls the process
by its address, or over plain HTTP behind a TLS proxy, is not turned away.
"""

from __future__ import annotations

from collections.abc import Callable

import psycopg
from django.db import connection, connections
from django.db.migrations.executor import MigrationExecutor
from django.db.utils import Error
from django.http import HttpRequest, JsonResponse
from django.http.response import HttpResponseBase

from memory.problems import BUSY_SECONDS, busy_problem

GetResponse = Callable[[HttpRequest], HttpResponseBase]
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
