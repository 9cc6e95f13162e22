"""How much of a call's bytes the call before had too: what a provider caches (I25)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from bench.assembly import request_of
from bench.figures import Aim, Figure
from bench.logs import Log, Player
from memory.context.assemble import assemble
from memory.context.types import Assembly, AssemblyRequest, LedgerLine, Message, Summary

#: The strategies that promise a stable prefix, and one that does not.
PROMISED = ("full", "mask", "tiered", "summary")
SLIDING = "window"
TARGET = 95.0
UNITS = 240
STEPS = 1 + len(PROMISED)
VOLATILE = frozenset({"state", "nudge"})
SUMMARY = "Goals: earn credits. Done so far: mined, sold and refuelled.\n" * 60


@dataclass(frozen=True)
class Pair:
    """Two calls, one after the other.

    ``kept`` bytes of the earlier one's ``stable`` bytes, which leave the volatile
    tail out, begin the later one as well. ``compacted`` where something older was
    changed between them. ``counted`` and ``stated`` are all bytes that both begin
    with, by our count and by the statistics of the view.
    """

    kept: int
    stable: int
    compacted: bool
    counted: int
    stated: int

    @property
    def share(self) -> float:
        """How much of the earlier call is there again, in percent."""
        return 100 * self.kept / self.stable if self.stable else 100.0


@dataclass
class Play:
    """A log that grows unit by unit, and the call that is made of it each time."""

    strategy: str
    options: Mapping[str, object] = field(default_factory=dict)
    log: list[Message] = field(default_factory=list)
    summary: Summary | None = None

    def call(self, unit: Log, previous: Assembly | None) -> Assembly:
        """The next call, after ``unit`` was stored; a summary wanted is made."""
        self.log += unit
        view = assemble(self._request(previous))
        wanted = view.summary_wanted
        if wanted is not None:
            generation = self.summary.generation + 1 if self.summary else 1
            self.summary = Summary(wanted.last_id, SUMMARY, generation)
            view = assemble(self._request(previous))
        return view

    def _request(self, previous: Assembly | None) -> AssemblyRequest:
        request = request_of(tuple(self.log), self.strategy)
        return replace(
            request,
            options=self.options,
            summary=self.summary,
            # Changes from call to call, as recency does.
            render_state=lambda limit: f"Tick {len(self.log)}: fuel 80/240."[:limit],
            previous=previous.messages if previous else None,
        )


def pairs(strategy: str, units: int = UNITS) -> Iterator[Pair]:
    """Every two neighbouring calls of a log that is played forward."""
    play = Play(strategy)
    before: Assembly | None = None
    for unit in islice(Player().units(), units):
        now = play.call(unit, before)
        if before is not None:
            yield pair_of(before, now)
        before = now


def pair_of(before: Assembly, now: Assembly) -> Pair:
    """What two calls have in common."""
    stable = encoded(without_tail(before))
    later = encoded(now.messages)
    return Pair(
        kept=common(stable, later),
        stable=len(stable),
        compacted=changed(before.ledger, now.ledger),
        counted=common(encoded(before.messages), later),
        stated=now.stats["prefix_shared_bytes"],
    )


def without_tail(view: Assembly) -> list[dict[str, Any]]:
    """The messages of a view before its state block and its nudge."""
    kinds = {entry.position: entry.kind for entry in view.synthetic}
    end = len(view.messages)
    while end and kinds.get(end - 1) in VOLATILE:
        end -= 1
    return view.messages[:end]


def encoded(messages: Sequence[Mapping[str, Any]]) -> bytes:
    """The messages as compact JSON, one behind the other."""
    texts = (
        json.dumps(message, ensure_ascii=False, separators=(",", ":"))
        for message in messages
    )
    return "".join(texts).encode()


def common(one: bytes, other: bytes) -> int:
    """How many bytes both begin with, by halving."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def changed(before: Sequence[LedgerLine], now: Sequence[LedgerLine]) -> bool:
    """Whether anything that stood in the earlier ledger fares otherwise now."""
    was = {line.id: line.disposition for line in before}
    return any(was.get(line.id, line.disposition) != line.disposition for line in now)


def measure(step: Callable[[str], None]) -> list[Figure]:
    """The mean share by strategy, and whether the statistics say the same."""
    found: dict[str, list[Pair]] = {}
    for strategy in (SLIDING, *PROMISED):
        step(f"Playing a log forward under {strategy}")
        found[strategy] = list(pairs(strategy))
    sliding = mean_share(found.pop(SLIDING))
    figures = [figure_of(name, each, sliding) for name, each in found.items()]
    wrong = sum(p.counted != p.stated for each in found.values() for p in each)
    told = "wrong prefix_shared_bytes"
    note = f"of {sum(map(len, found.values())):,} calls, by another count"
    return [*figures, Figure(told, wrong, "", target=1, note=note)]


def figure_of(strategy: str, found: Sequence[Pair], sliding: float) -> Figure:
    """The mean over the calls before which nothing was compacted."""
    quiet = [pair for pair in found if not pair.compacted]
    return Figure(
        f"prefix shared: {strategy}",
        mean_share(quiet),
        "%",
        baseline=sliding,
        baseline_is=f"all calls of the strategy {SLIDING} on the same log",
        target=TARGET,
        aim=Aim.AT_LEAST,
        note=f"{len(quiet)} calls, nothing compacted before; "
        f"all {len(found)}: {mean_share(found):.1f} %",
    )


def mean_share(found: Sequence[Pair]) -> float:
    """The mean share in percent, 0 where there is none to take it of."""
    return sum(pair.share for pair in found) / max(len(found), 1)
