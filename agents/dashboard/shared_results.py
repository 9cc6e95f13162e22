"""Work that many viewers want at the same time, done once per process."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, TypeVar

# Facts age by themselves: what was drawn earlier than this, in seconds, is not
# shared any more.
RECHECK_SHARED = 10
T = TypeVar("T")
K = TypeVar("K", bound=Hashable)
KEPT = 2048


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
    result made for an event shows at least what that event told of.
    """

    def __init__(self, kept: int = KEPT) -> None:
        self._kept = kept
        self._lock = threading.Lock()
        self._results: OrderedDict[Hashable, Future[Any]] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """The result for a key, made by the first who asks; the others wait."""
        return self.get_many([key], lambda _: {key: make()})[key]

    def peek(self, key: Hashable) -> Any:
        """The result for a key that somebody made before, None for none."""
        with self._lock:
            found = self._results.get(key)
            if found is not None:
                # What is used goes last.
                self._results.move_to_end(key)
        return found.result() if found is not None and found.done() else None

    def get_many(
        self, keys: Sequence[K], make: Callable[[Sequence[K]], Mapping[K, T]]
    ) -> dict[K, T]:
        """Results for several keys; ``make`` makes all that are missing at once."""
        mine: dict[K, Future[T]]
        others: dict[K, Future[T]]
        mine, others = self._claim(keys)
        if mine:
            self._make(mine, make)
        return {key: others[key].result() for key in keys}

    def _claim(
        self, keys: Sequence[K]
    ) -> tuple[dict[K, Future[T]], dict[K, Future[T]]]:
        mine: dict[K, Future[T]] = {}
        found: dict[K, Future[T]] = {}
        with self._lock:
            for key in keys:
                if key not in self._results:
                    mine[key] = self._results[key] = Future()
                found[key] = self._results[key]
            while len(self._results) > self._kept:
                self._results.popitem(last=False)
        return mine, found

    def _make(
        self,
        mine: Mapping[K, Future[T]],
        make: Callable[[Sequence[K]], Mapping[K, T]],
    ) -> None:
        try:
            made = make(list(mine))
            for key, future in mine.items():
                future.set_result(made[key])
        except BaseException as error:
            with self._lock:
                for key in mine:
                    self._results.pop(key, None)
            for future in mine.values():
                if not future.done():
                    future.set_exception(error)
            raise


shared = SharedResults()
