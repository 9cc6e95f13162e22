"""Work that many viewers want at the same time is done once per process."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")
KEPT = 2048


class Shared:
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
        with self._lock:
            found = self._results.get(key)
            if found is None:
                mine: Future[T] = Future()
                self._results[key] = mine
                while len(self._results) > self._kept:
                    self._results.popitem(last=False)
        if found is not None:
            result: T = found.result()
            return result
        return self._make(key, mine, make)

    def _make(self, key: Hashable, mine: Future[T], make: Callable[[], T]) -> T:
        try:
            result = make()
        except BaseException as error:
            with self._lock:
                self._results.pop(key, None)
            mine.set_exception(error)
            raise
        mine.set_result(result)
        return result


shared = Shared()
