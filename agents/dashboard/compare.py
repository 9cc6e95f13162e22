"""Two Myses on one time axis: what they did, earned and were flown with, and think."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple

from agents.dashboard import conversation
from agents.dashboard.charts import find_first_turn_since
from agents.dashboard.conversation import Line
from agents.dashboard.lane_chart import LaneChart, draw_lanes
from agents.dashboard.lanes import Lane, Lanes, find_version, read_lanes
from agents.dashboard.search import find_first_id_since
from agents.dashboard.shared_results import shared
from agents.dashboard.time_axis import Axis, TimeSpan
from agents.dashboard.yields import (
    NOT_KEPT,
    Sums,
    list_myses,
    name_prompt_versions,
    share_yield,
)
from agents.models import Mysis, Turn
from memory.models import Memory, fetch_rows
from memory.models.contexts import BUILT_IN

STEPS = 200
# Units down a drawing of credits or of actions.
HIGH = 60
# Messages among which the newest reasoning is looked for: not every model tells one.
LATE = 300
# Of what a Mysis was flown with before its first turn.
NEVER = "none yet"
# Of each step: its turns and what they came to, and the purse at its begin and end.
_TURNS = """
SELECT mysis_id,
  floor(extract(epoch FROM started_at - %(since)s::timestamptz) / %(step)s)::int,
  count(*), sum(input_tokens + output_tokens)::bigint, sum(cost),
  sum(actions)::bigint, sum(failed_actions)::bigint,
  CASE WHEN count(credits_before) > 0 THEN 0 END,
  (array_agg(credits_before ORDER BY id) FILTER (WHERE credits_before IS NOT NULL))[1],
  (array_agg(credits_after ORDER BY id DESC) FILTER (WHERE credits_after IS NOT NULL))[1]
FROM agents_turn WHERE mysis_id = ANY(%(myses)s) AND id >= %(floor)s
  AND started_at >= %(since)s AND started_at < %(until)s
GROUP BY 1, 2 ORDER BY 1, 2
"""


# What became known in a step: the gain, and the purse at first and at last.
_CREDITS = """
SELECT mysis_id, floor(extract(epoch FROM at - %(since)s::timestamptz) / %(step)s)::int,
  sum(amount)::bigint, (array_agg(credits - amount ORDER BY id))[1],
  (array_agg(credits ORDER BY id DESC))[1]
FROM agents_creditchange WHERE mysis_id = ANY(%(myses)s)
  AND at >= %(since)s AND at < %(until)s AND credits IS NOT NULL
GROUP BY 1, 2
"""


class StepSums(NamedTuple):
    """What the turns that began in one step came to, and the credits that became known
    in it; those are None where unknown."""

    place: int
    turns: int = 0
    tokens: int = 0
    cost: Decimal = Decimal(0)
    actions: int = 0
    failed: int = 0
    gained: int | None = None
    before: int | None = None
    after: int | None = None


class Flown(NamedTuple):
    """What a Mysis was flown with in its last turn of a span or before it, in words."""

    prompt: str = NEVER
    policy: str = NEVER
    model: str = NEVER


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two; ``rates`` are those of the yield board, None for a past span."""

    mysis: Mysis
    lane: Lane
    steps: Sequence[StepSums]
    flown: Flown
    thought: Line | None
    rates: Sums | None
    credits: str
    bars: str
    failed_bars: str

    @property
    def turns(self) -> int:
        return sum(step.turns for step in self.steps)

    @property
    def tokens(self) -> int:
        return sum(step.tokens for step in self.steps)

    @property
    def cost(self) -> Decimal:
        return sum((step.cost for step in self.steps), Decimal(0))

    @property
    def actions(self) -> int:
        return sum(step.actions for step in self.steps)

    @property
    def failed(self) -> int:
        return sum(step.failed for step in self.steps)

    @property
    def gained(self) -> int | None:
        known = [step.gained for step in self.steps if step.gained is not None]
        return sum(known) if known else None

    @property
    def last_credits(self) -> int | None:
        known = [step.after for step in self.steps if step.after is not None]
        return known[-1] if known else None


@dataclass(frozen=True, slots=True)
class Comparison:
    """Both sides, with the drawing of their lanes and the scales that they share."""

    sides: Sequence[Side]
    lanes: Lanes
    chart: LaneChart
    low: int
    high: int
    most_actions: int

    @property
    def axis(self) -> Axis:
        return self.lanes.axis


@dataclass(frozen=True, slots=True)
class CompareView:
    """What an address asks for: two Myses by number, and when."""

    a: int
    b: int
    span: TimeSpan

    @property
    def params(self) -> dict[str, str]:
        return {"a": str(self.a), "b": str(self.b)}


def share_comparison(view: CompareView, now: datetime) -> Comparison | None:
    """`compare`, once for all who ask within ten seconds; longer for long spans."""
    key = ("compare", view, find_version(view.span, now))
    return shared.get(key, lambda: compare(view, now))


def compare(view: CompareView, now: datetime) -> Comparison | None:
    """The two side by side; None where one of them is gone."""
    ids = [view.a, view.b]
    found = Mysis.objects.in_bulk(ids)
    if len(found) < len(ids):
        return None
    axis = view.span.make_axis(now, STEPS)
    lanes = read_lanes(ids, axis)
    if lanes.slow:
        return Comparison((), lanes, draw_lanes(lanes), 0, 0, 0)
    if len(lanes.lanes) < len(ids):
        return None
    steps = _read_steps(ids, axis)
    rates = _read_rates(view.span, now)
    flown = _read_flown(ids, view.span, now)
    every = [step for number in ids for step in steps[number]]
    levels = {number: _add_up_gains(steps[number]) for number in ids}
    heights = [height for points in levels.values() for _, height in points]
    low, high = min(heights, default=0), max(heights, default=0)
    most = max((step.actions for step in every), default=0)
    sides = [
        Side(
            mysis=found[number],
            lane=lane,
            steps=steps[number],
            flown=flown.get(number, Flown()),
            thought=_read_thought(found[number], view.span, now),
            rates=rates.get(number),
            credits=_draw_gains(levels[number], low, high),
            bars=_draw_bars(((s.place, s.actions) for s in steps[number]), most),
            failed_bars=_draw_bars(((s.place, s.failed) for s in steps[number]), most),
        )
        for number, lane in zip(ids, lanes.lanes, strict=True)
    ]
    return Comparison(sides, lanes, draw_lanes(lanes), low, high, most)


def _read_steps(ids: Sequence[int], axis: Axis) -> dict[int, list[StepSums]]:
    found: dict[int, dict[int, StepSums]] = {number: {} for number in ids}
    values: dict[str, Any] = {
        "myses": list(ids),
        "floor": find_first_turn_since(axis.since),
        "since": axis.since,
        "until": axis.until,
        "step": axis.step,
    }
    for mysis, place, *sums in fetch_rows(_TURNS, values):
        found[mysis][place] = StepSums(place, *sums)
    for mysis, place, gained, before, after in fetch_rows(_CREDITS, values):
        step = found[mysis].get(place, StepSums(place))
        found[mysis][place] = step._replace(gained=gained, before=before, after=after)
    return {
        mysis: [steps[place] for place in sorted(steps)]
        for mysis, steps in found.items()
    }


def _read_rates(span: TimeSpan, now: datetime) -> Mapping[int | None, Sums]:
    if span.until is not None:
        return {}
    return {line.mysis: line.sums for line in list_myses(share_yield(span.length, now))}


def _read_flown(ids: Sequence[int], span: TimeSpan, now: datetime) -> dict[int, Flown]:
    """What each was flown with last, as far as a span goes; who never flew has none."""
    rows = Turn.objects.filter(mysis__in=ids)
    end = _find_past_end(span, now)
    later = None if end is None else find_first_turn_since(end)
    rows = rows if later is None else rows.filter(id__lt=later)
    newest = rows.order_by("mysis", "-id").distinct("mysis")
    turns = list(newest.only("mysis_id", "prompt_version_id", "policy_name", "model"))
    names = name_prompt_versions(turn.prompt_version_id for turn in turns)
    return {
        turn.mysis_id: Flown(
            prompt=names[turn.prompt_version_id].label,
            policy=turn.policy_name or BUILT_IN,
            model=turn.model,
        )
        # Older rows do not tell it.
        if turn.model
        else Flown(NOT_KEPT, NOT_KEPT, NOT_KEPT)
        for turn in turns
    }


def _find_past_end(span: TimeSpan, now: datetime) -> datetime | None:
    """Where a span ended; None for one that goes on."""
    return span.until if span.until is not None and span.until < now else None


def _read_thought(mysis: Mysis, span: TimeSpan, now: datetime) -> Line | None:
    """Its newest reasoning in a span or before it, else what it said last, if it did."""
    own = Memory.objects.filter(mysis=mysis, branch=None)
    end = _find_past_end(span, now)
    if end is not None:
        own = own.filter(id__lt=find_first_id_since(Memory, end))
    late = own.order_by("-id").values("id")[:LATE]
    said = Memory.objects.filter(id__in=late, role="assistant").order_by("-id")
    chosen = said.exclude(reasoning="").first() or said.exclude(content="").first()
    if chosen is None:
        return None
    return next(iter(conversation.load_lines(mysis, [chosen.pk])), None)


def _add_up_gains(steps: Sequence[StepSums]) -> list[tuple[int, int]]:
    """Where each step of known credits begins and ends, with what was gained until then.

    Not the purses: another account has another one, and that is no gain.
    """
    points, gained = [], 0
    for step in steps:
        if step.gained is not None:
            points += [(step.place, gained), (step.place + 1, gained + step.gained)]
            gained += step.gained
    return points


def _draw_gains(points: Sequence[tuple[int, int]], low: int, high: int) -> str:
    drawn = (
        f"{place} {2 + (HIGH - 4) * (high - gained) / max(1, high - low):.1f}"
        for place, gained in points
    )
    return "M" + "L".join(drawn) if points else ""


def _draw_bars(counts: Iterable[tuple[int, int]], most: int) -> str:
    """A bar in each step, as high as its part of the most."""
    return "".join(
        f"M{place} {HIGH}v-{max(2.0, HIGH * count / most):.1f}h1V{HIGH}z"
        for place, count in counts
        if count
    )
