"""/broadcasts, and the search in them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from django.db.models import Min
from django.http import HttpRequest
from ninja import Query, Router, Schema, Status
from pydantic import Field

from agents import actions, search
from agents.models import Broadcast
from agents.search import BroadcastHit
from memory.api.fields import MAX_ID, Body, Text, example
from memory.api.pages import Page, Rows, Window, page_of
from memory.api.search import HitOut, Question, page_of_hits, words
from memory.models import Memory, Origin, Role

from . import lookup

router = Router(tags=["broadcasts"])


class BroadcastOut(Schema):
    """One message to the fleet; ``mysis`` is the number of one that sent it."""

    id: int
    text: str = Field(examples=["All to Sol."])
    sender: str = Field(examples=["operator:grace"])
    mysis: int | None = Field(examples=[None])
    recipients: int = Field(examples=[5])
    created_at: datetime

    @staticmethod
    def resolve_mysis(row: Broadcast) -> int | None:
        """Null for a human's broadcast."""
        return row.mysis_id

    @staticmethod
    def resolve_recipients(row: Broadcast) -> int:
        """How many got it and still have it, or are about to get it."""
        return actions.recipients(row)


class BroadcastIn(Body):
    """A message to every idle and running Mysis."""

    model_config = example(text="All to Sol.")

    text: Text


class BroadcastQuestion(Question):
    """As other searches; ``before`` also takes the ``next`` of the page before."""

    before: Annotated[
        int | None,
        Field(
            ge=-MAX_ID,
            le=MAX_ID,
            description="A memory id, or `next`.",
            examples=[1234],
        ),
    ] = None


class BroadcastHitOut(HitOut):
    """As other hits; the memory is the first delivery, if there was any."""

    memory_id: int | None  # type: ignore[assignment]
    mysis: int | None = Field(examples=[None])  # type: ignore[assignment]
    role: Literal["user"]
    origin: Literal["broadcast"]


@router.get("/broadcasts", response=Page[BroadcastOut])
def list_broadcasts(request: HttpRequest, window: Query[Window]) -> Rows:
    """All broadcasts, oldest first."""
    return page_of(Broadcast.objects.defer("vector"), window)


@router.post("/broadcasts", response={201: BroadcastOut})
def send_broadcast(request: HttpRequest, body: BroadcastIn) -> Status[Broadcast]:
    """Send one; stopped and errored Myses get none."""
    return Status(201, actions.send_broadcast(text=body.text, by=lookup.by(request)))


@router.get("/search/broadcasts", response=Page[BroadcastHitOut], tags=["search"])
def search_broadcasts(request: HttpRequest, asked: Query[BroadcastQuestion]) -> Rows:
    """Matches in broadcasts, newest first; ``mysis`` is one that sent or got it."""
    query = words(asked)
    hits = search.search_broadcasts(
        query=query,
        mode=asked.mode,
        limit=asked.limit + 1,
        before=_broadcast_before(asked.before),
        mysis_id=None if asked.mysis is None else lookup.mysis_of(asked.mysis).pk,
        ignore_case=asked.ignore_case,
        stem=asked.stem,
    )
    rows = Broadcast.objects.in_bulk([hit.id for hit in hits])
    places = _first_deliveries(list(rows))
    items: Any = [_hit(hit, rows[hit.id], places.get(hit.id)) for hit in hits]
    return page_of_hits(items, asked.limit, [-hit.id for hit in hits])


def _broadcast_before(memory_id: int | None) -> int | None:
    """The cursor of broadcasts for one of memories: they rise together.

    ``next`` of a page is a broadcast's own number, negative to tell it from a
    memory's: one that reached nobody has no memory to be named by.
    """
    if memory_id is None:
        return None
    if memory_id < 0:
        return -memory_id
    # From the oldest broadcast that was delivered there or later: those before it
    # that reached nobody come along, for they have no memory to be named by.
    later = Memory.objects.filter(pk__gte=memory_id, broadcast__isnull=False)
    oldest: int | None = later.aggregate(oldest=Min("broadcast_id"))["oldest"]
    return oldest


def _first_deliveries(ids: list[int]) -> dict[int, int]:
    rows = Memory.objects.filter(broadcast__in=ids).values_list("broadcast_id")
    return dict(rows.annotate(first=Min("id")).order_by())


def _hit(hit: BroadcastHit, row: Broadcast, memory_id: int | None) -> dict[str, Any]:
    return {
        "memory_id": memory_id,
        "mysis": row.mysis_id,
        "role": Role.USER.value,
        "origin": Origin.BROADCAST.value,
        "content": hit.content,
        "reasoning": "",
        "snippet": hit.snippet,
        "timestamp": hit.timestamp,
    }
