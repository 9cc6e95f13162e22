"""The door of `/mcp`: where a request comes from, who makes it, what they may do.

A program brings a bearer token, the same as for REST; a browser session does not
count, so no page can make somebody's browser call tools. A page of another site is
refused by its Origin, and an attacker's name for our address by its Host (DNS
rebinding), before the token is looked at.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from asgiref.sync import ThreadSensitiveContext
from channels.db import database_sync_to_async
from django.conf import settings
from django.http.request import split_domain_port, validate_host

from agents.mcp.guest import Guest
from agents.mcp.server import answer
from memory.problems import Problem, busy_problem

from . import limits
from .auth.callers import Caller, bearer_of, caller_of_token
from .auth.requests import WRONG, stranger, unauthenticated
from .auth.roles import Role
from .mcp_refusals import InShape, respond
from .sockets import header, origin_allowed

App = Callable[[Any, Any, Any], Awaitable[None]]
Scope = dict[str, Any]

PATHS = frozenset({"/mcp", "/mcp/"})
NOBODY = (
    "Send 'Authorization: Bearer <token>' with a token of `manage.py create_token`."
)


def with_mcp(pages: App) -> App:
    """Answer `/mcp` here and hand everything else on."""

    async def application(scope: Scope, receive: Any, send: Any) -> None:
        if scope["path"] not in PATHS:
            await pages(scope, receive, send)
            return
        async with ThreadSensitiveContext():
            try:
                guest = await admit(scope)
            except Exception as error:
                problem = error if isinstance(error, Problem) else busy_problem(error)
                if problem is None:
                    raise
                await respond(problem, send)
                return
            await answer(scope, receive, InShape(send), guest)

    return application


async def admit(scope: Scope) -> Guest:
    """Who asks; raises the Problem that says why nobody is let in."""
    check_place(scope)
    if scope["method"] != "POST":
        raise Problem(
            405,
            "method_not_allowed",
            "MCP is spoken here by POST alone: there are no sessions to listen to.",
            headers={"Allow": "POST"},
        )
    given = header(scope, b"authorization")
    if not given:
        raise unauthenticated(NOBODY)
    caller = await _caller(bearer_of(given))
    if caller is None:
        address = (scope.get("client") or ("",))[0]
        raise stranger(address, WRONG)
    return Guest(
        by=caller.by,
        role=caller.role.label,
        may_send=caller.role >= Role.OPERATOR,
        throttle=lambda: limits.writes.take(caller.by),
    )


def check_place(scope: Scope) -> None:
    """Refuse a Host that is not ours and an Origin of another site."""
    host = header(scope, b"host") or ""
    if not validate_host(split_domain_port(host)[0], settings.ALLOWED_HOSTS):
        raise Problem(
            421, "wrong_host", "This host is not served: see ZOEA_ALLOWED_HOSTS."
        )
    origin = header(scope, b"origin")
    if origin is not None and not origin_allowed(origin, scope):
        raise Problem(
            403, "wrong_origin", "This origin is not allowed: see ZOEA_ORIGINS."
        )


@database_sync_to_async  # type: ignore[untyped-decorator]
def _caller(secret: str) -> Caller | None:
    return caller_of_token(secret) if secret else None
