"""Around the REST API: admission, bodies, repeated writes, and one error shape.

This stands in front of the routes, so that a role is checked before anything
is read and a path that does not exist answers like every other error.
"""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, JsonResponse
from django.http.response import HttpResponseBase

from memory.problems import Problem

from .auth.requests import admit, check_csrf
from .auth.roles import API_ROOT, READS
from .bodies import body_of, parse_body
from .idempotency import answer_once

GetResponse = Callable[[HttpRequest], HttpResponseBase]

SAYINGS = {
    400: ("bad_request", "The request cannot be understood."),
    403: ("forbidden", "This is not allowed."),
    404: ("not_found", f"There is nothing here; {API_ROOT}/openapi.json lists all."),
    405: ("method_not_allowed", "This route does not take this method."),
    500: ("internal", "The server failed; its log says why."),
}


class ApiGateMiddleware:
    """Guards everything below ``/api/v1/``."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Admit, answer, and put every error into one shape."""
        if not request.path_info.startswith(f"{API_ROOT}/"):
            return self.get_response(request)
        try:
            return in_shape(self._answer(request))
        except Problem as problem:
            return respond(problem)

    def _answer(self, request: HttpRequest) -> HttpResponseBase:
        caller = admit(request)
        request.caller = caller  # type: ignore[attr-defined]
        if request.method in READS:
            return self.get_response(request)
        with body_of(request, caller.role) as body:
            if caller.session:
                check_csrf(request)
            request.json = parse_body(body) if body else None  # type: ignore[attr-defined]
            return answer_once(request, caller.by, body, self.get_response)


def respond(problem: Problem) -> JsonResponse:
    """A Problem as an answer."""
    return JsonResponse(
        {"detail": problem.detail, "code": problem.code},
        status=problem.status,
        headers=problem.headers,
    )


def in_shape(response: HttpResponseBase) -> HttpResponseBase:
    """Errors that were not made by the routes, in the shape of those that were."""
    status = response.status_code
    if status < 400 or response.headers.get("Content-Type", "").startswith(
        "application/json"
    ):
        return response
    code, detail = SAYINGS.get(status, SAYINGS[500 if status >= 500 else 400])
    answer = JsonResponse({"detail": detail, "code": code}, status=status)
    for name in ("Allow", "Retry-After"):
        if name in response.headers:
            answer[name] = response.headers[name]
    return answer
