"""/search/...: what stands beside the log, and how many hits there are of each kind."""

from __future__ import annotations

from datetime import datetime

from django.http import HttpRequest
from ninja import Query, Router, Schema
from pydantic import Field

from agents import record_search
from memory.api.log import Question, SearchFilter, parse_query
from memory.api.parameters import Page, Rows, cut_page, get_owner

records_router = Router(tags=["search"])


class RecordHitOut(Schema):
    """One match; ``snippet`` is escaped HTML with ``<mark>`` around the hits.

    ``before`` of the question is such an ``id``. ``mysis`` is null where it is not one
    Mysis's alone.
    """

    id: int = Field(examples=[12])
    mysis: int | None = Field(examples=[1])
    text: str = Field(examples=["Sell the iron ore."])
    snippet: str = Field(examples=["Sell the <mark>iron</mark> ore."])
    timestamp: datetime


class OrderHitOut(RecordHitOut):
    """An order, and who gave it."""

    mysis: int | None = Field(examples=[None])
    by: str = Field(examples=["operator:ann"])


class SummaryHitOut(RecordHitOut):
    """A summary of a history."""

    generation: int = Field(examples=[2])
    status: str = Field(examples=["active"])


class PinHitOut(RecordHitOut):
    """A standing order of a Mysis."""

    state: str = Field(examples=["active"])


class PromptHitOut(RecordHitOut):
    """A version of a prompt; ``text`` begins with its name and what was noted of it."""

    mysis: int | None = Field(examples=[None])
    prompt: int = Field(examples=[1])
    name: str = Field(examples=["captain"])
    version: int = Field(examples=[2])
    by: str = Field(examples=["operator:ann"])


class EventHitOut(RecordHitOut):
    """An event that says something in words; ``by`` is who did it, if anybody."""

    kind: str = Field(examples=["order.changed"])
    by: str | None = Field(examples=["operator:ann"])


class HitCountOut(Schema):
    """How many hits there are of a kind; with ``more`` at least so many."""

    kind: str = Field(examples=["orders"])
    count: int = Field(examples=[3])
    more: bool = Field(examples=[False])


class HitCountsOut(Schema):
    """The counts of all kinds, without those that took too long."""

    items: list[HitCountOut]


@records_router.get("/search/orders", response=Page[OrderHitOut])
def search_orders(request: HttpRequest, asked: Query[Question]) -> Rows:
    """Orders that match, newest first; with ``mysis`` those that it got."""
    return _search(record_search.ORDERS, asked)


@records_router.get("/search/summaries", response=Page[SummaryHitOut])
def search_summaries(request: HttpRequest, asked: Query[Question]) -> Rows:
    """Summaries of histories that match, newest first."""
    return _search(record_search.SUMMARIES, asked)


@records_router.get("/search/pins", response=Page[PinHitOut])
def search_pins(request: HttpRequest, asked: Query[Question]) -> Rows:
    """Standing orders that match, newest first."""
    return _search(record_search.PINS, asked)


@records_router.get("/search/prompts", response=Page[PromptHitOut])
def search_prompts(request: HttpRequest, asked: Query[Question]) -> Rows:
    """Versions of prompts that match; with ``mysis`` those of the prompt that it has."""
    return _search(record_search.PROMPTS, asked)


@records_router.get("/search/events", response=Page[EventHitOut])
def search_events(request: HttpRequest, asked: Query[Question]) -> Rows:
    """Events in words that match: states, orders, prompts, compactions, errors, alerts."""
    return _search(record_search.EVENTS, asked)


@records_router.get("/search/acts", response=Page[EventHitOut])
def search_acts(request: HttpRequest, asked: Query[Question]) -> Rows:
    """Those of the events that people and programs of theirs brought about."""
    return _search(record_search.ACTS, asked)


@records_router.get("/search/counts", response=HitCountsOut)
def count_hits(request: HttpRequest, asked: Query[SearchFilter]) -> HitCountsOut:
    """How many hits there are of each kind, each counted up to 1,000.

    Letters have no index: they are counted among the newest 6,000 messages and 100,000
    events, and ``more`` says so.
    """
    counts = record_search.count_hits(
        query=parse_query(asked),
        mode=asked.mode,
        mysis_id=None if asked.mysis is None else get_owner(asked.mysis).pk,
        ignore_case=asked.ignore_case,
        stem=asked.stem,
    )
    return HitCountsOut(
        items=[
            HitCountOut(kind=kind, count=one.number, more=one.more)
            for kind, one in counts.items()
        ]
    )


def _search(kind: str, asked: Question) -> Rows:
    hits = record_search.search_records(
        kind,
        query=parse_query(asked),
        mode=asked.mode,
        limit=asked.limit + 1,
        before=asked.before,
        mysis_id=None if asked.mysis is None else get_owner(asked.mysis).pk,
        ignore_case=asked.ignore_case,
        stem=asked.stem,
    )
    items = [
        {**record_search.describe_hit(hit), "snippet": str(hit.snippet)} for hit in hits
    ]
    return cut_page(items, asked.limit, [hit.id for hit in hits])
