"""Proxies in front of the server: who the visitor is behind them, and whether by TLS.

Everything that asks for an address (limits, logs, pages, REST, MCP, sockets) finds the
visitor's in the scope's ``client``, which is Django's ``REMOTE_ADDR``.
"""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import cache
from typing import Any

from django.conf import settings
from starlette.datastructures import Headers

App = Callable[[Any, Any, Any], Awaitable[None]]
Scope = dict[str, Any]

# What proxies add: behind one, a loopback address says nothing about the visitor.
_ADDED = frozenset(
    {
        *("forwarded", "via", "x-real-ip", "x-client-ip"),
        *("cf-connecting-ip", "true-client-ip"),
    }
)
_ADDED_PREFIX = "x-forwarded-"
HSTS = b"strict-transport-security"

logger = logging.getLogger(__name__)


def with_visitor(app: App) -> App:
    """Put the visitor's address into ``scope["client"]``; give every answer its headers."""

    async def wrapped(scope: Scope, receive: Any, send: Any) -> None:
        if scope["type"] not in ("http", "websocket"):
            await app(scope, receive, send)
            return
        missing = dict(list_headers())
        if not (settings.ZOEA_TLS and came_by_tls(scope)):
            del missing[HSTS]

        async def send_with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                given = [*message.get("headers", ())]
                names = {name.lower() for name, _ in given}
                added = [each for each in missing.items() if each[0] not in names]
                message = {**message, "headers": [*given, *added]}
            await send(message)

        # Daphne takes the root path from a header of whoever sends one.
        scope = {**scope, "client": find_visitor(scope), "root_path": ""}
        await app(scope, receive, send_with_headers)

    return wrapped


def list_headers() -> Sequence[tuple[bytes, bytes]]:
    """What each answer has that says nothing else; HSTS of those by TLS alone."""
    told = {
        "Content-Security-Policy": "; ".join(
            f"{name} {value}" for name, value in settings.SECURE_CSP.items()
        ),
        "X-Frame-Options": settings.X_FRAME_OPTIONS,
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": settings.SECURE_REFERRER_POLICY,
        "Cross-Origin-Opener-Policy": settings.SECURE_CROSS_ORIGIN_OPENER_POLICY,
        "Cache-Control": "private, no-store",
        "Strict-Transport-Security": f"max-age={settings.SECURE_HSTS_SECONDS}",
    }
    return [(name.lower().encode(), value.encode()) for name, value in told.items()]


def find_visitor(scope: Scope) -> tuple[str, int] | None:
    """The visitor's address and port (0 where a proxy names the address).

    The trusted proxies have written the last ZOEA_PROXIES entries of X-Forwarded-For;
    what stands before them is the visitor's own claim.
    """
    peer: tuple[str, int] | None = scope.get("client")
    given = ",".join(Headers(scope=scope).getlist("x-forwarded-for"))
    if not given:
        return peer
    named = given.split(",")
    if not settings.ZOEA_PROXIES:
        _warn_once(
            "A request came through a proxy, but ZOEA_PROXIES is 0: all its visitors "
            "count as one. Set ZOEA_PROXIES to the number of proxies in front."
        )
        return peer
    if len(named) >= settings.ZOEA_PROXIES:
        address = _parse_address(named[-settings.ZOEA_PROXIES])
        if address:
            return address, 0
    _warn_once(
        f"X-Forwarded-For names no address at place {settings.ZOEA_PROXIES} from the "
        "right: the proxy's own counts. Set ZOEA_PROXIES to the number of proxies in "
        "front, and let each add the address that it sees."
    )
    return peer


def came_by_tls(scope: Scope) -> bool:
    """Whether the visitor's proxy says that it was reached by TLS."""
    said = Headers(scope=scope).get("x-forwarded-proto", "")
    return said.partition(",")[0].strip().lower() == "https"


def is_plain_under_tls(scope: Scope) -> bool:
    """Whether a request came without TLS though ZOEA_TLS asks for it."""
    return bool(settings.ZOEA_TLS) and not came_by_tls(scope)


def refuses_links() -> bool:
    """Whether the settings tell of a proxy; then a loopback address is not this machine's.

    A link that signs in works on this machine only, so with one none does.
    """
    return bool(settings.ZOEA_TLS or settings.ZOEA_PROXIES or settings.ZOEA_ORIGINS)


def is_added_by_proxy(names: Iterable[str]) -> bool:
    """Whether one of these header names is one that proxies add."""
    lowered = (name.lower() for name in names)
    return any(name in _ADDED or name.startswith(_ADDED_PREFIX) for name in lowered)


def _parse_address(text: str) -> str:
    """An IP address without port and brackets; "" for what is none."""
    text = text.strip().strip('"')
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return ""
    # Without its zone, which may be any text.
    return str(getattr(found, "ipv4_mapped", None) or found).partition("%")[0]


@cache
def _warn_once(text: str) -> None:
    logger.warning(text)
