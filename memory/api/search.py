"""GET /search/...: what was said, thought and broadcast, newest first."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from django.http import HttpRequest
from ninja import Query, Router, Schema
from pydantic import Field

from memory import search
from memory.owners import owner_of
from memory.problems import invalid
from memory.search import Hit

from .fields import After, SearchLimit
from .pages import Page, Rows

router = Router(tags=["search"])


class HitOut(Schema):
    """One match; ``snippet`` is escaped HTML with ``<mark>`` around the hits."""

    memory_id: int = Field(examples=[1234])
    mysis: int
    role: str = Field(examples=["assistant"])
    origin: str = Field(examples=["agent"])
    content: str = Field(examples=["The belt holds iron ore."])
    reasoning: str = Field(examples=[""])
    snippet: str = Field(examples=["The belt holds <mark>iron</mark> ore."])
    timestamp: datetime


class Question(Schema):
    """What to look for, and where."""

    q: str = Field(
        max_length=1000,
        description='All words; "quoted", -not, or.',
        examples=["iron ore"],
    )
    mysis: str | None = Field(
        None, description="Number or name; all without.", examples=["Ada"]
    )
    mode: Literal["fts", "exact"] = "fts"
    ignore_case: bool = Field(
        False, description="For exact: upper and lower case are one."
    )
    stem: bool = Field(
        False, description='For words: by English stems, so "mining" finds "mined".'
    )
    limit: SearchLimit = 20
    before: After | None = Field(
        None, description="Only matches with a smaller memory id.", examples=[1234]
    )


@router.get("/search/messages", response=Page[HitOut])
def search_messages(request: HttpRequest, asked: Query[Question]) -> Rows:
    """Matches in what was said."""
    return _answer(asked, reasoning=False)


@router.get("/search/reasoning", response=Page[HitOut])
def search_reasoning(request: HttpRequest, asked: Query[Question]) -> Rows:
    """Matches in what the models thought."""
    return _answer(asked, reasoning=True)


def words(asked: Question) -> str:
    """The query without NUL; raises a 422 Problem where nothing is left."""
    query = asked.q.replace("\x00", "")
    if not query.strip():
        raise invalid("q", "is empty; give a word to look for.")
    return query


def page_of_hits(hits: Sequence[Hit], limit: int, ids: Sequence[int]) -> Rows:
    """Hits as a page: ``next`` is the ``before`` of the following one.

    There is one if there is a hit more than ``limit``.
    """
    more = len(hits) > limit
    return Rows(items=list(hits[:limit]), next=str(ids[limit - 1]) if more else None)


def _answer(asked: Question, *, reasoning: bool) -> Rows:
    hits = search.search_messages(
        query=words(asked),
        mysis_id=owner_of(asked.mysis).pk if asked.mysis is not None else None,
        mode=asked.mode,
        limit=asked.limit + 1,
        before=asked.before,
        reasoning=reasoning,
        ignore_case=asked.ignore_case,
        stem=asked.stem,
    )
    return page_of_hits(hits, asked.limit, [hit.memory_id for hit in hits])
