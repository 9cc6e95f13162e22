"""/rewinds: recorded calls made anew with another prompt, model, policy or order."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from django.http import HttpRequest
from ninja import Query, Router, Schema, Status
from pydantic import Field

from agents.api.turns import caller_name, get_mysis
from agents.lab import rewind as lab
from agents.models import Rewind, RewindStep
from memory.api.parameters import (
    FROM_JSON,
    Body,
    ErrorOut,
    Page,
    Rows,
    TextOrNull,
    Window,
    build_example,
    build_page,
    find_row,
    one_of,
)
from memory.handles import MAX_ID, parse_id
from memory.models import ContextPolicy
from memory.problems import make_invalid, make_missing

rewinds_router = Router(tags=["rewinds"])

RewindId = Annotated[str, Field(description="Its id.", examples=["5"])]
Ordinal = Annotated[int, Field(ge=1, le=MAX_ID), FROM_JSON]
Changed = Annotated[str, Field(max_length=100_000)]


class RewindOut(Schema):
    """A rewind; empty settings are null: as each call had them.

    ``done`` calls of at most ``total`` were made. ``end`` is null while it goes on:
    ``differs`` at its last step, ``end_of_record`` and ``limit`` without a difference,
    ``error`` and ``budget`` with the reason in ``error``. ``first`` is the first view by
    our count, before it was sent. Costs are in US dollars.
    """

    id: int = Field(examples=[5])
    mysis: int = Field(validation_alias="mysis_id", examples=[1])
    turn: int = Field(validation_alias="turn_id", examples=[17])
    call: int = Field(validation_alias="call_number", examples=[1])
    model: TextOrNull = Field(examples=["openai:gpt-5-nano"])
    policy: TextOrNull = Field(examples=["tight"])
    prompt: TextOrNull = Field(examples=[None])
    order: TextOrNull = Field(examples=["Sell the ore first."])
    state: str = Field(examples=["done"], json_schema_extra=one_of(Rewind.State))
    end: TextOrNull = Field(
        examples=["differs"], json_schema_extra=one_of(Rewind.End, or_null=True)
    )
    error: TextOrNull = Field(examples=[None])
    done: int = Field(examples=[3])
    total: int = Field(examples=[20])
    first_tokens: int = Field(examples=[21000])
    first_cost: float = Field(examples=[0.00105])
    input_tokens: int = Field(examples=[64000])
    output_tokens: int = Field(examples=[900])
    cost: float = Field(examples=[0.0036])
    by: str = Field(examples=["operator:grace"])
    created_at: datetime
    finished_at: datetime | None

    @staticmethod
    def resolve_policy(row: Rewind) -> str:
        return str(row.policy.get("name", ""))


class SaidOut(Schema):
    """What a model answered, with its calls as the log would have them."""

    text: str = Field(examples=["I sell the ore."])
    reasoning: str = Field(examples=[""])
    calls: list[dict[str, str]] = Field(
        examples=[[{"name": "sell", "arguments": '{"item_id": "ore_iron"}'}]]
    )
    input_tokens: int = Field(examples=[21000])
    output_tokens: int = Field(examples=[300])
    cached_tokens: int = Field(examples=[18500])
    cost: float = Field(examples=[0.0012])
    latency_ms: int = Field(examples=[5200])


class RewindStepOut(Schema):
    """One call, as it was recorded and as it was made anew.

    ``differs`` says why the calls are not the same; null where they are.
    """

    place: int = Field(examples=[3])
    turn: int = Field(validation_alias="turn_id", examples=[17])
    call: int = Field(validation_alias="call_number", examples=[3])
    recorded: SaidOut
    made: SaidOut
    differs: TextOrNull = Field(examples=["Call 1 is sell; recorded was travel."])


class RewindDetail(RewindOut):
    """A rewind with its steps."""

    steps: list[RewindStepOut]

    @staticmethod
    def resolve_steps(row: Rewind) -> list[RewindStep]:
        return list(row.steps.order_by("place"))


class RewindIn(Body):
    """From which call of which turn on, what is to be otherwise, and how many calls.

    ``policy`` is the name or the number of one; ``order`` stands in the place of the
    newest order that the call had.
    """

    model_config = build_example(turn=17, call=1, model="openai:gpt-5-nano")

    turn: Ordinal
    call: Ordinal
    prompt: Changed = ""
    model: Annotated[str, Field(max_length=300)] = ""
    policy: Annotated[str | None, Field(max_length=100)] = None
    order: Changed = ""
    steps: Annotated[int, Field(ge=1, le=lab.MOST_STEPS), FROM_JSON] = lab.USUAL_STEPS


class RewindFilter(Window):
    """Of which Mysis; of all without."""

    mysis: str | None = Field(None, description="Number or name.", examples=["Ada"])


@rewinds_router.get("/rewinds", response=Page[RewindOut])
def list_rewinds(request: HttpRequest, wanted: Query[RewindFilter]) -> Rows:
    """The rewinds that are kept, oldest first, without their steps."""
    rows = Rewind.objects.all()
    if wanted.mysis is not None:
        rows = rows.filter(mysis=get_mysis(wanted.mysis))
    return build_page(rows, wanted)


@rewinds_router.post("/rewinds", response={202: RewindOut, 404: ErrorOut})
def start_rewind(request: HttpRequest, body: RewindIn) -> Status[Rewind]:
    """Make recorded calls anew, against the recorded answers, until one differs.

    The model is really asked; what that costs counts in usage and budgets. Nothing of it
    reaches game or log. 409 where nothing was answered to the call.
    """
    policy = None
    if body.policy is not None:
        policy = find_row(ContextPolicy.objects.all(), body.policy)
        if policy is None:
            raise make_invalid("policy", "name one that there is, see /policies.")
    settings = lab.RewindSettings(
        prompt=body.prompt,
        model=body.model,
        policy=policy,
        order=body.order,
        most_steps=body.steps,
    )
    sent = lab.find_call(body.turn, min(body.call, 2**31 - 1))
    made = lab.start_rewind(sent=sent, settings=settings, by=caller_name(request))
    return Status(202, made)


@rewinds_router.get("/rewinds/{rewind}", response=RewindDetail)
def read_rewind(request: HttpRequest, rewind: RewindId) -> Rewind:
    """A rewind and its steps so far."""
    return _find(rewind)


@rewinds_router.delete("/rewinds/{rewind}", response={204: None})
def discard_rewind(request: HttpRequest, rewind: RewindId) -> Status[None]:
    """End a rewind if it goes on, and delete it with its steps; its cost stays counted."""
    lab.discard_rewind(rewind=_find(rewind), by=caller_name(request))
    return Status(204, None)


def _find(reference: str) -> Rewind:
    rows = Rewind.objects.select_related("mysis")
    found = rows.filter(pk=parse_id(reference) or 0).first()
    if found is None:
        raise make_missing(f"There is no rewind {reference[:100]!r}.")
    return found
