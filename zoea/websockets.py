"""Who may open a WebSocket, and keep it open: checks of TLS, origin and caller.

A browser sends its page's origin, which must be this site (scheme, host and port) or
one of ``ZOEA_ORIGINS``. A program brings a token and no origin. A session cookie without
an origin is refused.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import parse_qs, urlsplit

from channels.generic.websocket import AsyncWebsocketConsumer
from django.conf import settings
from django.contrib.auth import HASH_SESSION_KEY, SESSION_KEY
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.db.utils import Error
from django.http.request import split_domain_port, validate_host
from django.utils import timezone
from django.utils.crypto import constant_time_compare
from starlette.datastructures import Headers

from agents.db import run_for_socket, run_in_db
from memory.audit import record_failed_sign_in
from memory.problems import BUSY_SECONDS, NO_CONNECTION, find_busy
from memory.redaction import sealed
from zoea import rate_limits
from zoea.auth import (
    UNKNOWN,
    Caller,
    find_scope_address,
    find_token_caller,
    find_user_caller,
    hash_secret,
    make_token_caller,
    read_bearer,
)
from zoea.models import ApiToken
from zoea.proxies import App, Scope, is_plain_under_tls

CLOSE_POLICY = 1008
# Seconds between two checks of all callers.
RECHECK = 10.0
CLOSE_ENDED = {
    "type": "websocket.close",
    "code": 4401,
    "reason": "The token or session ended.",
}
CLOSE_CHANGED = {
    "type": "websocket.close",
    "code": 4409,
    "reason": "The role changed: come back.",
}
CLOSE_TOO_MANY = 4429
CLOSE_TRY_AGAIN = 1013
DEFAULT_PORTS = {"http": 80, "https": 443}

logger = logging.getLogger(__name__)


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

    A socket may stay open for days: it is closed once its caller is no longer the same.
    """

    async def wrapped(scope: Scope, receive: Any, send: Any) -> None:
        key, caller = await run_for_socket(_find_caller, scope)
        if caller is None and key.of_token:
            # Wrong tokens over HTTP count together with these.
            address = find_scope_address(scope)
            if rate_limits.wrong_tokens.take(rate_limits.find_network(address)):
                reason = "Too many wrong tokens: try again in a minute."
                await Refuse(CLOSE_TOO_MANY, reason)(scope, receive, send)
                return
            await run_for_socket(record_failed_sign_in, UNKNOWN, address, "token")
        cookie_alone = not key.of_token and Headers(scope=scope).get("origin") is None
        if caller is not None and cookie_alone:
            await Refuse()(scope, receive, send)
            return
        found = {**scope, "caller": caller}
        if caller is None:
            await app(found, receive, send)
            return
        opened = OpenSocket(key, caller, send)
        try:
            await app(found, receive, partial(watch.send, opened))
        finally:
            watch.forget(opened)

    return wrapped


@dataclass(frozen=True, slots=True)
class CallerKey:
    """What a socket was opened with: the hash of a token, or the key of a session."""

    of_token: bool
    text: str


@dataclass(frozen=True, slots=True, eq=False)
class OpenSocket:
    """An open socket, and who opened it, with the role of that moment."""

    key: CallerKey
    caller: Caller
    send: Any


class CallerWatch:
    """Closes sockets whose callers ended or changed.

    All those of a process are checked together, every ``RECHECK`` seconds, with three
    statements however many there are.
    """

    def __init__(self) -> None:
        self._open: set[OpenSocket] = set()
        self._task: asyncio.Task[None] | None = None

    async def send(self, opened: OpenSocket, message: Any) -> None:
        """Send a message of the application; watch the caller from the handshake on."""
        await opened.send(message)
        if message["type"] != "websocket.accept":
            return
        self._open.add(opened)
        loop, task = asyncio.get_running_loop(), self._task
        if task is None or task.done() or task.get_loop() is not loop:
            self._task = loop.create_task(self._run(), name="caller-watch")

    def forget(self, opened: OpenSocket) -> None:
        """Leave out a socket that is closed."""
        self._open.discard(opened)

    async def _run(self) -> None:
        """Check until no socket is open."""
        while self._open:
            await asyncio.sleep(RECHECK)
            try:
                await self._close_changed()
            except Error as error:
                logger.warning("The callers of sockets cannot be checked: %s", error)
            except Exception:
                logger.exception("The check of sockets' callers failed.")

    async def _close_changed(self) -> None:
        checked = tuple(self._open)
        keys = {each.key for each in checked}
        # Not in the threads of sockets: no page that is slow to draw holds it up.
        callers = await run_in_db(find_callers, keys)
        changed = [each for each in checked if callers.get(each.key) != each.caller]
        for each in changed:
            self.forget(each)
        await asyncio.gather(
            *(
                each.send(dict(CLOSE_CHANGED if each.key in callers else CLOSE_ENDED))
                for each in changed
            ),
            return_exceptions=True,
        )


def _find_caller(scope: Scope) -> tuple[CallerKey, Caller | None]:
    """The caller of a handshake; a token counts alone, also beside a session."""
    # What a socket is told first is masked by what is sealed now.
    sealed.expire()
    sealed.read()
    token = _find_token(scope)
    if token is not None:
        return CallerKey(True, hash_secret(token)), find_token_caller(token)
    session = scope.get("session")
    key = CallerKey(False, (session and session.session_key) or "")
    return key, find_callers({key}).get(key)


def find_callers(keys: Collection[CallerKey]) -> dict[CallerKey, Caller]:
    """The present callers of tokens and sessions; without those that have none."""
    tokens = [key.text for key in keys if key.of_token]
    sessions = [key.text for key in keys if not key.of_token]
    return {
        **{CallerKey(True, one): who for one, who in _find_of_tokens(tokens)},
        **{CallerKey(False, one): who for one, who in _find_of_sessions(sessions)},
    }


watch = CallerWatch()


def _find_of_tokens(digests: Collection[str]) -> Iterator[tuple[str, Caller]]:
    for token in ApiToken.select_usable().filter(digest__in=digests):
        yield token.digest, make_token_caller(token.name, token.role)


def _find_of_sessions(keys: Collection[str]) -> Iterator[tuple[str, Caller]]:
    rows = Session.objects.filter(session_key__in=keys, expire_date__gt=timezone.now())
    stored = {row.session_key: row.get_decoded() for row in rows}
    users = User.objects.in_bulk(
        {int(one[SESSION_KEY]) for one in stored.values() if SESSION_KEY in one}
    )
    for key, session in stored.items():
        user = users.get(int(session.get(SESSION_KEY, 0)))
        if user is not None and _has_hash_of(user, session):
            caller = find_user_caller(user)
            if caller is not None:
                yield key, caller


def _has_hash_of(user: User, session: Mapping[str, Any]) -> bool:
    """Whether a session was begun under the user's present password."""
    given = session.get(HASH_SESSION_KEY, "")
    hashes = (user.get_session_auth_hash(), *user.get_session_auth_fallback_hash())
    return any(constant_time_compare(given, each) for each in hashes)


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
