"""Rate limiter for opening game sessions, shared by all processes through one row.

The game lets an address open some 30 sessions in a minute, logins counted, and shuts
out one that goes on trying (API.md 1.5). It is a token bucket in one row for each game
host; nobody holds it while waiting, so who is stopped leaves no gap.
"""

from __future__ import annotations

import asyncio

import httpx2
from django.conf import settings

from agents import db
from agents.game.client import GameUnreachableError

# So many may follow each other at once after a quiet time.
BURST = 4

# Seconds that a turn waits for the game to take calls again.
LONGEST_WAIT = 60.0

SOON = 0.05

# Atomic, by the clock of the database that all processes share. All that is kept of the
# bucket is the moment at which it would be full again.
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


class RateLimiter:
    """The limit of one game, as one event loop sees it."""

    def __init__(self, url: str) -> None:
        try:
            self._host = httpx2.URL(url).host[:253]
        except (httpx2.InvalidURL, TypeError):
            self._host = ""
        self._line = asyncio.Lock()
        self._shut_until = 0.0

    async def ask(self) -> float:
        """Pass, if that may be now: 0, else the seconds until it may."""
        wait = self.wait_now()
        if wait > 0 or settings.ZOEA_GAME_OPENINGS <= 0:
            return wait
        return await db.run_in_db(take_token, self._host)

    async def enter(self) -> None:
        """Pass, after a wait if need be; in line with the others of this loop.

        Raises GameUnreachableError where the game has shut us out for long.
        """
        async with self._line:
            while (wait := await self.ask()) > 0:
                if wait > LONGEST_WAIT:
                    raise make_shut_out_error(wait)
                await asyncio.sleep(wait)

    async def shut(self, seconds: float) -> None:
        """Let nobody pass for some time, in any process: the game asked for it."""
        self._shut_until = max(self._shut_until, _now() + seconds)
        if settings.ZOEA_GAME_OPENINGS > 0:
            await db.run_in_db(block_host, self._host, seconds)

    def wait_now(self) -> float:
        """The seconds for which the game shut this process out."""
        return max(self._shut_until - _now(), 0.0)


def take_token(host: str) -> float:
    """Take one token: 0, or the seconds until there may be one."""
    each, slack = _spacing()
    given = {"host": host, "each": each, "slack": slack}
    if db.fetch_row(TAKE, given):
        return 0.0
    row = db.fetch_row(WAIT, given)
    return max(float(row[0]) if row else 0.0, SOON)


def block_host(host: str, seconds: float) -> None:
    """Give no token for some seconds."""
    _, slack = _spacing()
    db.fetch_row(SHUT, {"host": host, "shut": seconds + slack})


def make_shut_out_error(seconds: float) -> GameUnreachableError:
    """The error of a turn that cannot wait so long."""
    return GameUnreachableError(
        "The game server takes no more sessions from this address for "
        f"{seconds:.0f} s: run fewer Myses here, or lower ZOEA_GAME_OPENINGS.",
        retry_after=seconds,
    )


def _spacing() -> tuple[float, float]:
    """Seconds for each, and how far ahead of that pace one may be."""
    each = 60.0 / settings.ZOEA_GAME_OPENINGS
    return each, (BURST - 1) * each


def _now() -> float:
    return asyncio.get_running_loop().time()
