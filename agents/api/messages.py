"""GET /myses/{id}/messages: what it was told, and how far that has come."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from django.http import HttpRequest
from ninja import Query, Router, Schema
from pydantic import Field

from agents import deliveries
from memory.api.fields import MysisReference
from memory.api.pages import Page, Window, page_of
from memory.models import Memory

from . import lookup

router = Router(tags=["myses"])


class DeliveryOut(Schema):
    """Where a message stands.

    queued: no call has had it yet. shown: it was in call ``call`` of turn ``number``
    (``turn`` is its id), and in those after. left_out: the budget of the context had
    no room for it. done: a turn that had it ended by itself. Null for what is not so
    yet, and for messages from before deliveries were kept.
    """

    state: Literal["queued", "shown", "left_out", "done"] = Field(examples=["done"])
    turn: int | None = Field(examples=[17])
    number: int | None = Field(examples=[4])
    call: int | None = Field(examples=[1])
    shown_at: datetime | None
    done_at: datetime | None


class ToldOut(Schema):
    """A message of a human, of another Mysis, or of a broadcast."""

    id: int
    origin: str = Field(examples=["human"])
    sender: str = Field(examples=["operator:grace"])
    content: str = Field(examples=["Sell what you have."])
    created_at: datetime
    delivery: DeliveryOut


@router.get("/myses/{reference}/messages", response=Page[ToldOut])
def list_messages(
    request: HttpRequest, reference: MysisReference, window: Query[Window]
) -> dict[str, Any]:
    """Messages and broadcasts to a Mysis, oldest first, with their delivery."""
    mysis = lookup.mysis_of(reference)
    page = page_of(deliveries.messages(mysis), window)
    reached = deliveries.reached(mysis, [row.pk for row in page["items"]])
    items = [_told(row, reached[row.pk]) for row in page["items"]]
    return {"items": items, "next": page["next"]}


def _told(row: Memory, reached: deliveries.Reached) -> dict[str, Any]:
    plain = ("id", "origin", "sender", "content", "created_at")
    return {name: getattr(row, name) for name in plain} | {"delivery": reached}
