"""What a state block shows as good, against what is true in the game (I27, section 5)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from memory.gamestate.confidence import Confidence, Moment, confidence
from memory.gamestate.facts import Fact, Names, View
from memory.gamestate.render import Scene
from memory.gamestate.sections import CURATED, read
from memory.gamestate.types import AccountState, Snapshot
from memory.gamestate.values import primary

GOOD = (Confidence.FRESH, Confidence.MERGED)
#: These are about others or about the moment itself: true when they were asked.
PASSING = frozenset({"In transit", "Online", "Police", "Tick"})


class Belief(NamedTuple):
    """A fact that is shown as good, and what is true of it."""

    tool: str
    label: str
    shown: str
    true: str


def wrong(state: AccountState, truth: Mapping[str, Any]) -> tuple[int, list[Belief]]:
    """How many facts of a state count as good, and those of them that are not true.

    ``truth`` are the answers that the account would get now, by tool. Facts whose
    tool answers with an error now are not counted.
    """
    moment, names = Moment.of(state), Scene.of(state).names
    good, found = 0, []
    for snapshot in state.snapshots:
        answer = truth.get(snapshot.tool)
        if snapshot.tool not in CURATED or not isinstance(answer, Mapping):
            continue
        if "error" in answer:
            continue
        now = dict(_facts(replace(snapshot, content=answer, shown=None), names))
        for label, fact in _facts(snapshot, names):
            if not _is_good(fact, snapshot, moment):
                continue
            good += 1
            true = _told(now[label]) if label in now else "(not told)"
            if _told(fact) != true:
                found.append(Belief(snapshot.tool, label, _told(fact), true))
    return good, found


def _facts(snapshot: Snapshot, names: Names) -> Iterator[tuple[str, Fact]]:
    content = primary(snapshot.current)
    view = View(content if isinstance(content, Mapping) else {}, names)
    for fact in read(snapshot.tool, view, content):
        if fact.label not in PASSING:
            yield fact.label, fact


def _told(fact: Fact) -> str:
    listed = [*sorted(fact.items), *(f"{what} {much}" for what, much in fact.children)]
    return "; ".join([fact.value, *listed])


def _is_good(fact: Fact, snapshot: Snapshot, moment: Moment) -> bool:
    # Also of paths that are not there: that nothing is there may be what is shown.
    return all(
        confidence(snapshot, moment, path) in GOOD for path in fact.paths or ("",)
    )
