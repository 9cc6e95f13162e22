"""/myses/{id}/turns and /turns/{id}: what each turn did and cost."""

from __future__ import annotations

from datetime import datetime

from django.http import HttpRequest
from ninja import Query, Router, Schema

from agents.models import Turn
from memory.api.pages import Page, Rows, Window, page_of
from memory.owners import number_of
from memory.problems import missing

from . import lookup

router = Router(tags=["turns"])


class Tokens(Schema):
    """Tokens as the provider counted them; ``cached`` is a part of ``input``."""

    input: int
    output: int
    cached: int


class TurnOut(Schema):
    """One turn; ``outcome`` is null while it runs, ``cost`` is in US dollars."""

    id: int
    number: int
    trigger: str
    outcome: str | None
    iterations: int
    tokens: Tokens
    cost: float
    latency_ms: int
    error: str | None
    started_at: datetime
    finished_at: datetime | None

    @staticmethod
    def resolve_tokens(row: Turn) -> dict[str, int]:
        """The three columns as one object."""
        return {
            "input": row.input_tokens,
            "output": row.output_tokens,
            "cached": row.cached_tokens,
        }

    @staticmethod
    def resolve_error(row: Turn) -> str | None:
        """Null where nothing went wrong."""
        return row.error or None


@router.get("/myses/{reference}/turns", response=Page[TurnOut])
def list_turns(request: HttpRequest, reference: str, window: Query[Window]) -> Rows:
    """The turns of a Mysis, oldest first."""
    mysis = lookup.mysis_of(reference)
    return page_of(Turn.objects.filter(mysis_id=mysis.pk), window)


@router.get("/turns/{turn_id}", response=TurnOut)
def read_turn(request: HttpRequest, turn_id: str) -> Turn:
    """One turn by its id."""
    number = number_of(turn_id)
    found = Turn.objects.filter(pk=number).first() if number is not None else None
    if found is None:
        raise missing(f"There is no turn {turn_id[:100]!r}.")
    return found
