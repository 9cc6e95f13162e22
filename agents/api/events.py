"""GET /events: the event log, the same items as on the WebSocket."""

from __future__ import annotations

from typing import Annotated, Any

from django.http import HttpRequest
from ninja import Query, Router, Schema
from pydantic import Field

from agents import events
from agents.events import Kind
from memory.api.fields import After
from memory.api.pages import Page, Rows, Window
from memory.owners import unknown
from memory.problems import invalid

router = Router(tags=["events"])


class EventOut(Schema):
    """One event; ``mysis`` is a number, or null."""

    id: int = Field(examples=[812])
    kind: str = Field(examples=["turn.finished"])
    at: str = Field(examples=["2026-02-05T00:00:09.120Z"])
    mysis: int | None
    data: dict[str, Any] = Field(examples=[{"turn": 17, "outcome": "done"}])


class EventFilter(Window):
    """What of the log is wanted."""

    after: Annotated[After | None, Field(description="An event id.")] = None
    kind: Annotated[
        str | None,
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


@router.get("/events", response=Page[EventOut])
def list_events(request: HttpRequest, wanted: Query[EventFilter]) -> Rows:
    """Events in the order of the stream; the cursor is the last event's id."""
    found = events.read_after(
        wanted.cursor or wanted.after or 0,
        mysis_id=None if wanted.mysis is None else _mysis(wanted.mysis),
        kinds=kinds_of(wanted.kind),
        limit=wanted.limit + 1,
    )
    shown = found[: wanted.limit]
    more = len(found) > wanted.limit
    return Rows(items=list(shown), next=str(shown[-1]["id"]) if more else None)


def _mysis(reference: str) -> int:
    number = events.told_of(reference)
    if number is None:
        raise unknown(reference)
    return number


def kinds_of(text: str | None) -> frozenset[str]:
    """The kinds of a comma-separated list; raises a 422 Problem for others."""
    kinds = frozenset(filter(None, (part.strip() for part in (text or "").split(","))))
    unknown = sorted(kinds - {str(kind) for kind in Kind})
    if unknown:
        raise invalid(
            "kind",
            f"there is no kind {unknown[0][:50]!r}; there are {', '.join(Kind)}.",
        )
    return kinds
