"""/lanes: what each Mysis did over time. /compare: two of them on one time axis."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from django.http import HttpRequest
from django.utils import timezone
from ninja import Query, Router, Schema
from pydantic import BeforeValidator, Field

from agents.api.yields import YieldOut
from agents.dashboard.compare import CompareView, Side, share_comparison
from agents.dashboard.conversation import Line
from agents.dashboard.fleet import FleetView
from agents.dashboard.lanes import SECONDS, LanesView, share_lanes
from agents.dashboard.time_axis import LONGEST, SHORTEST, TimeSpan, parse_moment
from agents.dashboard.yield_board import describe_sums
from agents.dashboard.yields import parse_span
from memory.api.parameters import (
    FROM_QUERY,
    MysisReference,
    Page,
    get_owner,
    make_unknown_mysis,
)
from memory.handles import find_owner
from memory.problems import Problem, make_invalid
from memory.redaction import hide_secrets

lanes_router = Router(tags=["fleet"])

# What a side has of its lane.
LANE = ("id", "name", "state", "seconds", "steps", "marks")
# The number of a page; 0 is the first one too, as with every other cursor.
Cursor = Annotated[int, Field(ge=0, le=10_000, examples=[2]), FROM_QUERY]


def _read_moment(value: Any) -> datetime:
    moment = parse_moment(value) if isinstance(value, str) else None
    if moment is None:
        raise ValueError("give a moment such as 2026-11-25T05:00:00Z")
    return moment


# Without a zone it is in UTC; a number is none.
Moment = Annotated[
    datetime, Field(examples=["2026-11-25T05:00:00Z"]), BeforeValidator(_read_moment)
]


class StepOut(Schema):
    """So many steps of the axis from ``first`` on, of which one activity took most."""

    activity: str = Field(examples=["mining"])
    first: int = Field(examples=[0])
    length: int = Field(examples=[12])


class MarkOut(Schema):
    """Something that happened at a moment; ``turn`` or ``memory`` tells where it stands."""

    kind: Literal["order", "change", "compaction", "attack"] = Field(examples=["order"])
    at: datetime
    text: str = Field(examples=["Sell the iron ore."])
    turn: int | None = Field(examples=[None])
    memory: int | None = Field(examples=[1234])


class LaneOut(Schema):
    """What one Mysis did: ``seconds`` of each activity, exactly, and what is drawn."""

    mysis: int = Field(validation_alias="id", examples=[1])
    name: str = Field(examples=["Ada"])
    state: str = Field(examples=["running"])
    seconds: dict[str, float] = Field(examples=[{"mining": 5400.0, "at rest": 16200.0}])
    steps: list[StepOut]
    marks: list[MarkOut]


class AxisOut(Schema):
    """The time: ``count`` steps of ``step`` seconds from ``since`` until ``until``."""

    since: datetime
    until: datetime
    step: int = Field(examples=[120])
    count: int = Field(examples=[180])


class LanesPage(Page[LaneOut]):
    """Lanes in the order of names, out of ``matching``.

    In the part ``unseen`` of the time something else was done than the steps tell.
    ``cut``: there are more marks than the newest 400.
    """

    axis: AxisOut
    matching: int = Field(examples=[50])
    unseen: float = Field(examples=[0.02])
    cut: bool = Field(examples=[False])


class SumsOut(Schema):
    """What the turns that began in step ``place`` came to; null is unknown."""

    place: int = Field(examples=[0])
    turns: int = Field(examples=[3])
    tokens: int = Field(examples=[9500])
    cost: float = Field(examples=[0.002])
    actions: int = Field(examples=[2])
    failed: int = Field(examples=[0])
    gained: int | None = Field(examples=[100])
    before: int | None = Field(examples=[1000])
    after: int | None = Field(examples=[1100])


class ThoughtOut(Schema):
    """Its newest reasoning, else what it said last."""

    memory: int = Field(examples=[1234])
    at: datetime
    reasoning: str = Field(examples=["The belt is near."])
    content: str = Field(examples=["Off to the belt."])


class SideOut(LaneOut):
    """One of the two; prompt, policy and model are those of its last turn, in words.

    ``yields`` are the rates of the yield board, null for a span of the past.
    """

    prompt: str = Field(examples=["captain v2"])
    policy: str = Field(examples=["the built-in policy"])
    model: str = Field(examples=["openai:gpt-5-nano"])
    turns: int = Field(examples=[120])
    tokens: int = Field(examples=[387500])
    cost: float = Field(examples=[0.03])
    actions: int = Field(examples=[90])
    failed_actions: int = Field(examples=[3])
    credits_gained: int | None = Field(examples=[1240])
    credits: int | None = Field(examples=[5240])
    yields: YieldOut | None
    sums: list[SumsOut]
    thought: ThoughtOut | None


class ComparisonOut(Schema):
    """Both on one time axis, ``a`` first."""

    axis: AxisOut
    sides: list[SideOut]


class AskedSpan(Schema):
    """When: the last minutes or hours, or since a moment; until another one, or now."""

    since: Annotated[
        str,
        Field(
            max_length=40,
            description="The last minutes or hours, of 5m to 48h, or a moment.",
            examples=["6h"],
        ),
    ] = "6h"
    until: Annotated[
        Moment | None, Field(description="A moment; until now without it.")
    ] = None


class AskedLanes(AskedSpan):
    """Whom, as on the fleet page, and when."""

    state: (
        Literal["running", "idle", "stopped", "errored", "held", "stuck", "stale"]
        | None
    ) = None
    group: Annotated[str, Field(max_length=100, examples=["miners"])] = ""
    tag: Annotated[str, Field(max_length=50, examples=["belt"])] = ""
    q: Annotated[
        str,
        Field(max_length=100, description="A part of the name.", examples=["Ada"]),
    ] = ""
    cursor: Annotated[
        Cursor | None, Field(description="`next` of the page before.")
    ] = None


class AskedPair(AskedSpan):
    """Which two, and when."""

    a: MysisReference
    b: Annotated[str, Field(description="Number or name.", examples=["Brahe"])]


@lanes_router.get("/lanes", response=LanesPage)
def read_lanes(request: HttpRequest, asked: Query[AskedLanes]) -> dict[str, Any]:
    """What each Mysis did over time, 50 Myses a page; 422 `too_slow` after 4 s."""
    page = asked.cursor or 1
    members = {
        name: getattr(asked, name).replace("\x00", "") for name in ("group", "tag")
    }
    chosen = FleetView(asked.state or "", asked.q.replace("\x00", ""), **members)
    view = LanesView(chosen, _read_span(asked), page)
    found = share_lanes(view, timezone.now())
    if found.slow:
        raise _give_up()
    pages = len(found.pages)
    return {
        "axis": found.axis,
        "matching": found.matching,
        "unseen": found.unseen,
        "cut": found.cut,
        "items": found.lanes if page <= pages else [],
        "next": str(page + 1) if page < pages else None,
    }


@lanes_router.get("/compare", response=ComparisonOut)
def compare_two(request: HttpRequest, asked: Query[AskedPair]) -> dict[str, Any]:
    """Two side by side: activities, credits, actions, what they are flown with."""
    a, b = get_owner(asked.a).pk, get_owner(asked.b).pk
    if a == b:
        raise make_invalid("b", "is the same Mysis as a: name another one.")
    view = CompareView(a, b, _read_span(asked))
    found = share_comparison(view, timezone.now())
    if found is None:
        # One was deleted in between.
        raise make_unknown_mysis(asked.b if find_owner(asked.a) else asked.a)
    if found.lanes.slow:
        raise _give_up()
    return {"axis": found.axis, "sides": [_describe(side) for side in found.sides]}


def _read_span(asked: AskedSpan) -> TimeSpan:
    """The span of the question; raises a 422 Problem."""
    length, begin = parse_span(asked.since), parse_moment(asked.since)
    if length is None and begin is not None:
        length = (asked.until or timezone.now()) - begin
    if length is None or not SHORTEST <= length <= LONGEST:
        raise make_invalid(
            "since",
            "give minutes or hours such as 90m or 6h, or a moment, of 5m to 48h.",
        )
    return TimeSpan(length, asked.until)


def _give_up() -> Problem:
    detail = f"Given up after {SECONDS:g} s: ask for less time or fewer Myses."
    return Problem(422, "too_slow", detail)


def _describe(side: Side) -> dict[str, Any]:
    lane = side.lane
    return {
        **{name: getattr(lane, name) for name in LANE},
        **side.flown._asdict(),
        "turns": side.turns,
        "tokens": side.tokens,
        "cost": side.cost,
        "actions": side.actions,
        "failed_actions": side.failed,
        "credits_gained": side.gained,
        "credits": side.last_credits,
        "yields": describe_sums(side.rates) if side.rates else None,
        "sums": side.steps,
        "thought": _describe_thought(side.thought) if side.thought else None,
    }


def _describe_thought(line: Line) -> dict[str, Any]:
    return {
        "memory": line.id,
        "at": line.at,
        "reasoning": hide_secrets(line.reasoning),
        "content": hide_secrets(line.body),
    }
