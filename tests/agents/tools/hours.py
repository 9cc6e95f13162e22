"""One clock for the game and for the program, which a test moves by hand."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

from sandbox.game.state import Sources
from sandbox.game.testing import SandboxServer

PACE = 10.0
MOMENT = timedelta(milliseconds=20)
_START = datetime(2026, 2, 6, 12, tzinfo=UTC)


class Hours:
    """Time that passes by a moment with each look at it, and by whole ticks."""

    def __init__(self) -> None:
        self._now = _START

    def now(self) -> datetime:
        """The time; a little later whenever it is asked."""
        self._now += MOMENT / 20
        return self._now

    def sources(self) -> Sources:
        """The same clock for a game."""
        return Sources(now_ns=lambda: int(self.now().timestamp() * 1_000_000_000))

    def pass_tick(self, sandbox: SandboxServer) -> None:
        """Move on to where the next tick is due, and let it come."""
        ticks = math.floor((self._now - _START).total_seconds() / PACE) + 1
        self._now = _START + timedelta(seconds=ticks * PACE)
        sandbox.step()
