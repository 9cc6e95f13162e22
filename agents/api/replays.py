"""/replays: recorded calls assembled anew under other policies, without a model."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from django.http import HttpRequest
from ninja import Query, Router, Schema, Status
from pydantic import Field

from agents.api.turns import caller_name, get_mysis
from agents.lab import kept_replays, table
from agents.lab.policies import MOST_POLICIES, read_policies
from agents.models import Replay
from agents.streamed import StreamedAnswer
from memory import audit
from memory.api.parameters import (
    Body,
    ErrorOut,
    Name,
    Page,
    Rows,
    StrategyName,
    TextOrNull,
    Whole,
    Window,
    build_example,
    build_page,
    cut_page,
    one_of,
)
from memory.api.policies import PolicyBudgetIn, PolicyBudgetOut
from memory.handles import parse_id
from memory.problems import make_invalid, make_missing

replays_router = Router(tags=["replays"])

ReplayId = Annotated[str, Field(description="Its number.", examples=["7"])]
CSV_KIND = "text/csv; charset=utf-8"
CSV = {
    "content": {
        "text/csv": {
            "schema": {"title": "ReplayTable", "type": "string"},
            "example": ",".join(table.COLUMNS),
        }
    }
}
Moment = Annotated[
    str | None,
    Field(
        max_length=40,
        description="A moment, or so long ago: 90m, 6h, 7d.",
        examples=["7d"],
    ),
]


class PolicySettings(Body):
    """A policy that is not stored; without a budget each call keeps its own."""

    model_config = build_example(strategy="window", options={"window": 30})

    name: Name | None = None
    strategy: StrategyName
    options: dict[str, Any] = {}
    budget: PolicyBudgetIn | None = None

    def to_columns(self) -> dict[str, Any]:
        """As the columns of a policy."""
        found = self.model_dump(exclude={"budget"}, exclude_none=True)
        if self.budget is not None:
            found["budget_tokens"] = self.budget.tokens
            found["budget_reserve"] = self.budget.reserve
        return found


class ReplayIn(Body):
    """Whose calls, of what time, under which policies.

    ``label`` is a group or a tag; without it and without ``mysis`` it is the fleet.
    A policy is the number or name of a stored one, or settings; without options and
    budget they leave each call its tools and its budget.
    """

    model_config = build_example(
        mysis="Ada", since="7d", policies=["tight", {"strategy": "window"}]
    )

    mysis: Whole | str | None = None
    label: Annotated[str, Field(min_length=1, max_length=100)] | None = None
    since: Moment = None
    until: Moment = None
    policies: Annotated[
        list[Whole | str | PolicySettings],
        Field(min_length=1, max_length=MOST_POLICIES),
    ]


class ReplayStarted(Schema):
    """A replay that was asked for."""

    id: int = Field(examples=[7])


class KeptOut(Schema):
    """How many were kept, of how many there were."""

    kept: int = Field(examples=[1000])
    of: int = Field(examples=[1000])


class ViewTokensOut(Schema):
    """Our count of tokens, with the tools."""

    mean: int = Field(examples=[7200])
    p95: int = Field(examples=[9900])
    most: int = Field(examples=[11400])
    sum: int = Field(examples=[7200000])


class PolicyFiguresOut(Schema):
    """What came of all calls under one policy; ``own`` is the one that each had.

    ``strategy`` is null for that one, ``budget`` where each call kept its own.

    ``messages`` and ``bytes`` are means of the ``requests``; ``unsent`` calls could not
    be sent within the budget. ``invalid`` ones a provider would refuse, or the policy's
    own strategy did not make them. ``shared`` is the part of the bytes that the call
    before had too. Costs are US dollars at list prices, null without a price, of which
    ``unpriced`` requests had none; ``cached_cost`` is with the provider's cache.
    ``facts_lost``: results that the recorded call had whole and this view has not;
    of ``facts_with_handle`` of them it has the handle.
    """

    name: str = Field(examples=["tight"])
    strategy: TextOrNull = Field(examples=["window"])
    options: dict[str, Any] = Field(examples=[{"window": 30}])
    budget: PolicyBudgetOut | None
    requests: int = Field(examples=[1000])
    unsent: int = Field(examples=[0])
    invalid: int = Field(examples=[0])
    over_budget: int = Field(examples=[0])
    compactions: int = Field(examples=[2])
    messages: float = Field(examples=[31.4])
    bytes: int = Field(examples=[28400])
    tokens: ViewTokensOut
    shared: float = Field(examples=[0.91])
    cost: float | None = Field(examples=[1.8])
    cached_cost: float | None = Field(examples=[0.42])
    unpriced: int = Field(examples=[0])
    pins: KeptOut
    orders: KeptOut
    notes: KeptOut
    state_values: KeptOut
    facts_lost: int = Field(examples=[310])
    facts_with_handle: int = Field(examples=[310])


class ReplayOut(Schema):
    """A replay. ``policies`` have their figures as far as it is; ``done`` calls of all.

    ``equal`` calls came out under their own policy as they were sent, byte for byte;
    ``differing`` counts the reasons of the others, ``unknown`` what is not kept of
    their moment.
    """

    id: int = Field(examples=[7])
    mysis: int | None = Field(examples=[1])
    label: TextOrNull = Field(examples=[None])
    since: datetime | None
    until: datetime
    state: str = Field(examples=["done"], json_schema_extra=one_of(Replay.State))
    done: int = Field(examples=[1000])
    total: int = Field(examples=[1000])
    error: TextOrNull = Field(examples=[None])
    by: str = Field(examples=["operator:grace"])
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    equal: int = Field(examples=[998])
    differing: dict[str, int] = Field(examples=[{}])
    unknown: dict[str, int] = Field(examples=[{}])
    policies: list[PolicyFiguresOut]


class ReplayedCallOut(Schema):
    """One recorded call; ``turn`` is the id of its turn, ``call`` its number there.

    ``figures`` are those of each policy by its name, ``own`` the one that the call had:
    pairs are how many were kept, of how many. ``view`` is another wherever the view is
    another. ``differs`` says why the call did not come out as it was sent.
    """

    place: int = Field(examples=[1])
    call_id: int = Field(examples=[1201])
    mysis: int = Field(validation_alias="mysis_id", examples=[1])
    turn: int = Field(validation_alias="turn_id", examples=[17])
    turn_number: int = Field(examples=[4])
    call: int = Field(validation_alias="call_number", examples=[2])
    at: datetime
    differs: TextOrNull = Field(examples=[None])
    figures: dict[str, dict[str, Any]] = Field(
        examples=[{"own": {"status": "reduced", "tokens": 7200, "pins": [1, 1]}}]
    )


class CallsFilter(Window):
    """Which page of the calls, or all of them as a file."""

    format: Literal["json", "csv"] = "json"


@replays_router.post("/replays", response={202: ReplayStarted, 404: ErrorOut})
def start_replay(request: HttpRequest, body: ReplayIn) -> Status[Replay]:
    """Assemble recorded calls anew under other policies, by a job; calls no model."""
    if body.mysis is not None and body.label is not None:
        raise make_invalid("label", "leave it out, or name no mysis.")
    given = [
        one.to_columns() if isinstance(one, PolicySettings) else one
        for one in body.policies
    ]
    replay = kept_replays.start_replay(
        policies=read_policies(given),
        by=caller_name(request),
        mysis=None if body.mysis is None else get_mysis(str(body.mysis)),
        label=body.label or "",
        since=kept_replays.read_moment("since", body.since),
        until=kept_replays.read_moment("until", body.until),
    )
    return Status(202, replay)


@replays_router.get("/replays", response=Page[ReplayOut])
def list_replays(request: HttpRequest, window: Query[Window]) -> Rows:
    """The replays that are kept, oldest first."""
    page = build_page(Replay.objects.all(), window)
    page["items"] = [kept_replays.describe_replay(row) for row in page["items"]]
    return page


@replays_router.get("/replays/{replay}", response=ReplayOut)
def read_replay(request: HttpRequest, replay: ReplayId) -> dict[str, Any]:
    """One replay, with the figures of each policy as far as it is."""
    return kept_replays.describe_replay(_get_replay(replay))


@replays_router.get(
    "/replays/{replay}/calls",
    response=Page[ReplayedCallOut],
    openapi_extra={"responses": {200: CSV}},
)
def list_replay_calls(
    request: HttpRequest, replay: ReplayId, asked: Query[CallsFilter]
) -> Any:
    """Its calls, a page of them; with ``format=csv`` a file of all, a line a policy."""
    row = _get_replay(replay)
    if asked.format == "csv":
        if request.method == "GET":
            audit.record("replay.download", kept_replays.name_replay(row))
        name = f"replay-{row.pk}.csv"
        return StreamedAnswer(table.write_table(row), CSV_KIND, name)
    rows = row.calls.filter(place__gt=asked.cursor or 0).order_by("place")
    found = list(rows[: asked.limit + 1])
    return cut_page(found, asked.limit, [call.place for call in found])


@replays_router.delete("/replays/{replay}", response={204: None})
def delete_replay(request: HttpRequest, replay: ReplayId) -> Status[None]:
    """Cancel it if it is under way, and delete all that it found."""
    kept_replays.delete_replay(_get_replay(replay), by=caller_name(request))
    return Status(204, None)


def _get_replay(reference: str) -> Replay:
    found = Replay.objects.filter(pk=parse_id(reference) or 0).first()
    if found is None:
        raise make_missing(
            f"There is no replay {reference[:100]!r}: /api/v1/replays lists them."
        )
    return found
