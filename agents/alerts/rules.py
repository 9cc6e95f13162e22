"""The rules of alerts: pure functions of what is known of one Mysis.

An unknown fact never raises an alarm, and never clears one: the rule waits. One that an
action has made untrue waits too. One that is only old is judged, and the text says as of
when it is. What clears an alarm lies beyond what raises it, so that it does not flap.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from memory.gamestate.confidence import Confidence

# Percent of the hull above the threshold, and the share of a full hold, that clear.
HULL_BEYOND = 10
HOLD_CLEARS = 0.9
# What time is counted by: a fact that was read lately and that nothing has touched.
SURE = (Confidence.FRESH, Confidence.MERGED, Confidence.AGEING)
IDLE, RUNNING = "idle", "running"


@dataclass(frozen=True, slots=True)
class Known:
    """A number of the game, how far to believe it, and its age in ticks, if known."""

    value: float
    confidence: Confidence = Confidence.FRESH
    age: int | None = None

    @property
    def doubted(self) -> bool:
        """Whether something has changed it since."""
        return self.confidence == Confidence.INVALIDATED

    @property
    def sure(self) -> bool:
        return self.confidence in SURE

    @property
    def as_of(self) -> str:
        """When it was so, where that is not now; stands behind the number."""
        old = self.confidence in (Confidence.AGEING, Confidence.STALE)
        if not old:
            return ""
        return f" (as of {self.age} ticks ago)" if self.age else " (as of a while ago)"


@dataclass(frozen=True, slots=True)
class Attack:
    """The newest hit; ``by`` is empty where the game does not say who."""

    at: datetime
    by: str = ""
    damage: float | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of one Mysis and its ship; None is unknown.

    ``place`` is where the ship is, None also while it flies or where that is in doubt;
    ``place_name`` says it in words.
    ``jumps`` are those to the nearest system with a known base. ``repeats`` counts equal
    results of the newest call. ``troubles`` are texts by rule, of what is no game alarm,
    and ``causes`` what those have in common with the troubles of others, where it is known.
    ``fuel_per_jump`` is what the game told of this ship.
    """

    state: str
    account: str = ""
    tick: int | None = None
    fuel: Known | None = None
    hull: Known | None = None
    max_hull: Known | None = None
    cargo_used: Known | None = None
    cargo_limit: Known | None = None
    credits: Known | None = None
    place: str | None = None
    place_name: str = ""
    docked: bool | None = None
    jumps: int | None = None
    fuel_per_jump: float | None = None
    fuel_cells: bool = False
    attack: Attack | None = None
    repeats: int = 0
    stuck: str = ""
    troubles: Mapping[str, str] = field(default_factory=dict)
    causes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Evidence:
    """Since when something has been so; None is: it is not, or nobody knows."""

    account: str = ""
    credits: int | None = None
    earned_at: datetime | None = None
    place: str = ""
    moved_at: datetime | None = None
    full_tick: int | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """The thresholds, in the units of their names, and the rules that are judged."""

    rules: Collection[str]
    fuel_per_jump: int = 3
    fuel_spare: int = 5
    hull_percent: int = 30
    attack_minutes: int = 5
    hold_ticks: int = 30
    income_minutes: int = 60
    place_minutes: int = 60
    loop_results: int = 5


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a rule holds; None: leave it as it is. ``text`` says why.

    ``cause`` is what others may have too; without one, the text stands for it.
    """

    raised: bool | None
    text: str = ""
    cause: str = ""


WAIT = Verdict(None)


@dataclass(frozen=True, slots=True)
class Case:
    """All that a rule judges by."""

    facts: Facts
    evidence: Evidence
    limits: Limits
    now: datetime


def judge(case: Case) -> dict[str, Verdict]:
    """The verdict of each rule that is judged, and of none that is not."""
    return {rule: _judge_rule(rule, case) for rule in sorted(case.limits.rules)}


def _judge_rule(rule: str, case: Case) -> Verdict:
    of_game = GAME_RULES.get(rule)
    if of_game is None:
        text = case.facts.troubles.get(rule, "")
        cause = case.facts.causes.get(rule, "")
        return Verdict(bool(text), text or "It is so no more.", cause)
    if case.facts.state not in (IDLE, RUNNING):
        return Verdict(False, f"It is {case.facts.state}.")
    if rule not in OF_CALLS and not case.facts.account:
        return Verdict(False, "It flies no account.")
    if rule in WHILE_RUNNING and case.facts.state != RUNNING:
        return Verdict(False, "It does not run.")
    return of_game(case)


def _judge_fuel(case: Case) -> Verdict:
    facts, limits = case.facts, case.limits
    fuel = facts.fuel
    if facts.docked:
        return Verdict(False, "It is docked.")
    if facts.fuel_cells:
        return Verdict(False, "It has fuel cells in its hold.")
    if fuel is None or fuel.doubted or facts.jumps is None:
        return WAIT
    jump = facts.fuel_per_jump or limits.fuel_per_jump
    need = facts.jumps * jump + limits.fuel_spare
    has = f"Fuel {fuel.value:,.0f}{fuel.as_of}"
    far = (
        "a base in its system"
        if not facts.jumps
        else f"a base {_jumps(facts.jumps)} away"
    )
    if fuel.value < need:
        return Verdict(True, f"{has}: {far} needs {need:,.0f}.")
    enough = fuel.value >= need + jump
    return Verdict(False, f"{has} is enough.") if enough else WAIT


def _jumps(count: int) -> str:
    return "1 jump" if count == 1 else f"{count} jumps"


def _judge_hull(case: Case) -> Verdict:
    hull, most = case.facts.hull, case.facts.max_hull
    if hull is None or most is None or hull.doubted or most.value <= 0:
        return WAIT
    percent = 100 * hull.value / most.value
    text = f"Hull {hull.value:,.0f} of {most.value:,.0f}{hull.as_of}."
    if percent < case.limits.hull_percent:
        return Verdict(True, text)
    clears = percent >= min(100, case.limits.hull_percent + HULL_BEYOND)
    return Verdict(False, text) if clears else WAIT


def _judge_attack(case: Case) -> Verdict:
    attack = case.facts.attack
    lasts = timedelta(minutes=case.limits.attack_minutes)
    if attack is None or case.now - attack.at >= lasts:
        return Verdict(False, "No hit for a while.")
    by = f" by {attack.by}" if attack.by else ""
    hurt = f", {attack.damage:,.0f} damage" if attack.damage is not None else ""
    return Verdict(True, f"Attacked{by}{hurt}.")


def _judge_hold(case: Case) -> Verdict:
    used, limit = case.facts.cargo_used, case.facts.cargo_limit
    if used is None or limit is None or used.doubted or limit.value <= 0:
        return WAIT
    if used.value <= HOLD_CLEARS * limit.value:
        return Verdict(False, f"Hold {used.value:,.0f} of {limit.value:,.0f}.")
    since, tick = case.evidence.full_tick, case.facts.tick
    full = used.sure and used.value >= limit.value
    if not full or since is None or tick is None:
        return WAIT
    ticks = tick - since
    if ticks < case.limits.hold_ticks:
        return WAIT
    return Verdict(
        True,
        f"Hold full, {used.value:,.0f} of {limit.value:,.0f}, for {ticks:,} ticks.",
    )


def _judge_income(case: Case) -> Verdict:
    known, since = case.facts.credits, case.evidence.earned_at
    if since is None:
        return WAIT
    minutes = int((case.now - since) / timedelta(minutes=1))
    if minutes < case.limits.income_minutes:
        return Verdict(False, "It gained credits.")
    if known is None or not known.sure:
        return WAIT
    return Verdict(
        True, f"No credits gained for {_time(minutes)}: it has {known.value:,.0f}."
    )


def _judge_place(case: Case) -> Verdict:
    place, since = case.facts.place, case.evidence.moved_at
    if since is None:
        return WAIT
    minutes = int((case.now - since) / timedelta(minutes=1))
    if minutes < case.limits.place_minutes:
        return Verdict(False, "It has moved on.")
    if place is None or place != case.evidence.place:
        return WAIT
    return Verdict(True, f"At {case.facts.place_name or place} for {_time(minutes)}.")


def _time(minutes: int) -> str:
    hours, rest = divmod(minutes, 60)
    # The text is written anew whenever it changes: not every minute for days.
    return (
        f"{minutes} min"
        if not hours
        else f"{hours} h" + (f" {rest // 10}0 min" if rest >= 10 else "")
    )


def _judge_loop(case: Case) -> Verdict:
    repeats, most = case.facts.repeats, case.limits.loop_results
    if repeats >= most:
        same = f"The same call brought the same result {repeats} times."
        return Verdict(True, case.facts.stuck or same)
    return Verdict(False, "It does something else.") if repeats <= most // 2 else WAIT


GAME_RULES: Mapping[str, Callable[[Case], Verdict]] = {
    "fuel": _judge_fuel,
    "hull": _judge_hull,
    "attacked": _judge_attack,
    "hold_full": _judge_hold,
    "no_income": _judge_income,
    "one_place": _judge_place,
    "loop": _judge_loop,
}
WHILE_RUNNING = frozenset({"no_income", "one_place", "loop"})
# Judged by its calls, with an account or without.
OF_CALLS = frozenset({"loop"})


# --- What alarms wait for


def update_evidence(before: Evidence, facts: Facts, now: datetime) -> Evidence:
    """The evidence after one more look; that of another account begins anew.

    Time is counted only while the Mysis runs, and starts when somebody first looks. A
    fact in doubt leaves it as it is.
    """
    found = before if before.account == facts.account else Evidence(facts.account)
    if facts.state == RUNNING:
        found = _note_place(_note_credits(found, facts, now), facts, now)
    else:
        found = replace(found, credits=None, earned_at=None, place="", moved_at=None)
    return _note_hold(found, facts)


def _note_credits(before: Evidence, facts: Facts, now: datetime) -> Evidence:
    known = facts.credits
    if known is None or not known.sure:
        return before
    amount = int(known.value)
    if before.credits is None or before.earned_at is None or amount > before.credits:
        return replace(before, credits=amount, earned_at=now)
    return replace(before, credits=amount)


def _note_place(before: Evidence, facts: Facts, now: datetime) -> Evidence:
    if facts.place is None or (facts.place == before.place and before.moved_at):
        return before
    return replace(before, place=facts.place, moved_at=now)


def _note_hold(before: Evidence, facts: Facts) -> Evidence:
    used, limit, tick = facts.cargo_used, facts.cargo_limit, facts.tick
    if used is None or limit is None or tick is None or not used.sure:
        return before
    if limit.value <= 0 or used.value < limit.value:
        return replace(before, full_tick=None)
    # The tick of a server that began anew lies before.
    keeps = before.full_tick is not None and before.full_tick <= tick
    return before if keeps else replace(before, full_tick=tick)
