"""The game accounts: who flies them, where they stand, how old that knowledge is."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from agents.dashboard import game_state
from agents.dashboard.game_state import (
    HeldSnapshot,
    JudgedSnapshot,
    ShownFact,
    explain_doubt,
)
from agents.dashboard.shared_results import SharedResults
from agents.models import Account, Mysis
from memory.gamestate.confidence import (
    Confidence,
    choose_worst,
    count_age_in_ticks,
    judge_age,
    list_causes,
)
from memory.gamestate.facts import Names, collect_names
from memory.gamestate.invalidation import QUEUE_MARGIN_TICKS
from memory.gamestate.types import Moment, Snapshot
from memory.snapshots.reads import read_moments

SUSPECT = (Confidence.INVALIDATED, Confidence.STALE)
UNKNOWN = ShownFact("", "", "fresh", (), (), 0)
SHOWN_FACTS = 3
# Where the facts stand that a next step is decided by.
OWN_TOOLS = frozenset({"get_status", "get_state", "get_ship", "get_cargo"})
# All that a status is read from.
USED_TOOLS = OWN_TOOLS | game_state.NAMING
# What the step after an action is decided by: who mines looks at the hold, not the tank.
NEEDS: Mapping[str, frozenset[str]] = {
    action: frozenset(labels.split())
    for actions, labels in (
        ("mine jettison loot_wreck", "Cargo"),
        ("buy sell craft deposit_items withdraw_items", "Cargo Credits"),
        ("deposit_credits withdraw_credits", "Credits"),
        ("travel jump", "Location Docked"),
        ("dock undock", "Docked"),
        ("refuel", "Fuel Credits"),
        ("repair", "Hull Credits"),
    )
    for action in actions.split()
}
EVERY_NEED = frozenset({"Location", "Docked", "Cargo", "Credits", "Fuel", "Hull"})
ACCOUNTS_A_PAGE = 100
# 60/100, as facts tell an amount with its limit.
_RATIO = re.compile(r"([\d,.]*\d)/([\d,.]*\d)")
# From this share on a hold counts as full.
FULL_HOLD = 95
# Seconds: ages by the wall clock grow meanwhile.
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
class Level:
    """How full a tank, a hull or a hold is; ``level`` is ok, near or spent, for colour."""

    name: str
    value: str
    percent: int
    level: str
    doubtful: bool


# Shares at and below which a tank or a hull is near its end, and nearly gone.
NEAR_END, NEARLY_GONE = 50, 25


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
    levels: tuple[Level, ...] = ()
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

    Made once for the same snapshots, until one of them is to be believed less.
    """
    found = {
        who: [one for one in cached.get(who, ()) if one.snapshot.tool in USED_TOOLS]
        for who in present
    }
    names = game_state.load_place_names(
        {who: _find_unnamed_places(held) for who, held in found.items()}
    )
    return {
        who: _status(who, held, present[who], names[who]) for who, held in found.items()
    }


def _find_unnamed_places(found: Sequence[HeldSnapshot]) -> set[str]:
    return {
        place
        for one in found
        for place in one.places
        if place and not any(place in other.names for other in found)
    }


def _status(
    who: str, held: Sequence[HeldSnapshot], moment: Moment, names: Names
) -> AccountStatus:
    held = sorted(held, key=lambda one: one.version)
    versions = tuple(one.version for one in held)
    ages = tuple(_grade_age(one.snapshot, moment) for one in held)
    limits = tuple(moment.thresholds.items())
    told = tuple(sorted(names.items()))
    key = who, (versions, told, ages, limits)
    return _statuses.get(key, lambda: _read_status(held, moment, names))


def _grade_age(snapshot: Snapshot, moment: Moment) -> tuple[object, ...]:
    """How old a snapshot counts as: its facts stay the same for as long as this does."""
    if snapshot.stale is None and not snapshot.field_ticks:
        # After a tick a shield may have grown.
        is_past = count_age_in_ticks(snapshot, moment) != 0
        return judge_age(snapshot, moment), is_past
    # Each mark and each event ages by itself.
    return moment.current_tick, int(moment.now.timestamp()) // SAME_FOR


# By account: as many as a page may list.
_statuses = SharedResults(2_000, newest=True)


def _read_status(
    held: Sequence[HeldSnapshot], moment: Moment, told: Names
) -> AccountStatus:
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
        levels=_read_levels(facts),
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


def _read_levels(facts: Mapping[str, ShownFact]) -> tuple[Level, ...]:
    """Fuel, hull and cargo where both the amount and its limit are known."""
    found = []
    for name in ("Fuel", "Hull", "Cargo"):
        fact = facts.get(name, UNKNOWN)
        ratio = _RATIO.match(fact.value)
        if ratio is None or not (limit := float(ratio[2].replace(",", ""))):
            continue
        percent = round(100 * float(ratio[1].replace(",", "")) / limit)
        if name == "Cargo":
            level = "near" if percent >= FULL_HOLD else "ok"
        else:
            low = percent <= NEARLY_GONE
            level = "spent" if low else "near" if percent <= NEAR_END else "ok"
        doubtful = fact.confidence in SUSPECT
        found.append(Level(name.lower(), fact.value, percent, level, doubtful))
    return tuple(found)


def _place(latest: Iterable[str], found: Sequence[HeldSnapshot]) -> str:
    """The ids of where the ship is, from the answer that its location is read from."""
    tool = "get_status" if "get_status" in latest else "get_system"
    ids = {one.snapshot.tool: one.places for one in found}.get(tool, ())
    return " > ".join(filter(None, ids[:2]))


def _badges(judged: Iterable[JudgedSnapshot]) -> tuple[Badge, ...]:
    """What the next step needs and cannot rely on; the rest may be as old as it is."""
    own = [
        one
        for one in judged
        if one.snapshot.tool in OWN_TOOLS and not one.snapshot.args
    ]
    sure = {
        fact.label
        for one in own
        for fact in one.facts
        if fact.confidence not in SUSPECT
    }
    needed = _find_needs(own) - sure
    found = []
    for one in own:
        doubted = [
            fact
            for fact in one.facts
            if fact.label in needed and _is_overdue(fact, one.moment)
        ]
        if doubted:
            found.append(_make_badge(one, doubted))
    # What an action made untrue goes before what merely grew old.
    return tuple(sorted(found, key=lambda b: (b.confidence, b.title)))


def _find_needs(judged: Iterable[JudgedSnapshot]) -> frozenset[str]:
    """The labels of the facts that are read before the step after the newest action."""
    causes = [
        cause for one in judged for cause in list_causes(one.snapshot, one.marked)
    ]
    newest = max(causes, key=lambda cause: cause.tick or 0, default=None)
    return NEEDS.get(newest.reason, EVERY_NEED) if newest else EVERY_NEED


def _is_overdue(fact: ShownFact, moment: Moment) -> bool:
    """Whether a fact stays in doubt: the next answer settles what has just been done."""
    if fact.confidence == Confidence.STALE:
        return True
    tick, now = fact.cause_tick, moment.current_tick
    return tick is None or now is None or tick + QUEUE_MARGIN_TICKS <= now


def _make_badge(judged: JudgedSnapshot, doubted: Sequence[ShownFact]) -> Badge:
    level = choose_worst(Confidence(fact.confidence) for fact in doubted)
    partly = len(doubted) < len(judged.facts) and level is Confidence.INVALIDATED
    return Badge(
        title=", ".join([fact.label for fact in doubted][:SHOWN_FACTS]),
        tool=judged.snapshot.tool,
        confidence="partly" if partly else str(level),
        reason=_explain(judged, level, doubted),
        at=judged.snapshot.captured_at,
    )


def _explain(
    judged: JudgedSnapshot, level: Confidence, doubted: Sequence[ShownFact]
) -> str:
    """Why not to rely on it; of what grew old its tick, which stays the same."""
    snapshot = judged.snapshot
    if level is not Confidence.STALE or snapshot.logged_out:
        return explain_doubt(judged, level, doubted)
    tick = snapshot.tick
    return "as of an unknown tick" if tick is None else f"old: as of tick {tick}"


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
    present = read_moments(usernames, now)
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
