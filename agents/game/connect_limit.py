"""How often the game is knocked at: one gate for all processes on a database.

The game lets an address open some 30 sessions in a minute, logins counted, and shuts
out one that goes on knocking (API.md 1.5). The gate is a token bucket in one row for
each game host; nobody holds it while waiting, so who is stopped leaves no gap.
"""

from __future__ import annotations

import asyncio

import httpx2
from channels.db import database_sync_to_async
from django.conf import settings
from django.db import connection

from agents.game.client import GameUnreachableError

BURST = 4
"""So many may follow each other at once after a quiet time."""

LONGEST_WAIT = 60.0
"""Seconds that a turn waits for the game to take calls again."""

# The moment at which the bucket would be full again is all that is kept of it.
TAKE = """
INSERT INTO agents_gamegate AS gate (host, full_at)
VALUES (%(host)s, clock_timestamp() + %(each)s * interval '1 second')
ON CONFLICT (host) DO UPDATE
SET full_at = greatest(gate.full_at, clock_timestamp()) + %(each)s * interval '1 second'
WHERE gate.full_at <= clock_timestamp() + %(slack)s * interval '1 second'
RETURNING host
"""
WAIT = """
SELECT extract(epoch FROM full_at - clock_timestamp()) - %(slack)s
FROM agents_gamegate WHERE host = %(host)s
"""
SHUT = """
INSERT INTO agents_gamegate AS gate (host, full_at)
VALUES (%(host)s, clock_timestamp() + %(shut)s * interval '1 second')
ON CONFLICT (host) DO UPDATE SET full_at = greatest(gate.full_at, excluded.full_at)
"""
SOON = 0.05


class RateLimiter:
    """The gate of one game, as one event loop sees it."""

    def __init__(self, url: str) -> None:
        self._host = host_of(url)
        self._line = asyncio.Lock()
        self._shut_until = 0.0

    async def ask(self) -> float:
        """Pass, if that may be now: 0, else the seconds until it may."""
        wait = self.wait_now()
        if wait > 0 or settings.ZOEA_GAME_OPENINGS <= 0:
            return wait
        asked: float = await database_sync_to_async(take)(self._host)
        return asked

    async def enter(self) -> None:
        """Pass, after a wait if need be; in line with the others of this loop.

        Raises GameUnreachableError where the game has shut us out for long.
        """
        async with self._line:
            while (wait := await self.ask()) > 0:
                if wait > LONGEST_WAIT:
                    raise shut_out(wait)
                await asyncio.sleep(wait)

    async def shut(self, seconds: float) -> None:
        """Let nobody pass for some time, in any process: the game asked for it."""
        self._shut_until = max(self._shut_until, _now() + seconds)
        if settings.ZOEA_GAME_OPENINGS > 0:
            await database_sync_to_async(shut)(self._host, seconds)

    def wait_now(self) -> float:
        """The seconds for which the game shut this process out."""
        return max(self._shut_until - _now(), 0.0)


def take(host: str) -> float:
    """Take one token: 0, or the seconds until there may be one."""
    each, slack = _spacing()
    given: dict[str, str | float] = {"host": host, "each": each, "slack": slack}
    with connection.cursor() as cursor:
        cursor.execute(TAKE, given)
        if cursor.fetchone():
            return 0.0
        cursor.execute(WAIT, given)
        row = cursor.fetchone()
    return max(float(row[0]) if row else 0.0, SOON)


def shut(host: str, seconds: float) -> None:
    """No token for some seconds."""
    _, slack = _spacing()
    with connection.cursor() as cursor:
        cursor.execute(SHUT, {"host": host, "shut": seconds + slack})


def shut_out(seconds: float) -> GameUnreachableError:
    """What a turn ends with that cannot wait so long."""
    return GameUnreachableError(
        "The game server takes no more sessions from this address for "
        f"{seconds:.0f} s: run fewer Myses here, or lower ZOEA_GAME_OPENINGS.",
        retry_after=seconds,
    )


def host_of(url: str) -> str:
    """The host of a game; "" of what is no address."""
    try:
        return httpx2.URL(url).host[:253]
    except (httpx2.InvalidURL, TypeError):
        return ""


def _spacing() -> tuple[float, float]:
    """Seconds for each, and how far ahead of that pace one may be."""
    each = 60.0 / settings.ZOEA_GAME_OPENINGS
    return each, (BURST - 1) * each


def _now() -> float:
    return asyncio.get_running_loop().time()
