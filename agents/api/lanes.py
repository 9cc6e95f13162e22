"""/lanes: what each Mysis did over time. /compare: two of them on one time axis."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Literal

from django.http import HttpRequest
from django.utils import timezone
from ninja import Query, Router, Schema
from pydantic import BeforeValidator, Field

from agents.api.yields import YieldOut
from agents.dashboard.compare import CompareView, Side, StepSums, share_comparison
from agents.dashboard.fleet import FleetView, select_matching
from agents.dashboard.lanes import LANES, SECONDS, share_chosen_lanes
from agents.dashboard.time_axis import LONGEST, SHORTEST, TimeSpan, parse_moment
from agents.dashboard.yield_board import describe_sums
from memory.api.parameters import (
    FROM_QUERY,
    ErrorOut,
    MysisReference,
    Page,
    cut_page,
    get_owner,
    make_unknown_mysis,
)
from memory.handles import find_owner
from memory.problems import Problem, make_invalid

lanes_router = Router(tags=["fleet"])


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
    """What the turns that began in step ``place`` came to; null is unknown.

    ``gained`` became known in it, with the purse ``before`` the first change and
    ``after`` the last.
    """

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

    memory: int = Field(validation_alias="id", examples=[1234])
    at: datetime
    reasoning: str = Field(examples=["The belt is near."])
    content: str = Field(validation_alias="body", examples=["Off to the belt."])


class SideOut(Schema):
    """One of the two; prompt, policy and model are those of its last turn, in words.

    ``yields`` are the rates of the yield board, null for a span of the past.
    """

    mysis: int = Field(validation_alias="lane.id", examples=[1])
    name: str = Field(validation_alias="lane.name", examples=["Ada"])
    state: str = Field(validation_alias="lane.state", examples=["running"])
    seconds: dict[str, float] = Field(
        validation_alias="lane.seconds", examples=[{"mining": 5400.0}]
    )
    steps: list[StepOut] = Field(validation_alias="lane.steps")
    marks: list[MarkOut] = Field(validation_alias="lane.marks")
    prompt: str = Field(validation_alias="flown.prompt", examples=["captain v2"])
    policy: str = Field(
        validation_alias="flown.policy", examples=["the built-in policy"]
    )
    model: str = Field(validation_alias="flown.model", examples=["openai:gpt-5-nano"])
    turns: int = Field(examples=[120])
    tokens: int = Field(examples=[387500])
    cost: float = Field(examples=[0.03])
    actions: int = Field(examples=[90])
    failed_actions: int = Field(validation_alias="failed", examples=[3])
    credits_gained: int | None = Field(validation_alias="gained", examples=[1240])
    credits: int | None = Field(validation_alias="last_credits", examples=[5240])
    yields: YieldOut | None
    sums: list[SumsOut]
    thought: ThoughtOut | None

    @staticmethod
    def resolve_yields(side: Side) -> dict[str, Any] | None:
        return describe_sums(side.rates) if side.rates else None

    @staticmethod
    def resolve_sums(side: Side) -> Sequence[StepSums]:
        # What a side calls its steps are these sums; the steps drawn are its lane's.
        return side.steps


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
        str,
        Field(
            max_length=100, description="`next` of the page before.", examples=["Ada"]
        ),
    ] = ""
    limit: Annotated[int, Field(ge=1, le=LANES), FROM_QUERY] = LANES


class AskedPair(AskedSpan):
    """Which two, and when."""

    a: MysisReference
    b: Annotated[str, Field(description="Number or name.", examples=["Brahe"])]


@lanes_router.get("/lanes", response=LanesPage)
def read_lanes(request: HttpRequest, asked: Query[AskedLanes]) -> dict[str, Any]:
    """What each Mysis did over time, at most 50 a page; 422 `too_slow` after 4 s."""
    now = timezone.now()
    span = _read_span(asked, now)
    matching = select_matching(FleetView.read(asked.dict(exclude_none=True)))
    # No name is borne twice, so the last one shown tells where the next page begins.
    further = matching.filter(name__gt=asked.cursor.replace("\x00", ""))
    rows = list(further.values_list("id", "name")[: asked.limit + 1])
    page = cut_page([pk for pk, _ in rows], asked.limit, [name for _, name in rows])
    found = share_chosen_lanes(page["items"], span, now)
    if found.slow:
        raise _give_up()
    return {
        "axis": found.axis,
        "matching": matching.count(),
        "unseen": found.unseen,
        "cut": found.cut,
        "items": found.lanes,
        "next": page["next"],
    }


@lanes_router.get("/compare", response={200: ComparisonOut, 404: ErrorOut})
def compare_two(request: HttpRequest, asked: Query[AskedPair]) -> dict[str, Any]:
    """Two side by side: activities, credits, actions, what they are flown with."""
    a, b = get_owner(asked.a).pk, get_owner(asked.b).pk
    if a == b:
        raise make_invalid("b", "is the same Mysis as a: name another one.")
    now = timezone.now()
    found = share_comparison(CompareView(a, b, _read_span(asked, now)), now)
    if found is None:
        # One was deleted in between.
        raise make_unknown_mysis(asked.b if find_owner(asked.a) else asked.a)
    if found.lanes.slow:
        raise _give_up()
    return {"axis": found.axis, "sides": found.sides}


def _read_span(asked: AskedSpan, now: datetime) -> TimeSpan:
    """The span of the question; raises a 422 Problem."""
    span = TimeSpan.parse(asked.since, asked.until, now)
    if span is None or not SHORTEST <= span.length <= LONGEST:
        raise make_invalid(
            "since",
            "give minutes or hours such as 90m or 6h, or a moment, of 5m to 48h.",
        )
    return span


def _give_up() -> Problem:
    detail = f"Given up after {SECONDS:g} s: ask for less time or fewer Myses."
    return Problem(422, "too_slow", detail)
