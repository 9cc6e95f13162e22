"""The game's ticks and its clock, ages, and the words for them (G7, A20, A21).

Tick numbers are not wall time: a server that was down has fewer ticks than the
clock. So an age is counted in ticks where both ends are known and the counter was
not reset in between, else by the wall clock. How far the game's clock is from ours is
known within a bound: an answer is stamped between the moments at which it was asked
for and received, and each stamp narrows the bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from memory.gamestate.types import SECONDS_PER_TICK, Moment, Snapshot

# A result without a tick gets the account's one only if that was seen so lately.
STAMP_WITHIN_TICKS = 2
# A counter that goes back by more than this was reset by the server.
RESET_AFTER_TICKS = 100
# An estimated tick counts as certain so many ticks later, or doubts never ended.
UNSEEN_TICKS = 60
# The share by which a server may be faster than its nominal pace.
REACH_SHARE = 0.1
# Seconds by which two clocks may part in a second; also while one is being set.
DRIFT = 0.0005
# Seconds that a stamp may be from now; farther ones are not meant.
FARTHEST = 86_400.0


@dataclass(frozen=True, slots=True)
class Sighting:
    """The newest tick seen in any result of an account, and when."""

    tick: int
    at: datetime


@dataclass(frozen=True, slots=True)
class Recency:
    """How long ago something was, in words and in numbers.

    ``rough`` is the short form with its number rounded down to a power of two.
    ``ticks`` is None where only the wall clock could tell. ``skew`` says that the
    thing claims to come from a later tick than now.
    """

    long: str
    short: str
    rough: str
    ticks: int | None
    seconds: float
    skew: bool = False


def count_seconds(since: datetime, now: datetime) -> float:
    """Seconds between moments, below 0 if the clock went back; naive ones are UTC."""
    return (_aware(now) - _aware(since)).total_seconds()


def _aware(moment: datetime) -> datetime:
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def estimate_tick(
    seen: Sighting | None, now: datetime, seconds_per_tick: float = SECONDS_PER_TICK
) -> int | None:
    """The account's tick now: at most one behind a server that keeps its pace."""
    if seen is None:
        return None
    return seen.tick + count_ticks(count_seconds(seen.at, now), seconds_per_tick)


def count_ticks(seconds: float, seconds_per_tick: float = SECONDS_PER_TICK) -> int:
    """Whole ticks in a number of seconds, at least 0."""
    if seconds_per_tick <= 0 or not math.isfinite(seconds_per_tick):
        return 0
    return int(max(0.0, seconds) // seconds_per_tick)


def choose_tick(
    own: int | None,
    seen: Sighting | None,
    now: datetime,
    seconds_per_tick: float = SECONDS_PER_TICK,
) -> int | None:
    """The tick to store with a result: its own, else the account's if seen lately.

    None, so that the snapshot ages by the wall clock, when the newest sighting is
    more than two ticks old, or from the future.
    """
    if own is not None:
        return own
    if seen is None:
        return None
    age = count_seconds(seen.at, now)
    if age < 0 or age > STAMP_WITHIN_TICKS * seconds_per_tick:
        return None
    return estimate_tick(seen, now, seconds_per_tick)


def find_certain_tick(
    seen: Sighting | None, now: datetime, seconds_per_tick: float = SECONDS_PER_TICK
) -> int | None:
    """The tick that has certainly come by now, though the server may have paused.

    While a tick was seen lately it is the estimate, else the tick that was seen or an
    estimate that is long past.
    """
    lately = choose_tick(None, seen, now, seconds_per_tick)
    estimate = estimate_tick(seen, now, seconds_per_tick)
    if lately is not None or seen is None or estimate is None:
        return lately
    return max(seen.tick, estimate - UNSEEN_TICKS)


def is_reachable(
    seen: Sighting | None,
    tick: int,
    now: datetime,
    seconds_per_tick: float = SECONDS_PER_TICK,
) -> bool:
    """Whether a tick can have come by now; one that an entry names may lie ahead."""
    if seen is None:
        return True
    passed = count_ticks(count_seconds(seen.at, now), seconds_per_tick)
    return tick <= seen.tick + passed * (1 + REACH_SHARE) + RESET_AFTER_TICKS


def keep_newest_sighting(
    seen: Sighting | None,
    tick: int | None,
    at: datetime,
    *,
    is_current: bool = True,
    seconds_per_tick: float = SECONDS_PER_TICK,
) -> Sighting | None:
    """The sighting to keep after a result that carried ``tick`` (or none).

    Only a tick that the server calls current (``is_current``) may be out of reach or
    below the one seen before; that of an event never turns time back. A sighting from
    the future (our clock was set back) gives way to a higher tick.
    """
    if tick is None:
        return seen
    if seen is None:
        return Sighting(tick, at)
    if not is_current and not is_reachable(seen, tick, at, seconds_per_tick):
        return seen
    early = count_seconds(seen.at, at) < 0
    if (early and tick < seen.tick) or (not is_current and (early or tick < seen.tick)):
        return seen
    return Sighting(tick, at)


def is_reset(previous: int | None, tick: int | None) -> bool:
    """Whether the server reset its counter, so that ticks from before tell nothing."""
    if previous is None or tick is None:
        return False
    return previous - tick > RESET_AFTER_TICKS


def measure_recency(snapshot: Snapshot, moment: Moment) -> Recency:
    """How long ago a snapshot was taken (G7)."""
    seconds = max(0.0, count_seconds(snapshot.captured_at, moment.now))
    ticks = count_passed_ticks(snapshot.tick, moment.current_tick)
    if ticks is None:
        words, rough = _wall_clock_words(seconds)
        return Recency(words, words, rough, None, seconds)
    if ticks <= 0:
        now_words = "just now"
        return Recency(now_words, now_words, now_words, 0, seconds, skew=ticks < 0)
    short = f"{ticks} ticks ago"
    passed = ticks * moment.seconds_per_tick
    shown = str(int(passed)) if passed == int(passed) else f"{passed:g}"
    long = f"{short} ({shown} seconds)"
    return Recency(long, short, f"{round_down(ticks)} ticks ago", ticks, seconds)


def round_down(number: int) -> int:
    """The power of two at or below a number that is not negative; 0 for 0."""
    return 1 << number.bit_length() - 1 if number else 0


def count_passed_ticks(tick: int | None, current: int | None) -> int | None:
    """Ticks between the two, negative for skew; None where ticks cannot tell."""
    if tick is None or current is None or tick <= 0 or current <= 0:
        return None
    return None if is_reset(tick, current) else current - tick


def _wall_clock_words(seconds: float) -> tuple[str, str]:
    """An age by the wall clock in seconds, minutes or hours: exactly and roughly."""
    if seconds < 3600:
        unit = "seconds ago" if seconds < 60 else "minutes ago"
        number = round(seconds if seconds < 60 else seconds / 60)
        return f"{number} {unit}", f"{round_down(number)} {unit}"
    hours, rest = divmod(int(seconds / 60), 60)
    return f"{hours} h {rest} min ago", f"{round_down(hours)} h ago"


# --- The clock of the game


@dataclass(frozen=True, slots=True)
class Offset:
    """Our clock minus the game's: between ``low`` and ``high`` seconds.

    ``at`` is when that was seen, by our clock; None where it always holds.
    """

    low: float
    high: float
    at: datetime | None = None

    @property
    def slack(self) -> float:
        """The seconds by which a moment may be off, to either side."""
        return (self.high - self.low) / 2

    def convert(self, moment: datetime) -> datetime:
        """A moment of the game's clock by ours, give or take ``slack``."""
        return moment + timedelta(seconds=(self.low + self.high) / 2)

    def is_possible(self) -> bool:
        """Whether two clocks can be so far apart that both are somewhere near now."""
        return max(abs(self.low), abs(self.high)) <= 2 * FARTHEST

    def holds(self, seconds: float) -> bool:
        """Whether the difference may be so many seconds."""
        return self.low <= seconds <= self.high

    def widen(self, now: datetime) -> Offset:
        """The bound by now: it widens, as clocks part slowly."""
        if self.at is None:
            return self
        parted = DRIFT * abs(count_seconds(self.at, now))
        return Offset(self.low - parted, self.high + parted, now)

    def narrow(self, seen: Offset | None) -> Offset:
        """The bound after one more answer; that answer's, where a clock was set."""
        if seen is None:
            return self
        low, high = max(self.low, seen.low), min(self.high, seen.high)
        return seen if low > high else replace(seen, low=low, high=high)

    def narrow_by_event(self, moment: datetime, received: datetime) -> Offset:
        """The bound narrowed by an event: it happened before it was received."""
        high = count_seconds(moment, received)
        return replace(self, high=high) if self.low <= high < self.high else self


# The game runs on this machine: there is one clock.
SAME_CLOCK = Offset(0.0, 0.0)


def check_stamp(stamp: datetime | None, now: datetime) -> datetime | None:
    """A stamp in UTC; None for one too far from now to be meant, such as year 1."""
    if stamp is None or abs(count_seconds(stamp, now)) > FARTHEST:
        return None
    return stamp.astimezone(UTC)


def read_offset_bound(
    stamp: datetime | None, asked: datetime, received: datetime
) -> Offset | None:
    """The bound that the stamp of an answer gives."""
    if stamp is None:
        return None
    cut = 1.0 if stamp.microsecond == 0 else 0.0  # the fraction may have been cut off
    low, high = count_seconds(stamp, asked) - cut, count_seconds(stamp, received)
    return Offset(min(low, high), high, received)
