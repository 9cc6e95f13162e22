"""A state with everything that its sections share worked out once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from memory.gamestate.clock import Recency, elapsed_seconds, recency
from memory.gamestate.confidence import (
    LOGGED_OUT,
    Confidence,
    Moment,
    confidence,
    recharges,
    stale_paths,
)
from memory.gamestate.effects import SETTLES, TELLS_TICK
from memory.gamestate.extract import args_key
from memory.gamestate.facts import Fact, View
from memory.gamestate.invalidation import AND
from memory.gamestate.layout import Entry, Line, Section
from memory.gamestate.names import Names, known_names
from memory.gamestate.sections import CURATED, read
from memory.gamestate.types import AccountState, Snapshot
from memory.gamestate.values import line, lookup, primary, title

OWNER = "account"
"""The key of the account's name among the facts: they never cross accounts."""

_ORDER = {tool: place for place, tool in enumerate(CURATED)}


@dataclass(frozen=True, slots=True)
class Scene:
    """A state with what is worked out once for all its sections."""

    state: AccountState
    moment: Moment
    ordered: tuple[Snapshot, ...]
    names: Names
    was: Mapping[str, str]

    @classmethod
    def of(cls, state: AccountState) -> Scene:
        same = state.last_shown.get(OWNER) == state.username
        newest_first = sorted(
            state.snapshots,
            key=lambda s: (elapsed_seconds(s.captured_at, state.now), key_of(s)),
        )
        return cls(
            state,
            Moment.of(state),
            tuple(sorted(newest_first, key=_place)),
            {**state.names, **known_names(newest_first[::-1])},
            state.last_shown if same else {},
        )

    def age(self, snapshot: Snapshot) -> Recency:
        return recency(
            snapshot.tick,
            snapshot.captured_at,
            self.state.current_tick,
            self.state.now,
            self.state.seconds_per_tick,
        )

    def plain(self, tool: str) -> Snapshot | None:
        """The snapshot of a tool without arguments."""
        found = (s for s in self.ordered if s.tool == tool and not args_key(s.args))
        return next(found, None)


def _place(snapshot: Snapshot) -> tuple[int, bool]:
    """Curated sections first and in their order, without arguments before with."""
    return _ORDER.get(snapshot.tool, len(_ORDER)), bool(snapshot.args)


def call_of(snapshot: Snapshot) -> str:
    """A tool with its arguments, as they are written in a heading."""
    tool = line(snapshot.tool, 40)
    if not snapshot.args:
        return tool
    values = ", ".join(
        f"{line(str(key), 20)}={_argument(value)}"
        for key, value in list(snapshot.args.items())[:3]
    )
    return f"{tool} {line(values, 60)}"


def _argument(value: object) -> str:
    return "..." if isinstance(value, (Mapping, list)) else line(value, 30)


def key_of(snapshot: Snapshot) -> str:
    return f"{snapshot.tool}{args_key(snapshot.args)}"


# SECTION Each snapshot's section of the state block, line by line.

MAX_FACTS = 25
RECHARGING = "recharging since"
"""Said of a shield that was not full and may have grown by itself."""


def section(scene: Scene, snapshot: Snapshot) -> Section:
    """A snapshot's heading and facts, each with its doubts said where it stands."""
    content = primary(snapshot.current)
    facts = _read(scene, snapshot, content)[:MAX_FACTS]
    curated = CURATED.get(snapshot.tool)
    heading = curated[0] if curated else title(snapshot.tool)
    age, end = scene.age(snapshot), f", {LOGGED_OUT}" if snapshot.logged_out else ""
    start = f"{heading} ({call_of(snapshot)} - "
    entries = [_entry(scene, snapshot, fact) for fact in facts]
    whole = stale_paths(snapshot) is None
    return Section(
        heading=f"{start}{age.short}{end}",
        rough=f"{start}{age.rough}{end}",
        entries=entries,
        recall=f'zoea_recall("state://{line(snapshot.tool, 40)}")',
        whole=_mark(scene, snapshot) if whole else "",
        folded=whole and not any(entry.mark for entry in entries),
        untrue=whole or any(_is_untrue(scene, snapshot, fact) for fact in facts),
    )


def _read(scene: Scene, snapshot: Snapshot, content: object) -> list[Fact]:
    view = View(
        content if isinstance(content, Mapping) else {},
        scene.names,
        ship_elsewhere=_ship_elsewhere(scene, snapshot),
        cargo_elsewhere=_at_least_as_good(scene, scene.plain("get_cargo"), snapshot),
    )
    return read(snapshot.tool, view, content)


def _ship_elsewhere(scene: Scene, snapshot: Snapshot) -> bool:
    """Whether the ship's numbers are left to the other snapshot that has them."""
    if snapshot.tool == "get_status":
        ship = scene.plain("get_ship")
        return _has_ship(ship) and _at_least_as_good(scene, ship, snapshot)
    if snapshot.tool == "get_ship":
        status = scene.plain("get_status")
        return _has_ship(status) and not _at_least_as_good(scene, snapshot, status)
    return False


def _has_ship(snapshot: Snapshot | None) -> bool:
    if snapshot is None:
        return False
    content = primary(snapshot.current)
    inside = lookup(content, "ship.hull") is not None
    return inside or (
        snapshot.tool == "get_ship" and lookup(content, "hull") is not None
    )


def _at_least_as_good(
    scene: Scene, one: Snapshot | None, other: Snapshot | None
) -> bool:
    """Whether one snapshot is no older than another and no more doubtful."""
    if one is None or other is None:
        return one is not None
    if one.tick is None or other.tick is None:
        return scene.age(one).seconds <= scene.age(other).seconds
    if one.tick != other.tick:
        return one.tick > other.tick
    return one.stale is None or other.stale is not None


def _entry(scene: Scene, snapshot: Snapshot, fact: Fact) -> Entry:
    key = f"{key_of(snapshot)}/{fact.label}"
    start = f"{fact.label}: {fact.value}" if fact.label else fact.value
    if fact.items:
        start = f"{start} (" if fact.value else start
    was = _was(scene, key, fact.value) if fact.label and fact.value else ""
    children = tuple(_child(scene, key, fact.between, *c) for c in fact.children)
    return Entry(
        start=start.rstrip() if not fact.items else start,
        items=fact.items,
        children=children,
        after=(")" if fact.items and fact.value else "") + was,
        mark=_fact_mark(scene, snapshot, fact),
        facts=((key, fact.value),) if fact.label and fact.value else (),
    )


def _child(scene: Scene, parent: str, between: str, what: str, amount: str) -> Line:
    if not amount:
        return Line(f"  - {what}")
    key = f"{parent}/{what}"
    return Line(
        f"  - {what}{between}{amount}{_was(scene, key, amount)}", ((key, amount),)
    )


def _fact_mark(scene: Scene, snapshot: Snapshot, fact: Fact) -> str:
    """What is to be said behind a fact that is not simply as old as its section."""
    if _is_untrue(scene, snapshot, fact):
        return f" ({_mark(scene, snapshot)})"
    merged = [
        snapshot.field_ticks[path]
        for path in fact.paths
        if path in snapshot.field_ticks
    ]
    said = [f"from an event at tick {max(merged)}"] if merged else []
    if any(recharges(snapshot, scene.moment, path) for path in fact.paths):
        said.append(RECHARGING)
    return f" ({', '.join(said)})" if said else ""


def _is_untrue(scene: Scene, snapshot: Snapshot, fact: Fact) -> bool:
    return any(
        confidence(snapshot, scene.moment, path) is Confidence.INVALIDATED
        for path in fact.paths
    )


def _mark(scene: Scene, snapshot: Snapshot) -> str:
    return f"{before(snapshot)}; {remedy(scene, snapshot)}"


def remedy(scene: Scene, snapshot: Snapshot) -> str:
    """``call get_status``, or when to, where the action is still under way.

    While nobody knows whether a flight is over, what is asked for stays in doubt:
    another tool settles that first.
    """
    mark, now = snapshot.stale, scene.state.current_tick
    flown = mark and scene.state.unsettled.intersection(mark.reason.split(AND))
    if flown and snapshot.tool != SETTLES:
        return f"call {SETTLES}, then {line(snapshot.tool, 40)}"
    if _awaits_tick(scene, snapshot):
        return f"call {TELLS_TICK}, then {line(snapshot.tool, 40)}"
    pending = mark and mark.tick is not None and now is not None and mark.tick > now
    return f"call {line(snapshot.tool, 40)}{' then' if pending else ''}"


def _awaits_tick(scene: Scene, snapshot: Snapshot) -> bool:
    """Whether it was asked for after an action that is over if the server kept pace.

    Only a tick that the game tells can say so: to ask for the same again cannot.
    """
    now, asked = scene.state.current_tick, snapshot.asked_at
    return any(
        mark.tick is not None
        and (now is not None and mark.tick <= now)
        and (mark.done is not None and asked is not None and mark.done < asked)
        for mark in snapshot.marks
    )


def _was(scene: Scene, key: str, value: str) -> str:
    """`` (was 72)`` where the value differs from the one last shown."""
    shown = scene.was.get(key)
    if shown is None or shown == value or not value:
        return ""
    number, slash, limit = shown.partition("/")
    same_limit = slash and value.endswith(f"/{limit}")
    return f" (was {line(number if same_limit else shown)})"


def before(snapshot: Snapshot) -> str:
    """``before buy at tick 104``."""
    mark = snapshot.stale
    if mark is None:
        return ""
    at = "" if mark.tick is None else f" at tick {mark.tick}"
    return f"before {line(mark.reason, 40) or 'an action'}{at}"
