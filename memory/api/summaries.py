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

    id: int = Field(examples=[5])
    mysis: int = Field(0, validation_alias="mysis_id", examples=[1])
    first_id: int
    through_id: int = Field(examples=[900])
    generation: int = Field(examples=[2])
    text: str = Field(examples=["Ada mined iron at Sol and sold it at a profit."])
    tokens_before: int = Field(examples=[42000])
    tokens_after: int = Field(examples=[600])
    status: str = Field(examples=["active"])
    attempts: int
    error: str = Field(examples=[""])
    cost: float = Field(examples=[0.003])
    created_at: datetime


class SummaryFilter(Window):
    """Which summaries are wanted."""

    after: Annotated[After | None, Field(description="A summary id.")] = None
    mysis: str | None = Field(None, description="Number or name.", examples=["Ada"])


@router.get("/summaries", response=Page[SummaryText])
def list_summaries(request: HttpRequest, wanted: Query[SummaryFilter]) -> Rows:
    """History summaries, oldest first, with those that are no longer used."""
    rows = HistorySummary.objects.all()
    if wanted.mysis is not None:
        rows = rows.filter(mysis_id=owner_of(wanted.mysis).pk)
    return page_of(rows, wanted, after=wanted.after)
