"""GET /myses/{id}/memories and /search/...: the log of a Mysis, and search in all."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from django.http import HttpRequest
from ninja import Query, Router, Schema
from pydantic import Field

from memory.api.parameters import (
    PAGE_BYTES,
    WITH_WORDS,
    After,
    MysisReference,
    Page,
    Rows,
    SearchLimit,
    TextOrNull,
    Window,
    build_page,
    cut_page,
    get_owner,
    one_of,
)
from memory.models import Memory, Origin, Role
from memory.models.secret_tools import read_secret_tools
from memory.problems import make_invalid
from memory.search import results
from memory.search.results import hide_row_secrets

memories_router = Router(tags=["memory"])

CALL = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "get_nearby", "arguments": "{}"},
}


class MemoryOut(Schema):
    """One stored message; ``turn`` is the id of the turn it belongs to."""

    id: int = Field(examples=[1234])
    turn: int | None = Field(None, validation_alias="turn_id", examples=[17])
    role: str = Field(examples=["assistant"], json_schema_extra=one_of(Role))
    origin: str = Field(examples=["agent"], json_schema_extra=one_of(Origin))
    sender: TextOrNull = Field(examples=[None])
    content: str = Field(examples=["Scanning."])
    reasoning: str = Field(examples=["I do not know yet what is here."])
    tool_calls: list[Any] = Field(
        examples=[[CALL]], json_schema_extra={"items": {"type": "object"}}
    )
    tool_call_id: TextOrNull = Field(examples=[None])
    tool_name: TextOrNull = Field(examples=[None])
    is_error: bool
    tick: int | None = Field(examples=[1042])
    taken_back: bool = Field(
        description="Whether a branch took it back: then no view has it.",
        examples=[False],
    )
    created_at: datetime


class MemoryFilter(Window):
    """What of the log is wanted."""

    after: Annotated[After | None, Field(description="A memory id.")] = None
    role: Role | None = Field(None, examples=["assistant"])
    origin: Origin | None = Field(None, examples=["agent"])


@memories_router.get("/myses/{reference}/memories", response=Page[MemoryOut])
def list_memories(
    request: HttpRequest, reference: MysisReference, wanted: Query[MemoryFilter]
) -> Rows:
    """The stored messages of a Mysis, oldest first."""
    chosen = wanted.model_dump(include={"role", "origin"}, exclude_none=True)
    rows = Memory.objects.filter(mysis_id=get_owner(reference).pk, **chosen)
    page = build_page(rows, wanted, after=wanted.after)
    secret = read_secret_tools()
    page["items"] = [hide_row_secrets(row, secret) for row in page["items"]]
    return page


# --- GET /search/...: what was said, thought and broadcast, newest first

search_router = Router(tags=["search"])


class HitOut(Schema):
    """One match; ``snippet`` is escaped HTML with ``<mark>`` around the hits."""

    memory_id: int = Field(examples=[1234])
    mysis: int
    role: str = Field(examples=["assistant"], json_schema_extra=one_of(Role))
    origin: str = Field(examples=["agent"], json_schema_extra=one_of(Origin))
    content: str = Field(examples=["The belt holds iron ore."])
    reasoning: str = Field(examples=[""])
    snippet: str = Field(examples=["The belt holds <mark>iron</mark> ore."])
    taken_back: bool = Field(False, examples=[False])
    timestamp: datetime


# Signs that a query by words uses, with the spaces between them.
OPERATORS = "-\"' \t\n\r"


class SearchFilter(Schema):
    """What to look for, and of whom."""

    q: str = Field(
        max_length=1000,
        description='All words; "quoted", -not, or.',
        examples=["iron ore"],
        json_schema_extra=WITH_WORDS,
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


class Question(SearchFilter):
    """What to look for, how many at most, and before which."""

    limit: SearchLimit = 20
    before: After | None = Field(
        None, description="Only matches with a smaller memory id.", examples=[1234]
    )


@search_router.get("/search/messages", response=Page[HitOut])
def search_messages(request: HttpRequest, asked: Query[Question]) -> Rows:
    """Matches in what was said."""
    return _search(asked)


@search_router.get("/search/reasoning", response=Page[HitOut])
def search_reasoning(request: HttpRequest, asked: Query[Question]) -> Rows:
    """Matches in what the models thought."""
    return _search(asked, reasoning=True)


@search_router.get("/search/calls", response=Page[HitOut])
def search_calls(request: HttpRequest, asked: Query[Question]) -> Rows:
    """Matches in what was said in calls of tools, alone."""
    return _search(asked, calls=True)


def parse_query(asked: SearchFilter) -> str:
    """The query without NUL; raises a 422 Problem where there is nothing to look for."""
    query = asked.q.replace("\x00", "")
    if not query.strip():
        raise make_invalid("q", "is empty; give a word to look for.")
    if asked.mode == "fts" and not query.strip(OPERATORS):
        raise make_invalid(
            "q", "holds no word; give one, or look for it by mode=exact."
        )
    return query


def _search(asked: Question, *, reasoning: bool = False, calls: bool = False) -> Rows:
    hits = results.search_messages(
        query=parse_query(asked),
        mysis_id=get_owner(asked.mysis).pk if asked.mysis is not None else None,
        mode=asked.mode,
        limit=asked.limit + 1,
        before=asked.before,
        reasoning=reasoning,
        calls=calls,
        ignore_case=asked.ignore_case,
        stem=asked.stem,
        most_bytes=PAGE_BYTES,
    )
    shown = sum(hit.fits for hit in hits[: asked.limit])
    return cut_page(hits, shown, [hit.memory_id for hit in hits])
