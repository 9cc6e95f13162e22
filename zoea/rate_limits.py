"""How often somebody may do something, and how many may do it at once.

The counters live in the process, so several web processes each allow the full rate.
That is near enough to protect the database from a runaway loop and passwords from
guessing, and it needs no database write per request.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from ipaddress import IPv6Address, IPv6Network

from memory.concurrency import ConcurrencyLimit


class Limiter:
    """Token buckets by key: ``burst`` at once, then ``rate`` a second.

    Remembers at most ``size`` keys; the longest unused one is forgotten first.
    """

    def __init__(
        self,
        *,
        rate: float,
        burst: int,
        size: int = 10_000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.rate = rate
        self.burst = burst
        self.size = size
        self._clock = clock
        self._lock = threading.Lock()
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, key: str) -> float:
        """Take one; returns 0.0 if that was allowed, else the seconds to wait."""
        return self._change(key, -1)

    def wait(self, key: str) -> float:
        """The seconds until one may be taken."""
        return self._change(key, 0)

    def give_back(self, key: str) -> None:
        """Undo one that was taken."""
        self._change(key, 1)

    def forget(self, key: str) -> None:
        """Fill the bucket of this key again."""
        with self._lock:
            self._buckets.pop(key, None)

    def _change(self, key: str, change: int) -> float:
        """Add to the bucket, unless one is to be taken that is not there: the wait for it."""
        with self._lock:
            now = self._clock()
            left, then = self._buckets.get(key, (float(self.burst), now))
            left = min(float(self.burst), left + (now - then) * self.rate)
            wait = 0.0 if left >= 1 else (1 - left) / self.rate
            if change > 0 or not wait:
                left += change
            self._buckets.pop(key, None)
            # A full one says no more than none.
            if left < self.burst:
                self._buckets[key] = (left, now)
            if len(self._buckets) > self.size:
                self._buckets.popitem(last=False)
        return wait


def find_network(address: str) -> str:
    """The address by which tries are counted: of IPv6 the /64, which one visitor has."""
    try:
        found = IPv6Address(address)
    except ValueError:
        return address
    return str(IPv6Network((found.packed[:8] + bytes(8), 64)))


def take_each(*wanted: tuple[Limiter, str]) -> float:
    """Take one of every limiter, or of none; returns 0.0 or the seconds to wait."""
    for place, (limiter, key) in enumerate(wanted):
        if limiter.take(key):
            for earlier, its_key in wanted[:place]:
                earlier.give_back(its_key)
            return max(each.wait(its_key) for each, its_key in wanted)
    return 0.0


# Well above the 50 writes a second that every token is promised.
writes = Limiter(rate=100, burst=200)
# Wrong tokens by address; a good token from the same address is not affected.
wrong_tokens = Limiter(rate=1, burst=60)
# Wrong passwords by address and name, and by address alone. Charged before a password is
# hashed, so that simultaneous tries count as well.
wrong_passwords = Limiter(rate=1 / 30, burst=10)
wrong_names = Limiter(rate=1 / 5, burst=50)
# Hashing a password is meant to be slow: strangers must not keep all cores busy.
hashes = ConcurrencyLimit(
    2, seconds=10, refusal="Too many are signing in at the same time: not tried."
)
# A history of 1 MiB takes some 40 MB while it is worked on.
histories = ConcurrencyLimit(
    4, seconds=15, refusal="Other histories are being worked on: not done."
)
# A large body takes some hundred megabytes while it is worked on.
large_bodies = ConcurrencyLimit(
    1, seconds=15, refusal="Another large body is being worked on: not done."
)
