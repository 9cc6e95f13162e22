"""GET /summaries: what stands for the older parts of histories."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from django.http import HttpRequest
from ninja import Query, Router, Schema
from pydantic import Field

from memory.models import HistorySummary
from memory.owners import owner_of

from .fields import After
from .pages import Page, Rows, Window, page_of

router = Router(tags=["memory"])


class SummaryText(Schema):
    """One summary and the span of memory ids that it stands for."""

    id: int
    mysis: int = Field(0, validation_alias="mysis_id")
    first_id: int
    through_id: int
    generation: int
    text: str
    tokens_before: int
    tokens_after: int
    status: str
    attempts: int
    error: str
    cost: float
    created_at: datetime


class SummaryFilter(Window):
    """Which summaries are wanted."""

    after: Annotated[After | None, Field(description="A summary id.")] = None
    mysis: Annotated[str | None, Field(description="Number or name.")] = None


@router.get("/summaries", response=Page[SummaryText])
def list_summaries(request: HttpRequest, wanted: Query[SummaryFilter]) -> Rows:
    """History summaries, oldest first, with those that are no longer used."""
    rows = HistorySummary.objects.all()
    if wanted.mysis is not None:
        rows = rows.filter(mysis_id=owner_of(wanted.mysis).pk)
    return page_of(rows, wanted, after=wanted.after)
