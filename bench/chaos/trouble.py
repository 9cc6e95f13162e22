"""What befalls the fleet while it plays, from a seed."""

from __future__ import annotations

import random
import signal
from collections import Counter
from dataclasses import dataclass, field

from bench.chaos.ground import Ground

GAME = (
    "502=0.01,429=0.01,lost-answer=0.01,lost-transport=0.005,lost-session=0.005,"
    "rate-limit=0.005,null-lists=0.02,sse=0.02"
)
"""What goes wrong in the game all the time."""


CRASHES = {"postgres": signal.SIGQUIT, "postmaster": signal.SIGKILL}
"""How the database server ends: with all its backends, or it alone."""


@dataclass
class Trouble:
    """Kills and crashes, each after its own number of seconds.

    A killed worker's turns are taken up when its heartbeat is missed, so kills must
    leave time for the others to play.
    """

    ground: Ground
    chance: random.Random
    every: dict[str, float]
    done: Counter[str] = field(default_factory=Counter)
    _last: dict[str, float] = field(default_factory=dict)

    def strike(self, now: float) -> None:
        """Do what is due; ``now`` is in seconds since the beginning."""
        for what, seconds in self.every.items():
            if now - self._last.setdefault(what, 0.0) >= seconds:
                self._last[what] = now
                self.done[what] += 1
                self._do(what)

    def _do(self, what: str) -> None:
        if what in CRASHES:
            self.ground.crash_postgres(CRASHES[what])
            return
        names = [name for name in self.ground.children if name.startswith(what)]
        self.ground.kill(self.chance.choice(names))
