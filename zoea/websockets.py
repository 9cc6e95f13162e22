"""Who may open a WebSocket: checks of origin and caller.

A browser sends its page's origin, which must be this site (scheme, host and port) or
one of ``ZOEA_ORIGINS``. A program brings a token and no origin. A session cookie without
an origin is refused.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlsplit

from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer
from django.conf import settings
from django.contrib.auth.models import User
from django.http.request import split_domain_port, validate_host
from starlette.datastructures import Headers

from memory.problems import BUSY_SECONDS, NO_CONNECTION, find_busy
from zoea import rate_limits
from zoea.auth import Caller, find_token_caller, find_user_caller, read_bearer
from zoea.proxies import App, Scope, is_plain_under_tls

CLOSE_POLICY = 1008
CLOSE_TOO_MANY = 4429
CLOSE_TRY_AGAIN = 1013
DEFAULT_PORTS = {"http": 80, "https": 443}


class Refuse(AsyncWebsocketConsumer):  # type: ignore[misc]
    """Denies the handshake (403), or accepts and closes with a code and a reason.

    A client can read a close code, but not why a handshake failed.
    """

    def __init__(self, code: int | None = None, reason: str | None = None) -> None:
        super().__init__()
        self.code = code
        self.reason = reason

    async def connect(self) -> None:
        if self.code is not None:
            await self.accept()
        await self.close(code=self.code, reason=self.reason)


def with_busy_close(app: App) -> App:
    """Tell a client to try again where its handshake found no free connection."""

    async def wrapped(scope: Scope, receive: Any, send: Any) -> None:
        sent = False

        async def send_and_note(message: Any) -> None:
            nonlocal sent
            sent = True
            await send(message)

        try:
            await app(scope, receive, send_and_note)
        except Exception as error:
            if find_busy(error) is None or sent:
                raise
            reason = f"{NO_CONNECTION} Try again in {BUSY_SECONDS} s."
            await Refuse(CLOSE_TRY_AGAIN, reason)(scope, receive, send)

    return wrapped


def with_handshake_checks(app: App) -> App:
    """Refuse a handshake without TLS, where there must be, and from another site."""

    async def wrapped(scope: Scope, receive: Any, send: Any) -> None:
        origin = Headers(scope=scope).get("origin")
        if is_plain_under_tls(scope):
            reason = "Use wss: a token is not for plain HTTP."
            await Refuse(CLOSE_POLICY, reason)(scope, receive, send)
        elif origin is None or is_origin_allowed(origin, scope):
            await app(scope, receive, send)
        else:
            await Refuse()(scope, receive, send)

    return wrapped


def with_caller(app: App) -> App:
    """Put the caller into ``scope["caller"]``, None for nobody known.

    ``scope["still_caller"]`` checks again, for sockets that stay open for days.
    """

    async def wrapped(scope: Scope, receive: Any, send: Any) -> None:
        token = _find_token(scope)
        caller = await _find_caller(token, scope)
        if caller is None and token is not None:
            # Wrong tokens over HTTP count together with these.
            address = (scope.get("client") or ("",))[0]
            if rate_limits.wrong_tokens.take(address):
                reason = "Too many wrong tokens: try again in a minute."
                await Refuse(CLOSE_TOO_MANY, reason)(scope, receive, send)
                return
        cookie_alone = token is None and Headers(scope=scope).get("origin") is None
        if caller is not None and cookie_alone:
            await Refuse()(scope, receive, send)
            return

        async def still_caller() -> bool:
            return await _find_caller(token, scope) is not None

        found = {**scope, "caller": caller, "still_caller": still_caller}
        await app(found, receive, send)

    return wrapped


@database_sync_to_async  # type: ignore[untyped-decorator]
def _find_caller(token: str | None, scope: Scope) -> Caller | None:
    """The present caller of a token, or else of a session."""
    if token is not None:
        return find_token_caller(token)
    user = scope.get("user")
    if user is None or not user.is_authenticated:
        return None
    session = scope.get("session")
    if session is not None and not session.exists(session.session_key):
        return None
    return find_user_caller(User.objects.filter(pk=user.pk).first())


def _find_token(scope: Scope) -> str | None:
    """The token of a handshake, by header or ``?token=``; None without one."""
    given = Headers(scope=scope).get("authorization")
    if given is not None:
        return read_bearer(given)
    query = parse_qs(scope.get("query_string", b"").decode("latin1"))
    return query["token"][-1] if "token" in query else None


def is_origin_allowed(origin: str, scope: Scope) -> bool:
    """Whether an Origin is this site's own, or one that the settings name."""
    allowed = [*settings.ZOEA_ORIGINS]
    host = Headers(scope=scope).get("host", "")
    # A host that is not ours may be an attacker's name for our address.
    if validate_host(split_domain_port(host)[0], settings.ALLOWED_HOSTS):
        allowed.append(f"{'https' if settings.ZOEA_TLS else 'http'}://{host}")
    given = _parse_origin(origin)
    return given is not None and given in map(_parse_origin, allowed)


def _parse_origin(origin: str) -> tuple[str, str, int] | None:
    """Scheme, host and port of an origin; None for anything else."""
    try:
        parts = urlsplit(origin.strip().lower())
        port = parts.port or DEFAULT_PORTS.get(parts.scheme)
    except ValueError:
        return None
    if not parts.hostname or port is None or parts.scheme not in DEFAULT_PORTS:
        return None
    return (parts.scheme, parts.hostname, port)
