"""The game accounts: who flies them, where they stand, how old that knowledge is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

from agents.dashboard import game_state
from agents.dashboard.game_state import (
    HeldSnapshot,
    JudgedSnapshot,
    ShownFact,
    explain_doubt,
)
from agents.dashboard.shared_results import Keyed
from agents.models import Account, Mysis
from memory.gamestate.confidence import Confidence
from memory.gamestate.facts import Names, collect_names
from memory.gamestate.types import Moment
from memory.gamestate.values import format_title

SUSPECT = (Confidence.INVALIDATED, Confidence.STALE)
UNKNOWN = ShownFact("", "", "fresh", (), (), 0)
SHOWN_FACTS = 3
ACCOUNTS_A_PAGE = 100
# Seconds: ages by the wall clock, where an account's tick is unknown, grow meanwhile.
SAME_FOR = 10


@dataclass(frozen=True, slots=True)
class Badge:
    """Something cached that is not to be relied on: a snapshot, or some facts."""

    title: str
    tool: str
    confidence: str
    reason: str
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class AccountStatus:
    """Where an account stands, in the few words of a fleet row."""

    location: str = ""
    location_doubt: bool = False
    # The ids behind the names, as tools want them.
    place: str = ""
    docked: str = ""
    credits: int | None = None
    credits_doubt: bool = False
    fuel: str = ""
    hull: str = ""
    tick: int | None = None
    badges: tuple[Badge, ...] = ()


@dataclass(frozen=True, slots=True)
class AccountRow:
    """One account as the page shows it; never its password."""

    account: Account
    owner: Mysis | None
    flies: bool
    standing: AccountStatus
    newest: datetime | None
    levels: Sequence[tuple[str, int]]


def read_statuses(
    cached: Mapping[str, Sequence[HeldSnapshot]], present: Mapping[str, Moment]
) -> dict[str, AccountStatus]:
    """The headline facts of several accounts, and what is doubtful.

    Made once for the same snapshots at the same tick.
    """
    found = {who: cached.get(who, ()) for who in present}
    names = game_state.load_place_names(
        {who: _find_unnamed_places(held) for who, held in found.items()}
    )
    return {who: _status(held, present[who], names[who]) for who, held in found.items()}


def _find_unnamed_places(found: Sequence[HeldSnapshot]) -> set[str]:
    return {
        place
        for one in found
        for place in one.places
        if place and not any(place in other.names for other in found)
    }


def _status(
    held: Sequence[HeldSnapshot], moment: Moment, names: Names
) -> AccountStatus:
    versions = tuple(one.version for one in held)
    seconds = int(moment.now.timestamp()) // SAME_FOR
    key = versions, tuple(sorted(names.items())), moment.current_tick, seconds
    return _read_status(Keyed(key, (held, moment, names)))


@lru_cache(maxsize=1_000)
def _read_status(
    asked: Keyed[tuple[Sequence[HeldSnapshot], Moment, Names]],
) -> AccountStatus:
    held, moment, told = asked.value
    found = sorted(held, key=lambda one: one.snapshot.captured_at)
    names = dict(told)
    for one in found:
        names |= one.names
    judged = [JudgedSnapshot(one.snapshot, moment, names) for one in held]
    in_order = sorted(judged, key=lambda one: one.snapshot.captured_at)
    latest = {one.snapshot.tool: one for one in in_order}
    facts = _headline(latest)
    location = facts.get("Location", UNKNOWN)
    return AccountStatus(
        location=location.value,
        location_doubt=location.confidence in SUSPECT,
        place=_place(latest, found),
        docked=facts.get("Docked", UNKNOWN).value,
        credits={one.snapshot.tool: one.credits for one in found}.get("get_status"),
        credits_doubt=facts.get("Credits", UNKNOWN).confidence in SUSPECT,
        fuel=facts.get("Fuel", UNKNOWN).value,
        hull=facts.get("Hull", UNKNOWN).value,
        tick=moment.current_tick,
        badges=_badges(judged),
    )


def _headline(latest: Mapping[str, JudgedSnapshot]) -> dict[str, ShownFact]:
    facts: dict[str, ShownFact] = {}
    for tool in ("get_ship", "get_status"):
        if tool in latest:
            facts |= {fact.label: fact for fact in latest[tool].facts if fact.value}
    system = latest.get("get_system")
    if "Location" not in facts and system is not None:
        # Its first fact is the name of the system that the ship was in.
        place = next((fact for fact in system.facts if not fact.label), None)
        facts |= {"Location": place} if place else {}
    return facts


def _place(latest: Iterable[str], found: Sequence[HeldSnapshot]) -> str:
    """The ids of where the ship is, from the answer that its location is read from."""
    tool = "get_status" if "get_status" in latest else "get_system"
    ids = {one.snapshot.tool: one.places for one in found}.get(tool, ())
    return " > ".join(filter(None, ids[:2]))


def _badges(judged: Iterable[JudgedSnapshot]) -> tuple[Badge, ...]:
    found = []
    for one in judged:
        snapshot, level = one.snapshot, one.judge_facts()
        if level in SUSPECT:
            doubted = _doubted(one.facts) if one.marked else ()
            badge = Badge(
                title=", ".join(doubted) or format_title(snapshot.tool),
                tool=snapshot.tool,
                confidence="partly" if doubted else str(level),
                reason=explain_doubt(snapshot, level, one.moment),
                at=snapshot.captured_at,
            )
            found.append(badge)
    # What an action made untrue goes before what merely grew old.
    return tuple(sorted(found, key=lambda b: (b.confidence, b.title)))


def _doubted(shown: Iterable[ShownFact]) -> tuple[str, ...]:
    """The facts that an action made untrue, where it left others as they were."""
    named = [fact.label for fact in shown if fact.confidence == Confidence.INVALIDATED]
    return tuple(label for label in named if label)[:SHOWN_FACTS]


def load_accounts(now: datetime, names: str = "", after: str = "") -> list[AccountRow]:
    """A page of accounts by name and one more; those with ``names`` in theirs.

    ``after`` is the last name of the page before.
    """
    rows = Account.objects.select_related("assigned_to", "active_mysis")
    if after:
        rows = rows.filter(username__gt=after)
    if names:
        rows = rows.filter(username__icontains=names)
    accounts = list(rows.order_by("username")[: ACCOUNTS_A_PAGE + 1])
    usernames = [account.username for account in accounts]
    cached = game_state.load_snapshots(usernames)
    present = game_state.load_moments(usernames, now)
    stand = read_statuses(cached, present)
    shown = []
    for account in accounts:
        active, name = getattr(account, "active_mysis", None), account.username
        held = cached.get(name, ())
        row = AccountRow(
            account=account,
            owner=active or account.assigned_to,
            flies=active is not None,
            standing=stand[name],
            newest=max((one.snapshot.captured_at for one in held), default=None),
            levels=_count_levels(held, present[name]),
        )
        shown.append(row)
    return shown


def _count_levels(
    cached: Sequence[HeldSnapshot], moment: Moment
) -> Sequence[tuple[str, int]]:
    names = collect_names(one.snapshot for one in cached)
    counts = Counter(
        str(JudgedSnapshot(one.snapshot, moment, names).judge_facts()) for one in cached
    )
    return tuple((str(one), counts[str(one)]) for one in Confidence if counts[str(one)])
