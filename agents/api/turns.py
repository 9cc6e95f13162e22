"""/myses/{id}/turns and /turns/{id}: what each turn did and cost."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from django.http import HttpRequest
from ninja import Query, Router, Schema
from pydantic import Field

from agents.models import ModelCall, Turn
from memory.api.fields import MysisReference
from memory.api.pages import Page, Rows, Window, page_of
from memory.owners import number_of
from memory.problems import missing

from . import lookup

router = Router(tags=["turns"])

TurnId = Annotated[str, Field(description="Its id.", examples=["17"])]


class Tokens(Schema):
    """Tokens as the provider counted them; ``cached`` is a part of ``input``."""

    input: int = Field(examples=[21000])
    output: int = Field(examples=[480])
    cached: int = Field(examples=[18500])


def tokens_of(row: Turn | ModelCall) -> dict[str, int]:
    """The columns of tokens as one object."""
    return {
        "input": row.input_tokens,
        "output": row.output_tokens,
        "cached": row.cached_tokens,
    }


class TurnOut(Schema):
    """One turn; ``outcome`` is null while it runs, ``cost`` is in US dollars."""

    id: int = Field(examples=[17])
    number: int = Field(examples=[4])
    trigger: str = Field(examples=["nudge"])
    outcome: str | None = Field(examples=["done"])
    iterations: int = Field(examples=[3])
    tokens: Tokens
    cost: float = Field(examples=[0.0016])
    latency_ms: int = Field(examples=[5200])
    error: str | None = Field(examples=[None])
    started_at: datetime
    finished_at: datetime | None = Field(examples=["2026-02-05T00:00:09Z"])

    @staticmethod
    def resolve_tokens(row: Turn) -> dict[str, int]:
        """The three columns as one object."""
        return tokens_of(row)

    @staticmethod
    def resolve_error(row: Turn) -> str | None:
        """Null where nothing went wrong."""
        return row.error or None


class CallOut(Schema):
    """One request to a model: ``kind`` turn, or summary; numbered within its kind."""

    number: int
    kind: str = Field(examples=["turn"])
    model: str = Field(examples=["openai:gpt-5-nano"])
    tokens: Tokens
    cost: float = Field(examples=[0.0016])
    latency_ms: int = Field(examples=[5200])
    finish_reason: str = Field(examples=["stop"])
    error: str | None = Field(examples=[None])
    created_at: datetime

    @staticmethod
    def resolve_tokens(row: ModelCall) -> dict[str, int]:
        """The three columns as one object."""
        return tokens_of(row)

    @staticmethod
    def resolve_error(row: ModelCall) -> str | None:
        """Null where nothing went wrong."""
        return row.error or None


class TurnDetail(TurnOut):
    """One turn with its calls, in the order in which they were made."""

    calls: list[CallOut]

    @staticmethod
    def resolve_calls(row: Turn) -> list[ModelCall]:
        """Those that drive it and those for summaries; their sums are the turn's."""
        return list(row.calls.order_by("pk"))


@router.get("/myses/{reference}/turns", response=Page[TurnOut])
def list_turns(
    request: HttpRequest, reference: MysisReference, window: Query[Window]
) -> Rows:
    """The turns of a Mysis, oldest first."""
    mysis = lookup.mysis_of(reference)
    return page_of(Turn.objects.filter(mysis_id=mysis.pk), window)


@router.get("/turns/{turn_id}", response=TurnDetail)
def read_turn(request: HttpRequest, turn_id: TurnId) -> Turn:
    """One turn by its id, with its model calls."""
    number = number_of(turn_id)
    found = Turn.objects.filter(pk=number).first() if number is not None else None
    if found is None:
        raise missing(f"There is no turn {turn_id[:100]!r}.")
    return found
