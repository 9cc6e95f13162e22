"""What has changed since the last flush, bounded by its nature."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

from agents.events import Item, Kind

FEED = 60
# These change who is in the fleet or how it fares as a whole.
WIDE = frozenset({Kind.MYSIS_STATE, Kind.ERROR, Kind.TURN_FINISHED})


@dataclass(slots=True)
class Dirty:
    """Myses to draw again, with the newest event that says so, and feed lines.

    ``newest`` is the last event of the stream, ``wide`` the last one that
    concerns the fleet as a whole, ``prompts`` the last one that changed a prompt;
    0 for none. ``states`` are those of the Myses whose state changed.
    """

    myses: dict[int, int] = field(default_factory=dict)
    feed: deque[Item] = field(default_factory=lambda: deque(maxlen=FEED))
    newest: int = 0
    wide: int = 0
    prompts: int = 0
    states: set[int] = field(default_factory=set)
    everything: bool = False

    def add(self, item: Item) -> None:
        """Note one event."""
        self.newest = item["id"]
        owner = item["mysis"]
        if owner is not None:
            self.myses[owner] = item["id"]
            if item["kind"] == Kind.MYSIS_STATE:
                self.states.add(owner)
        if item["kind"] in WIDE:
            self.wide = item["id"]
        if item["kind"] == Kind.PROMPT_CHANGED:
            self.prompts = item["id"]
        self.feed.append(item)

    def __bool__(self) -> bool:
        return bool(self.everything or self.myses or self.feed or self.wide)

    def take(self, most: int) -> Dirty:
        """Hand out at most ``most`` Myses and all else; the rest stays."""
        chosen = list(self.myses)[:most]
        taken = Dirty(
            myses={number: self.myses.pop(number) for number in chosen},
            feed=self.feed,
            newest=self.newest,
            wide=self.wide,
            prompts=self.prompts,
            states=self.states.intersection(chosen),
            everything=self.everything,
        )
        self.feed = deque(maxlen=FEED)
        self.newest, self.wide, self.prompts, self.everything = 0, 0, 0, False
        self.states.difference_update(chosen)
        return taken


# SECTION Work that many viewers want at the same time is done once per process.

# Facts age by themselves: what was drawn earlier than this, in seconds, is not
# shared any more.
RECHECK_SHARED = 10
T = TypeVar("T")
K = TypeVar("K", bound=Hashable)
KEPT = 2048


def bucket(now: datetime) -> int:
    """A version for what changes with time alone."""
    return int(now.timestamp()) // RECHECK_SHARED


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
        return self.get_many([key], lambda _: {key: make()})[key]

    def known(self, key: Hashable) -> Any:
        """The result for a key that somebody made before, None for none."""
        with self._lock:
            found = self._results.get(key)
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


shared = Shared()
