"""/myses/{id}/turns, /turns/{id} and /events: what each turn did and cost, and the log.

Also what the other routes share: the Mysis of a reference, who asks, types of fields.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Any, cast

from django.http import HttpRequest
from ninja import Query, Router, Schema
from pydantic import AliasPath, BeforeValidator, Field, WithJsonSchema

from agents import events
from agents.events import Kind
from agents.models import ModelCall, Mysis, Turn
from memory.api.parameters import (
    After,
    Body,
    MysisReference,
    Page,
    Rows,
    TextOrNull,
    Window,
    build_page,
    cut_page,
    get_owner,
    make_unknown_mysis,
    one_of,
)
from memory.handles import parse_id
from memory.problems import make_invalid, make_missing

events_router = Router(tags=["events"])

# A related row by its name, null for none.
RowName = Annotated[str | None, BeforeValidator(lambda row: row and str(row))]

turns_router = Router(tags=["turns"])

TurnId = Annotated[str, Field(description="Its id.", examples=["17"])]


def get_mysis(reference: str) -> Mysis:
    """The Mysis of a number or name; raises a 404 Problem."""
    return cast("Mysis", get_owner(reference))


def read_changes(body: Body, *nullable: str) -> dict[str, Any]:
    """The fields that were given; raises a 422 Problem for a null that clears nothing."""
    values = body.model_dump(exclude_unset=True)
    for field, value in values.items():
        if value is None and field not in nullable:
            raise make_invalid(field, "cannot be null; leave it out to keep it.")
    return values


def caller_name(request: HttpRequest) -> str:
    """The caller of a request, as the log names them."""
    return str(request.auth)  # type: ignore[attr-defined]


def read_path(first: str, *path: str, example: object) -> Any:
    """A field that is read of a part of its row: of ``budget`` the ``name``."""
    return Field(validation_alias=AliasPath(first, *path), examples=[example])


class Tokens(Schema):
    """Tokens as the provider counted them; ``cached`` is a part of ``input``."""

    input: int = Field(validation_alias="input_tokens", examples=[21000])
    output: int = Field(validation_alias="output_tokens", examples=[480])
    cached: int = Field(validation_alias="cached_tokens", examples=[18500])


class WithTokens(Schema):
    """A row, or sums, whose columns are its ``tokens`` too."""

    @staticmethod
    def resolve_tokens(row: Any) -> Any:
        return row


class TurnOut(WithTokens):
    """One turn; ``outcome`` is null while it runs, ``cost`` is in US dollars."""

    id: int = Field(examples=[17])
    number: int = Field(examples=[4])
    trigger: str = Field(examples=["nudge"])
    outcome: str | None = Field(
        examples=["done"], json_schema_extra=one_of(Turn.Outcome, or_null=True)
    )
    iterations: int = Field(examples=[3])
    tokens: Tokens
    cost: float = Field(examples=[0.0016])
    latency_ms: int = Field(examples=[5200])
    error: TextOrNull = Field(examples=[None])
    started_at: datetime
    finished_at: datetime | None = Field(examples=["2026-02-05T00:00:09Z"])


class CallOut(WithTokens):
    """One request to a model: ``kind`` turn, or summary; numbered within its kind."""

    number: int
    kind: str = Field(examples=["turn"], json_schema_extra=one_of(ModelCall.Kind))
    model: str = Field(examples=["openai:gpt-5-nano"])
    tokens: Tokens
    cost: float = Field(examples=[0.0016])
    latency_ms: int = Field(examples=[5200])
    finish_reason: str = Field(examples=["stop"])
    error: TextOrNull = Field(examples=[None])
    created_at: datetime


class TurnDetail(TurnOut):
    """One turn with its calls, in the order in which they were made."""

    calls: list[CallOut]

    @staticmethod
    def resolve_calls(row: Turn) -> list[ModelCall]:
        """Those that drive it and those for summaries; their sums are the turn's."""
        return list(row.calls.order_by("pk"))


@turns_router.get("/myses/{reference}/turns", response=Page[TurnOut])
def list_turns(
    request: HttpRequest, reference: MysisReference, window: Query[Window]
) -> Rows:
    """The turns of a Mysis, oldest first."""
    mysis = get_mysis(reference)
    return build_page(Turn.objects.filter(mysis_id=mysis.pk), window)


@turns_router.get("/turns/{turn_id}", response=TurnDetail)
def read_turn(request: HttpRequest, turn_id: TurnId) -> Turn:
    """One turn by its id, with its model calls."""
    found = Turn.objects.filter(pk=parse_id(turn_id) or 0).first()
    if found is None:
        raise make_missing(f"There is no turn {turn_id[:100]!r}.")
    return found


class EventOut(Schema):
    """One event; ``mysis`` is a number, or null."""

    id: int = Field(examples=[812])
    kind: str = Field(examples=["turn.finished"], json_schema_extra=one_of(Kind))
    at: str = Field(examples=["2026-02-05T00:00:09.120Z"])
    mysis: int | None
    data: dict[str, Any] = Field(examples=[{"turn": 17, "outcome": "done"}])


_EACH_KIND = rf"(?:(?:{'|'.join(map(re.escape, Kind))})\s*)?"
KindList = Annotated[
    str,
    WithJsonSchema(
        {
            "type": "string",
            "anyOf": [
                {"enum": list(map(str, Kind))},
                {"pattern": rf"^\s*{_EACH_KIND}(?:,\s*{_EACH_KIND})*$"},
            ],
        }
    ),
]


class EventFilter(Window):
    """What of the log is wanted."""

    after: Annotated[After | None, Field(description="An event id.")] = None
    kind: Annotated[
        KindList | None,
        Field(
            description="Kinds, with commas between.", examples=["turn.finished,error"]
        ),
    ] = None
    mysis: Annotated[
        str | None,
        Field(
            description="Number or name; of a deleted one the number.",
            examples=["Ada"],
        ),
    ] = None


@events_router.get("/events", response=Page[EventOut])
def list_events(request: HttpRequest, wanted: Query[EventFilter]) -> Rows:
    """Events in the order of the stream; the cursor is the last event's id."""
    mysis_id = None
    if wanted.mysis is not None:
        mysis_id = events.find_mysis_number(wanted.mysis)
        if mysis_id is None:
            raise make_unknown_mysis(wanted.mysis)
    found = events.read_after(
        wanted.cursor or wanted.after or 0,
        mysis_id=mysis_id,
        kinds=_parse_kinds(wanted.kind),
        limit=wanted.limit + 1,
    )
    return cut_page(found, wanted.limit, [one["id"] for one in found])


def _parse_kinds(text: str | None) -> frozenset[str]:
    """The kinds of a comma-separated list; raises a 422 Problem for others."""
    kinds = frozenset(filter(None, (part.strip() for part in (text or "").split(","))))
    strange = sorted(kinds - set(map(str, Kind)))
    if strange:
        raise make_invalid(
            "kind",
            f"there is no kind {strange[0][:50]!r}; there are {', '.join(Kind)}.",
        )
    return kinds
