"""How far the game's clock is from ours, as far as its answers have told.

An answer is stamped between the moments at which it was asked for and received. Each
such stamp bounds the difference of the two clocks; what all of them allow gets ever
narrower. Within the bound nothing is assumed: a moment is known give or take its half.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from memory.gamestate.clock import elapsed_seconds

DRIFT = 0.0005
"""Seconds by which two clocks may part in a second; also while one is being set."""

WHOLE_SECOND = 1.0

FARTHEST = 86_400.0
"""Seconds that a stamp may be from now. Farther ones are not set, or not meant."""


@dataclass(frozen=True, slots=True)
class Offset:
    """Our clock minus the game's is between ``low`` and ``high`` seconds.

    ``at`` is when that was seen, by our clock; None where it holds for ever.
    """

    low: float
    high: float
    at: datetime | None = None

    @property
    def slack(self) -> float:
        """How many seconds a moment may be off, to either side."""
        return (self.high - self.low) / 2

    def ours(self, moment: datetime) -> datetime:
        """A moment of the game's clock by ours, give or take ``slack``."""
        return moment + timedelta(seconds=(self.low + self.high) / 2)

    def is_possible(self) -> bool:
        """Whether two clocks can be so far apart that both are somewhere near now."""
        return max(abs(self.low), abs(self.high)) <= 2 * FARTHEST

    def holds(self, seconds: float) -> bool:
        """Whether the difference may be so many seconds."""
        return self.low <= seconds <= self.high

    def known_at(self, now: datetime) -> Offset:
        """The bound that is left of it by now: clocks part slowly."""
        if self.at is None:
            return self
        parted = DRIFT * abs(elapsed_seconds(self.at, now))
        return Offset(self.low - parted, self.high + parted, now)

    def and_seen(self, seen: Offset | None) -> Offset:
        """The bound after one more answer.

        Where the two exclude each other a clock was set: only the newer one counts.
        """
        if seen is None:
            return self
        low, high = max(self.low, seen.low), min(self.high, seen.high)
        return seen if low > high else replace(seen, low=low, high=high)

    def not_after(self, moment: datetime, received: datetime) -> Offset:
        """The bound that is left by an event: it happened before it was received."""
        high = elapsed_seconds(moment, received)
        return replace(self, high=high) if self.low <= high < self.high else self


SAME = Offset(0.0, 0.0)
"""The game runs on this machine: there is one clock."""


def near(stamp: datetime | None, now: datetime) -> datetime | None:
    """A stamp in UTC; None for one that nobody can have meant.

    Such are the zero time of a server that set none, and years that neither we nor a
    database can count with.
    """
    if stamp is None or abs(elapsed_seconds(stamp, now)) > FARTHEST:
        return None
    return stamp.astimezone(UTC)


def seen_in(
    stamp: datetime | None, asked: datetime, received: datetime
) -> Offset | None:
    """What the stamp of an answer tells; a whole second may have been cut off."""
    if stamp is None:
        return None
    cut = WHOLE_SECOND if stamp.microsecond == 0 else 0.0
    low, high = elapsed_seconds(stamp, asked) - cut, elapsed_seconds(stamp, received)
    return Offset(min(low, high), high, received)
