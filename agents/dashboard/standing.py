"""Where an account stands, in the few words of a fleet row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache

from memory.gamestate.confidence import Confidence, Moment, stale_paths
from memory.gamestate.names import Names, known_names
from memory.gamestate.paths import first, primary
from memory.gamestate.text import title
from memory.gamestate.types import Snapshot

from .game import Held, ShownFact, facts_of, level_of, reason_of

SUSPECT = (Confidence.INVALIDATED, Confidence.STALE)
UNKNOWN = ShownFact("", "", "fresh", (), (), 0)
SHOWN_FACTS = 3
# Seconds: ages by the wall clock, where an account's tick is unknown, grow meanwhile.
SAME_FOR = 10
# Enough to name the place of a ship; maps and markets would take longer to read.
NAMING = frozenset({"get_status", "get_system", "get_poi", "get_base"})


@dataclass(frozen=True, slots=True)
class Badge:
    """Something cached that is not to be relied on: a snapshot, or some facts."""

    title: str
    tool: str
    confidence: str
    reason: str
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Standing:
    """Where an account stands, in the few words of a fleet row."""

    location: str = ""
    location_doubt: bool = False
    docked: str = ""
    credits: int | None = None
    credits_doubt: bool = False
    fuel: str = ""
    hull: str = ""
    tick: int | None = None
    badges: tuple[Badge, ...] = ()


def standing_of(found: Sequence[Held], moment: Moment) -> Standing:
    """The headline facts of one account, and what is doubtful.

    Made once for the same snapshots at the same tick.
    """
    versions = tuple(one.version for one in found)
    seconds = int(moment.now.timestamp()) // SAME_FOR
    return _made(Asked((versions, moment.current_tick, seconds), found, moment))


@dataclass(frozen=True, slots=True)
class Asked:
    """A question; ``key`` alone tells whether it was answered before."""

    key: tuple[object, ...]
    found: Sequence[Held] = field(compare=False)
    moment: Moment = field(compare=False)


@lru_cache(maxsize=1_000)
def _made(asked: Asked) -> Standing:
    found, moment = asked.found, asked.moment
    snapshots = [one.snapshot for one in found]
    latest = {s.tool: s for s in sorted(snapshots, key=lambda s: s.captured_at)}
    names = known_names(s for s in snapshots if s.tool in NAMING)
    facts = _headline(latest, moment, names)
    location = facts.get("Location", UNKNOWN)
    return Standing(
        location=location.value,
        location_doubt=location.confidence in SUSPECT,
        docked=facts.get("Docked", UNKNOWN).value,
        credits=_credits(latest.get("get_status")),
        credits_doubt=facts.get("Credits", UNKNOWN).confidence in SUSPECT,
        fuel=facts.get("Fuel", UNKNOWN).value,
        hull=facts.get("Hull", UNKNOWN).value,
        tick=moment.current_tick,
        badges=_badges(snapshots, moment, names),
    )


def _headline(
    latest: Mapping[str, Snapshot], moment: Moment, names: Names
) -> dict[str, ShownFact]:
    facts: dict[str, ShownFact] = {}
    for tool in ("get_ship", "get_status"):
        if tool in latest:
            read = facts_of(latest[tool], moment, names)
            facts |= {fact.label: fact for fact in read if fact.value}
    system = latest.get("get_system")
    if "Location" not in facts and system is not None:
        # Its first fact is the name of the system that the ship was in.
        place = next((f for f in facts_of(system, moment, names) if not f.label), None)
        facts |= {"Location": place} if place else {}
    return facts


def _credits(status: Snapshot | None) -> int | None:
    if status is None:
        return None
    held_credits = first(primary(status.current), "player.credits", "credits")
    return int(held_credits) if isinstance(held_credits, int | float) else None


def _badges(
    snapshots: Iterable[Snapshot], moment: Moment, names: Names
) -> tuple[Badge, ...]:
    found = []
    for snapshot in snapshots:
        level = level_of(snapshot, moment, names)
        if level in SUSPECT:
            reason = reason_of(snapshot, level, moment)
            doubted = _doubted(snapshot, moment, names)
            found.append(
                Badge(
                    ", ".join(doubted) or title(snapshot.tool),
                    snapshot.tool,
                    "partly" if doubted else str(level),
                    reason,
                    snapshot.captured_at,
                )
            )
    # What an action made untrue goes before what merely grew old.
    return tuple(sorted(found, key=lambda b: (b.confidence, b.title)))


def _doubted(snapshot: Snapshot, moment: Moment, names: Names) -> tuple[str, ...]:
    """The facts that an action made untrue, where it left others as they were."""
    facts = facts_of(snapshot, moment, names) if stale_paths(snapshot) else ()
    named = [f.label for f in facts if f.confidence == Confidence.INVALIDATED]
    return tuple(label for label in named if label)[:SHOWN_FACTS]
