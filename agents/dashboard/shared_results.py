"""Work that many viewers want at the same time, done once per process."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, TypeVar

from memory.concurrency import release_connection

# Facts age by themselves: what was drawn earlier than this, in seconds, is not
# shared any more.
RECHECK_SHARED = 10
T = TypeVar("T")
K = TypeVar("K", bound=Hashable)
KEPT = 2048
_MISSING = object()


@dataclass(frozen=True, slots=True)
class Keyed(Generic[T]):
    """What a cached function is given: ``key`` alone tells whether it ran before."""

    key: Hashable
    value: T = field(compare=False)


def time_bucket(now: datetime, shift: int = 0) -> int:
    """A version for what changes with time alone.

    What one page shows begins anew at several moments, ``shift`` seconds apart: else
    one visitor in ten seconds would wait for all of it.
    """
    return (int(now.timestamp()) + shift) // RECHECK_SHARED


class SharedResults:
    """Results by (what, version). A version never means two different things.

    The version of something live is the id of the newest event about it: a
    result made for an event shows at least what that event told of. At most ``kept``
    stay, those that were used last; with ``newest`` also one of each ``what`` alone,
    for a row that is written anew every few seconds would fill it with its past.
    """

    def __init__(self, kept: int = KEPT, *, newest: bool = False) -> None:
        self._kept = kept
        self._newest = newest
        self._lock = threading.Lock()
        # By what, or by the whole key: the key, and what was made for it.
        self._results: OrderedDict[Hashable, tuple[Hashable, Any]] = OrderedDict()
        self._begun: dict[Hashable, Future[Any]] = {}

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """The result for a key, made by the first who asks; the others wait."""
        return self.get_many([key], lambda _: {key: make()})[key]

    def peek(self, key: Hashable) -> Any:
        """The result for a key that somebody made before, None for none."""
        with self._lock:
            return self._find(key)

    def get_many(
        self, keys: Sequence[K], make: Callable[[Sequence[K]], Mapping[K, T]]
    ) -> dict[K, T]:
        """Results for several keys; ``make`` makes all that are missing at once."""
        found: dict[K, T] = {}
        mine: dict[K, Future[T]] = {}
        others: dict[K, Future[T]] = {}
        with self._lock:
            for key in keys:
                known = self._find(key, _MISSING)
                if known is not _MISSING:
                    found[key] = known
                elif key in self._begun:
                    others[key] = self._begun[key]
                else:
                    mine[key] = self._begun[key] = Future()
        if mine:
            found |= self._make(mine, make)
        if others:
            # They may take long.
            release_connection()
        found |= {key: other.result() for key, other in others.items()}
        return {key: found[key] for key in keys}

    def forget(self) -> None:
        """Keep nothing of what was made so far."""
        with self._lock:
            self._results.clear()

    def _make(
        self,
        mine: Mapping[K, Future[T]],
        make: Callable[[Sequence[K]], Mapping[K, T]],
    ) -> dict[K, T]:
        try:
            told = make(list(mine))
            made = {key: told[key] for key in mine}
        except BaseException as error:
            self._end(mine, {})
            for future in mine.values():
                future.set_exception(error)
            raise
        self._end(mine, made)
        for key, future in mine.items():
            future.set_result(made[key])
        return made

    def _end(self, mine: Iterable[Hashable], made: Mapping[K, object]) -> None:
        """Keep what was made; what could not be made is begun anew by the next."""
        with self._lock:
            for key in mine:
                del self._begun[key]
            for key, result in made.items():
                place = self._find_place(key)
                self._results[place] = key, result
                self._results.move_to_end(place)
            while len(self._results) > self._kept:
                self._results.popitem(last=False)

    def _find(self, key: Hashable, missing: object = None) -> Any:
        place = self._find_place(key)
        known, result = self._results.get(place, (_MISSING, None))
        if known != key:
            return missing
        self._results.move_to_end(place)
        return result

    def _find_place(self, key: Hashable) -> Hashable:
        return key[0] if self._newest and isinstance(key, tuple) else key


shared = SharedResults()
