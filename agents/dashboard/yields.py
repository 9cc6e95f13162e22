"""What the fleet earns: credits by Mysis, prompt version, policy and model.

Credits are added up from `CreditChange`, the rest from rows of turns, each of which tells
what it was flown with. A change counts when it became known, for the turn that caused it,
and else for the Mysis alone, so the sum over Myses is the sum over purses. A turn that knew
no purse is unknown, not zero: rates leave out its time, tokens and cost as well. A turn
belongs to the moment at which it began.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple, Self

from agents.dashboard.charts import find_first_turn_since, find_rate
from agents.dashboard.shared_results import shared, time_bucket
from agents.models import Mysis, PromptVersion
from agents.models.fleet import find_page_key
from memory.concurrency import ConcurrencyLimit, limit_statements
from memory.models import fetch_rows
from memory.models.contexts import BUILT_IN
from memory.problems import make_busy

GROUPINGS = {
    "mysis": "Mysis",
    "prompt": "Prompt version",
    "policy": "Policy",
    "model": "Model",
}
# What the page offers; any other span may be asked for over REST.
SPANS = ("1h", "6h", "24h", "7d")
SHORTEST, LONGEST = timedelta(minutes=5), timedelta(days=31)
_UNITS = {"m": "minutes", "h": "hours", "d": "days"}
# Sums over days change slowly, and take longer: they are shared for a minute.
LONG_SPAN, LONG_SHARE = timedelta(hours=12), 6
TOO_SLOW = "Yields took too long to add up: ask for a shorter span."
_place = ConcurrencyLimit(
    1, seconds=10, refusal="Others are asking for yields: not added up."
)

_WHAT = "mysis_id, prompt_version_id, policy_name, model"
# Of the time since the turn before, only what lies in the span.
_SECONDS = """
extract(epoch FROM coalesce(finished_at, %(now)s::timestamptz)
  - greatest(coalesce(previous_end, started_at), %(since)s::timestamptz))
"""
_KNOWN = "FILTER (WHERE credits_before IS NOT NULL)"
_TURNS = f"""
SELECT {_WHAT}, CASE WHEN count(credits_before) > 0 THEN 0 END, count(*),
  count(*) FILTER (WHERE credits_before IS NULL),
  sum(input_tokens + output_tokens)::bigint, sum(cost),
  sum(actions)::bigint, sum(failed_actions)::bigint,
  sum({_SECONDS})::float8,
  sum(greatest(0, least(idle_seconds,
    extract(epoch FROM started_at - %(since)s::timestamptz))))::float8,
  coalesce(sum({_SECONDS}) {_KNOWN}, 0)::float8,
  coalesce(sum(input_tokens + output_tokens) {_KNOWN}, 0)::bigint,
  coalesce(sum(cost) {_KNOWN}, 0)
FROM agents_turn WHERE id >= %(floor)s GROUP BY {_WHAT}
"""  # noqa: S608 (no input in the text)
# The changes that no turn caused are apart: they are of no prompt, policy or model.
_CREDITS = """
SELECT change.mysis_id, turn.prompt_version_id, turn.policy_name, turn.model,
  turn.id IS NULL, sum(amount)::bigint
FROM agents_creditchange AS change LEFT JOIN agents_turn AS turn
  ON turn.id = change.turn_id
WHERE change.at >= %(since)s AND change.credits IS NOT NULL GROUP BY 1, 2, 3, 4, 5
"""
# Every Mysis, with what has passed since its last turn ended; nothing while one runs.
_TAILS = """
SELECT mysis.id, mysis.name, mysis.state, last.prompt_version_id, last.policy_name,
  last.model, last.id IS NULL, last.credits_before IS NOT NULL,
  CASE WHEN last.id IS NULL OR last.finished_at IS NOT NULL THEN extract(epoch FROM
    %(now)s::timestamptz - greatest(coalesce(last.finished_at, mysis.created_at),
      %(since)s::timestamptz))::float8 ELSE 0 END,
  CASE WHEN last.id IS NULL OR last.finished_at IS NOT NULL THEN extract(epoch FROM
    %(now)s::timestamptz - greatest(coalesce(last.finished_at, mysis.created_at),
      last.waits_until, %(since)s::timestamptz))::float8 ELSE 0 END
FROM agents_mysis AS mysis LEFT JOIN LATERAL (
  SELECT id, prompt_version_id, policy_name, model, finished_at, waits_until,
    credits_before
  FROM agents_turn WHERE mysis_id = mysis.id ORDER BY id DESC LIMIT 1
) AS last ON true
"""
_ORDERS = """
SELECT turn.mysis_id, turn.prompt_version_id, turn.policy_name, turn.model, count(*)
FROM agents_turn AS turn JOIN agents_delivery AS delivery ON delivery.turn_id = turn.id
JOIN agents_orderrecipient AS told ON told.memory_id = delivery.memory_id
WHERE turn.id >= %(floor)s AND told.state = 'done'
GROUP BY 1, 2, 3, 4
"""


class Flown(NamedTuple):
    """Who flew, and with what; ``model`` is empty where that was not kept yet."""

    mysis: int
    prompt_version: int | None
    policy: str
    model: str


@dataclass(frozen=True, slots=True)
class Sums:
    """What turns came to. ``credits`` is None where no purse was known.

    ``seconds`` are those since the turns before, ``idle_seconds`` those of them in which
    no turn ran and none was put off; cost in US dollars. What is ``known`` is of the turns
    whose purse was known, rates of credits divide by it; ``known_myses`` took them, and
    ``myses`` all of the time.
    """

    credits: int | None = None
    turns: int = 0
    unknown_turns: int = 0
    tokens: int = 0
    cost: Decimal = Decimal(0)
    actions: int = 0
    failed_actions: int = 0
    seconds: float = 0.0
    idle_seconds: float = 0.0
    known_seconds: float = 0.0
    known_tokens: int = 0
    known_cost: Decimal = Decimal(0)
    known_myses: int = 0
    myses: int = 0
    orders_done: int = 0

    def __add__(self, other: Self) -> Self:
        both = {
            each.name: getattr(self, each.name) + getattr(other, each.name)
            for each in fields(self)
            if each.name != "credits"
        }
        known = [one for one in (self.credits, other.credits) if one is not None]
        return type(self)(credits=sum(known) if known else None, **both)

    @property
    def hours(self) -> float:
        return self.seconds / 3600

    @property
    def known_hours(self) -> float:
        return self.known_seconds / 3600

    @property
    def per_hour(self) -> float | None:
        """Credits an hour of one Mysis; None where unknown, or too short to tell."""
        return find_rate(self.credits, self.known_seconds, self.known_myses)

    @property
    def per_1k_tokens(self) -> float | None:
        if self.credits is None or not self.known_tokens:
            return None
        return self.credits / self.known_tokens * 1000

    @property
    def per_dollar(self) -> float | None:
        """None where the calls have no price."""
        if self.credits is None or not self.known_cost:
            return None
        return self.credits / float(self.known_cost)

    @property
    def failed_share(self) -> float | None:
        return self.failed_actions / self.actions if self.actions else None

    @property
    def idle_share(self) -> float | None:
        return min(1.0, self.idle_seconds / self.seconds) if self.seconds else None


@dataclass(frozen=True, slots=True)
class YieldLine:
    """One line of the board: a Mysis, prompt version, policy or model.

    ``key`` is what leads to it: the key of the Mysis's page, the number of the prompt.
    """

    label: str
    sums: Sums
    myses: int = 1
    mysis: int | None = None
    state: str = ""
    key: str = ""


class Pilot(NamedTuple):
    """A Mysis as the board names it."""

    name: str
    state: str


@dataclass(frozen=True, slots=True)
class FleetYield:
    """What a span brought, by who flew with what."""

    since: datetime
    now: datetime
    sums: Mapping[Flown, Sums]
    pilots: Mapping[int, Pilot]
    # Credits by Mysis that no turn of it caused.
    apart: Mapping[int, Sums]
    # Time after the last turn of each Mysis; it is of that turn's settings.
    tails: Mapping[Flown, Sums]
    # Those that never flew, or are stopped and began no turn in the span.
    grounded: frozenset[int]
    # What a line is added up from: sums of the kind that all of them are.
    nothing: Sums = Sums()


def parse_span(text: str) -> timedelta | None:
    """A span such as 90m, 8h or 7d, of five minutes to 31 days; None for another."""
    found = re.fullmatch(r"([1-9]\d{0,4})([mhd])", text, re.ASCII)
    if found is None:
        return None
    span = timedelta(**{_UNITS[found[2]]: int(found[1])})
    return span if SHORTEST <= span <= LONGEST else None


_OFFERED = frozenset(parse_span(text) for text in SPANS)


def share_yield(span: timedelta, now: datetime) -> FleetYield:
    """`add_up_yield`, once for all who ask within ten seconds; within a minute for days.

    Raises a 503 Problem where that takes too long.
    """
    seen = time_bucket(now)
    version = seen // LONG_SHARE if span > LONG_SPAN else seen

    def add_up() -> FleetYield:
        # Pages offer only a few spans, so they need no limit.
        place = nullcontext() if span in _OFFERED else _place.taken()
        with place, limit_statements(make_busy(TOO_SLOW)):
            return add_up_yield(now - span, now)

    return shared.get(("yield", span, version), add_up)


def add_up_yield(since: datetime, now: datetime) -> FleetYield:
    """Everything since a moment; as many statements for any number of Myses."""
    floor = find_first_turn_since(since)
    values = {"now": now, "since": since, "floor": floor}
    found: dict[Flown, Sums] = {}
    for mysis, prompt, policy, model, *sums in (
        fetch_rows(_TURNS, values) if floor is not None else ()
    ):
        found[Flown(mysis, prompt, policy, model)] = Sums(*sums)
    for flown, done in count_orders_done(floor).items():
        if flown in found:
            found[flown] = replace(found[flown], orders_done=done)
    flew = {flown.mysis for flown in found}
    apart = _add_credits(found, values)
    pilots, tails, grounded = {}, {}, set()
    for pk, name, state, prompt, policy, model, never, known, rest, idle in fetch_rows(
        _TAILS, values
    ):
        pilots[pk] = Pilot(name, state)
        flown = Flown(pk, prompt, policy or "", model or "")
        rest = max(0.0, rest)
        tails[flown] = Sums(
            seconds=rest,
            idle_seconds=max(0.0, idle),
            known_seconds=rest if known else 0.0,
        )
        if never or (state == Mysis.State.STOPPED and pk not in flew):
            grounded.add(pk)
    return FleetYield(since, now, found, pilots, apart, tails, frozenset(grounded))


def _add_credits(
    found: dict[Flown, Sums], values: Mapping[str, object]
) -> dict[int, Sums]:
    """Add to each what it earned, also by a turn before; returns what no turn caused."""
    apart: dict[int, Sums] = {}
    for mysis, prompt, policy, model, no_turn, amount in fetch_rows(_CREDITS, values):
        if no_turn:
            apart[mysis] = Sums(amount)
        else:
            flown = Flown(mysis, prompt, policy, model)
            found[flown] = found.get(flown, Sums()) + Sums(amount)
    return apart


def count_orders_done(floor: int | None) -> dict[Flown, int]:
    """The orders done, by who flew with what; ``floor`` is the first turn.

    One is done when its Mysis says so or an operator ticks it, and counts for the turn
    that was shown it first.
    """
    rows = fetch_rows(_ORDERS, {"floor": floor}) if floor is not None else ()
    return {Flown(*flown): done for *flown, done in rows}


# --- Lines


def list_lines(found: FleetYield, by: str) -> list[YieldLine]:
    """The lines by one of `GROUPINGS`, by name; every Mysis has one."""
    if by == "mysis":
        return list_myses(found)
    label, key = _LABELS[by](found)
    # Who has not flown in the span says nothing of its prompt, policy or model.
    flew = {who for who, one in found.sums.items() if one.turns}
    rests = [(who, rest) for who, rest in found.tails.items() if who in flew]
    sums: defaultdict[Any, Sums] = defaultdict(lambda: found.nothing)
    myses: defaultdict[Any, set[int]] = defaultdict(set)
    known: defaultdict[Any, set[int]] = defaultdict(set)
    for flown, one in (*found.sums.items(), *rests):
        sums[key(flown)] += one
        myses[key(flown)].add(flown.mysis)
        if one.known_seconds:
            known[key(flown)].add(flown.mysis)
    lines = [
        replace(
            label(one),
            sums=replace(sums[one], known_myses=len(known[one]), myses=len(myses[one])),
            myses=len(myses[one]),
        )
        for one in sums
    ]
    rest = [one for mysis, one in found.apart.items() if mysis in found.pilots]
    if moved := sum(bool(one.credits) for one in rest):
        lines.append(YieldLine(NO_TURN, sum(rest, found.nothing), moved))
    return sorted(lines, key=lambda line: line.label)


def list_myses(found: FleetYield) -> list[YieldLine]:
    """The lines of all Myses, by name."""
    sums = dict.fromkeys(found.pilots, found.nothing)
    for flown, one in (*found.sums.items(), *found.tails.items()):
        # One that was deleted between the two statements has no line.
        if flown.mysis in sums:
            sums[flown.mysis] += one
    for pk in sums.keys() & found.apart.keys():
        sums[pk] += found.apart[pk]
    return sorted(
        (
            YieldLine(
                pilot.name,
                replace(sums[pk], known_myses=int(sums[pk].known_seconds > 0), myses=1),
                mysis=pk,
                state=pilot.state,
                key=find_page_key(pk, pilot.name),
            )
            for pk, pilot in found.pilots.items()
        ),
        key=lambda line: line.label,
    )


def add_up_lines(found: FleetYield) -> Sums:
    """The whole fleet; of Myses that never flew or were stopped all the span no more
    than their credits."""
    lines = list_myses(found)
    sums = (
        replace(found.nothing, credits=line.sums.credits)
        if line.mysis in found.grounded
        else line.sums
        for line in lines
    )
    return sum(sums, found.nothing)


Labeller = tuple[Callable[[Any], YieldLine], Callable[[Flown], Any]]


def _label_prompts(found: FleetYield) -> Labeller:
    numbers = {one.prompt_version for one in found.sums}
    versions = name_prompt_versions(numbers)

    def label(kept: tuple[bool, int | None]) -> YieldLine:
        if not kept[0]:
            return YieldLine(NOT_KEPT, Sums())
        return versions[kept[1]]

    return label, lambda flown: (bool(flown.model), flown.prompt_version)


NOT_KEPT = "not kept yet"
NO_TURN = "not by a turn"
BUILT_IN_PROMPT = "the built-in prompt"


def name_prompt_versions(numbers: Iterable[int | None]) -> dict[int | None, YieldLine]:
    """Names such as "captain v2" of versions by number, in one query."""
    wanted = {number for number in numbers if number is not None}
    rows = PromptVersion.objects.filter(pk__in=wanted).select_related("prompt")
    lines: dict[int | None, YieldLine] = {
        number: YieldLine(f"a deleted prompt ({number})", Sums()) for number in wanted
    }
    for row in rows:
        lines[row.pk] = YieldLine(str(row), Sums(), key=str(row.prompt_id))
    return lines | {None: YieldLine(BUILT_IN_PROMPT, Sums())}


def _quote_ours(name: str) -> str:
    """A name that somebody gave; in quotes where it reads like one of our own words."""
    return f'"{name}"' if name in (NOT_KEPT, NO_TURN, BUILT_IN) else name


def _label_policies(found: FleetYield) -> Labeller:
    def label(kept: tuple[bool, str]) -> YieldLine:
        named = _quote_ours(kept[1]) or BUILT_IN
        return YieldLine(named if kept[0] else NOT_KEPT, Sums())

    return label, lambda flown: (bool(flown.model), flown.policy)


def _label_models(found: FleetYield) -> Labeller:
    def label(model: str) -> YieldLine:
        return YieldLine(_quote_ours(model) or NOT_KEPT, Sums())

    return label, lambda flown: flown.model


_LABELS: Mapping[str, Callable[[FleetYield], Labeller]] = {
    "prompt": _label_prompts,
    "policy": _label_policies,
    "model": _label_models,
}
