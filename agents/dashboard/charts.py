"""Numbers as the coordinates of small SVG drawings.

The strict content policy allows no inline styles, so widths and heights are SVG
attributes, worked out here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from itertools import accumulate
from typing import Any

from django.db.models import Count, Sum

from agents.models import Turn
from memory.context import registry
from memory.context.types import Budget
from memory.models import fetch_rows

CATEGORIES = (
    "system", "tools", "pins", "notes", "summary",
    "state", "user", "assistant", "tool",
)  # fmt: skip
# Shares of a context from which on it is nearly full, and full.
HIGH, FULL = 0.70, 0.95
SPARK_HEIGHT = 20
HOUR = timedelta(hours=1)
# Seconds of a column, and columns of an hour.
BUCKET = 300
# In a shorter time of each Mysis a single sale would be a fortune an hour.
LEAST_SECONDS = 300
BUCKETS = 12
# Of each Mysis and each column: how many turns, their tokens and cost, how many failed,
# and the credits that became known. Last, as on the yield board, what rates divide by:
# seconds, tokens and cost of turns whose purse was known, and the seconds after the newest
# turn, which are its own.
# Ten lines a Mysis, from which the ORM would make as many objects.
_KNOWN = "FILTER (WHERE credits_before IS NOT NULL)"
GROUPED = f"""
WITH earned AS (
  SELECT mysis_id, floor(extract(epoch FROM at) / %(seconds)s)::bigint AS place,
    sum(amount)::bigint AS credits
  FROM agents_creditchange
  WHERE at >= %(since)s::timestamptz AND mysis_id = ANY(%(myses)s)
    AND credits IS NOT NULL GROUP BY 1, 2
), turns AS (
  SELECT mysis_id, floor(extract(epoch FROM started_at) / %(seconds)s)::bigint AS place,
    count(*) AS turns, sum(input_tokens + output_tokens) AS tokens, sum(cost) AS cost,
    count(*) FILTER (WHERE outcome = 'errored') AS failed,
    CASE WHEN count(credits_before) > 0 THEN 0 END AS credits,
    coalesce(sum(extract(epoch FROM coalesce(finished_at, %(now)s::timestamptz)
      - greatest(coalesce(previous_end, started_at), %(since)s::timestamptz)))
      {_KNOWN}, 0)::float8 AS known_seconds,
    coalesce(sum(input_tokens + output_tokens) {_KNOWN}, 0) AS known_tokens,
    coalesce(sum(cost) {_KNOWN}, 0) AS known_cost,
    CASE WHEN max(started_at) {_KNOWN} = max(started_at) THEN extract(epoch FROM
      %(now)s::timestamptz - max(coalesce(finished_at, %(now)s::timestamptz)))
      ELSE 0 END::float8 AS tail
  FROM agents_turn WHERE mysis_id = ANY(%(myses)s) AND id >= %(floor)s
  GROUP BY 1, 2
)
SELECT mysis_id, place, coalesce(turns, 0), coalesce(tokens, 0), coalesce(cost, 0),
  coalesce(failed, 0), coalesce(earned.credits, turns.credits),
  coalesce(known_seconds, 0), coalesce(known_tokens, 0), coalesce(known_cost, 0), tail
FROM turns FULL JOIN earned USING (mysis_id, place)
"""  # noqa: S608 (no input in the text)
_FIRST_TURN = """
SELECT id FROM agents_turn WHERE started_at >= %s::timestamptz
ORDER BY started_at, id LIMIT 1
"""
HourLine = tuple[
    int, int, int, int, Decimal, int, int | None, float, int, Decimal, float | None
]


@dataclass(frozen=True, slots=True)
class Segment:
    """One category's share of the context, in per cent of the whole width."""

    category: str
    tokens: int
    x: float
    width: float

    @property
    def share(self) -> str:
        return "<1 %" if 0 < self.width < 1 else f"{self.width:.0f} %"


@dataclass(frozen=True, slots=True)
class Gauge:
    """How full a context is. ``limit`` is the budget less the output reserve.

    ``free`` is what may still be filled and ``reserve`` what is kept for the answer;
    ``trigger`` is where the view is compacted, None where it never is or nobody knows.
    The widths of all, the free part and the reserve among them, come to 100.
    """

    used: int
    limit: int
    percent: int
    level: str
    segments: tuple[Segment, ...]
    free: Segment
    reserve: Segment
    trigger: Segment | None


@dataclass(frozen=True, slots=True)
class Bar:
    """One column of a sparkline; ``bad`` marks one that holds a failure."""

    x: int
    y: float
    height: float
    bad: bool


def make_gauge(stats: Mapping[str, object]) -> Gauge | None:
    """The gauge of a call's statistics (CONTEXT section 2), None without any."""
    counts = stats.get("tokens_by_category")
    if not isinstance(counts, Mapping):
        return None
    tokens = {name: _count(counts.get(name)) for name in CATEGORIES}
    used = sum(tokens.values())
    budget = Budget(_count(stats.get("budget")), _count(stats.get("reserve")))
    limit = max(1, budget.tokens - budget.reserve)
    share = used / limit
    level = "full" if share >= FULL else "high" if share >= HIGH else "ok"
    tokens |= {"free": max(0, limit - used), "reserve": budget.reserve}
    *parts, free, reserve = _segments(tokens)
    return Gauge(
        used,
        limit,
        round(share * 100),
        level,
        tuple(part for part in parts if part.tokens),
        free,
        reserve,
        _trigger(stats, budget, sum(tokens.values())),
    )


def _segments(tokens: Mapping[str, int]) -> list[Segment]:
    whole = max(1, sum(tokens.values()))
    found: list[Segment] = []
    x = 0.0
    for category, count in tokens.items():
        width = 100 * count / whole
        found.append(Segment(category, count, round(x, 2), round(width, 2)))
        x += width
    return found


def make_segments(tokens: Mapping[str, int]) -> tuple[Segment, ...]:
    """The shares of the categories that there are any of, which fill the whole width."""
    known = {name: tokens[name] for name in CATEGORIES if tokens.get(name)}
    return tuple(_segments(known))


def _trigger(stats: Mapping[str, object], budget: Budget, whole: int) -> Segment | None:
    """Where a strategy compacts; ``width`` is its share of what may be filled."""
    options = stats.get("options")
    if not isinstance(options, Mapping):
        return None
    try:
        known = registry.validate_options(str(stats.get("strategy")), options)
    except ValueError:
        return None
    at = known.trigger(budget)
    if not at:
        return None
    room = max(1, budget.tokens - budget.reserve)
    return Segment("trigger", at, round(100 * at / whole, 2), round(100 * at / room, 2))


def _count(value: object) -> int:
    return max(0, int(value)) if isinstance(value, int | float) else 0


@lru_cache(maxsize=4_096)
def make_bars(counts: tuple[int, ...], failures: tuple[int, ...]) -> tuple[Bar, ...]:
    """Columns of width 4 with a gap of 2, as high as their share of the most."""
    most = max([*counts, 1])
    found = []
    for place, (count, failed) in enumerate(zip(counts, failures, strict=True)):
        height = max(2.0, SPARK_HEIGHT * count / most) if count else 1.0
        y = SPARK_HEIGHT - height
        found.append(Bar(place * 6, round(y, 2), round(height, 2), failed > 0))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class MysisHour:
    """What one Mysis did in the last hour, in columns of five minutes.

    ``earned`` are credits, None where no purse was known; ``line`` is the path of what
    was earned by the end of each column. What is ``known`` is of the turns whose purse
    was known: rates divide by it. ``per_hour`` has three digits: an hour tells no
    more, and with all of them a row would be another one each second.
    """

    turns: int
    tokens: int
    cost: Decimal
    failures: int
    bars: tuple[Bar, ...]
    earned: int | None = None
    per_hour: float | None = None
    line: str = ""
    known_tokens: int = 0
    known_cost: Decimal = Decimal(0)

    @property
    def per_1k_tokens(self) -> float | None:
        """Credits for 1,000 tokens."""
        if self.earned is None or not self.known_tokens:
            return None
        return self.earned / self.known_tokens * 1000

    @property
    def per_dollar(self) -> float | None:
        """Credits for a dollar; None where the calls have no price."""
        if self.earned is None or not self.known_cost:
            return None
        return self.earned / float(self.known_cost)


def find_first_turn_since(moment: datetime) -> int | None:
    """The id of the oldest turn begun since then.

    Ids rise with the start, so a range of ids of one Mysis is one index range,
    while a range of times would read every Mysis's turns.
    """
    found = fetch_rows(_FIRST_TURN, [moment])
    return found[0][0] if found else None


def load_last_hours(mysis_ids: Sequence[int], now: datetime) -> dict[int, MysisHour]:
    """The last hour of each Mysis; all of them have an entry."""
    found: defaultdict[int, list[HourLine]] = defaultdict(list)
    floor = find_first_turn_since(now - HOUR)
    wanted = {
        "myses": list(mysis_ids),
        "floor": floor,
        "seconds": BUCKET,
        "now": now,
        "since": now - HOUR,
    }
    for line in fetch_rows(GROUPED, wanted):
        found[line[0]].append(line)
    newest = int(now.timestamp()) // BUCKET
    return {number: _hour(found[number], newest) for number in mysis_ids}


def _hour(lines: Sequence[HourLine], newest: int) -> MysisHour:
    counts, failures = [0] * BUCKETS, [0] * BUCKETS
    earned: list[int | None] = [None] * BUCKETS
    tokens, cost = 0, Decimal(0)
    for _, bucket, turns, spent_tokens, spent, failed, won, *_ in lines:
        # The hour began within the column before the first: that one counts to it. What
        # came since then, in the next column, counts to the last.
        place = min(max(0, bucket - newest + BUCKETS - 1), BUCKETS - 1)
        counts[place] += turns
        failures[place] += failed
        if won is not None:
            earned[place] = (earned[place] or 0) + int(won)
        tokens += spent_tokens
        cost += spent
    drawn = make_bars(tuple(counts), tuple(failures))
    known = [won for won in earned if won is not None]
    total = sum(known) if known else None
    # Of the newest column that has turns.
    tails = {line[1]: line[10] for line in lines if line[10] is not None}
    tail = tails[max(tails)] if tails else 0.0
    return MysisHour(
        sum(counts),
        tokens,
        cost,
        sum(failures),
        drawn,
        total,
        _round_rate(find_rate(total, sum(line[7] for line in lines) + max(0.0, tail))),
        draw_earned(tuple(won or 0 for won in earned)) if known else "",
        sum(line[8] for line in lines),
        sum((line[9] for line in lines), Decimal(0)),
    )


def find_rate(credits: int | None, seconds: float, myses: int = 1) -> float | None:
    """Credits an hour; None where unknown, or where the time is too short to tell."""
    if credits is None or seconds < LEAST_SECONDS * max(1, myses):
        return None
    return credits / seconds * 3600


def _round_rate(rate: float | None) -> float | None:
    # As the filter `rate` shows it: what shows the same is not drawn anew.
    return None if rate is None else float(f"{rate:.3g}")


@lru_cache(maxsize=4_096)
def draw_earned(earned: tuple[int, ...]) -> str:
    """A line through what was earned by the end of each column, over `make_bars`."""
    levels = list(accumulate(earned, initial=0))
    low, high = min(levels), max(levels)
    span = SPARK_HEIGHT - 2
    points = (
        f"{6 * place} {1 + span * (high - level) / max(1, high - low):.1f}"
        for place, level in enumerate(levels)
    )
    return "M" + "L".join(points)


@dataclass(frozen=True, slots=True)
class FleetHour:
    """The whole fleet's last hour."""

    turns: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost: Decimal = Decimal(0)

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    @property
    def per_turn(self) -> Decimal:
        """What one turn cost on average, in US dollars."""
        return self.cost / self.turns if self.turns else Decimal(0)


def load_fleet_hour(floor: int | None) -> FleetHour:
    """Turns, tokens and cost of all Myses; ``floor`` is the hour's first turn."""
    if floor is None:
        return FleetHour()
    columns = ("input_tokens", "output_tokens", "cached_tokens", "cost")
    sums: dict[str, Any] = Turn.objects.filter(id__gte=floor).aggregate(
        turns=Count("id"), **{name: Sum(name) for name in columns}
    )
    return FleetHour(**{name: value for name, value in sums.items() if value})
