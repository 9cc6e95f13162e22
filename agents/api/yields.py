"""/yield: what the fleet earns, by Mysis, prompt version, policy or model."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal

from django.http import HttpRequest
from django.utils import timezone
from ninja import Query, Router, Schema
from pydantic import Field

from agents.dashboard.yield_board import (
    YieldView,
    describe_board,
    describe_line,
    load_board,
)
from agents.dashboard.yields import YieldLine, parse_span
from memory.api.parameters import DEFAULT_LIMIT, Limit, Page, cut_page
from memory.problems import make_invalid

yield_router = Router(tags=["fleet"])


class YieldOut(Schema):
    """What turns came to; null is unknown, cost is in US dollars.

    ``hours`` are hours of Myses, ``known_hours`` those of turns that knew their purse;
    rates divide by the time, tokens and cost of these alone. Shares are parts of one.
    ``unknown_turns`` did not know it.
    """

    credits: int | None = Field(examples=[1240])
    credits_per_hour: float | None = Field(examples=[620.0])
    credits_per_1k_tokens: float | None = Field(examples=[3.2])
    credits_per_dollar: float | None = Field(examples=[41000.0])
    hours: float = Field(examples=[2.1])
    known_hours: float = Field(examples=[2.0])
    turns: int = Field(examples=[120])
    unknown_turns: int = Field(examples=[1])
    tokens: int = Field(examples=[387500])
    cost: float = Field(examples=[0.03])
    actions: int = Field(examples=[90])
    failed_actions: int = Field(examples=[3])
    failed_share: float | None = Field(examples=[0.033])
    idle_share: float | None = Field(examples=[0.1])
    orders_done: int = Field(examples=[2])


class YieldLineOut(YieldOut):
    """The yield of one ``key``, which may be "not by a turn".

    With by=mysis, ``mysis`` is its number.
    """

    key: str = Field(examples=["captain v3"])
    mysis: int | None = None
    myses: int = Field(examples=[12])


class YieldMark(Schema):
    """A change of prompt, policy or model, and what it did to the same Myses.

    ``before`` and ``after`` are credits an hour over equal spans; null, with ``text``
    saying so, where there is too little to compare.
    """

    what: Literal["prompt", "policy", "model"] = Field(examples=["prompt"])
    title: str = Field(examples=["captain v2 to v3"])
    at: datetime
    myses: int = Field(examples=[12])
    compared: int = Field(examples=[12])
    over_seconds: float | None = Field(examples=[21600.0])
    before: float | None = Field(examples=[500.0])
    after: float | None = Field(examples=[590.0])
    percent: int | None = Field(examples=[18])
    text: str = Field(examples=["+18 % over 6 h, 12 Myses"])


class YieldPage(Page[YieldLineOut]):
    """One page, and beside it the whole fleet and what changed."""

    by: str = Field(examples=["prompt"])
    since: datetime
    total: YieldOut
    marks: list[YieldMark]


class Asked(Schema):
    """How to add up, and over what time."""

    by: Literal["mysis", "prompt", "policy", "model"] = "mysis"
    since: Annotated[
        str,
        Field(
            max_length=10,
            description="The last minutes, hours or days, of 5m to 31d.",
            examples=["6h"],
        ),
    ] = "1h"
    cursor: Annotated[
        str | None,
        Field(max_length=420, description="`next` of the page before."),
    ] = None
    limit: Limit = DEFAULT_LIMIT


@yield_router.get("/yield", response=YieldPage)
def read_yield(request: HttpRequest, asked: Query[Asked]) -> dict[str, Any]:
    """Credits an hour, per 1,000 tokens and per dollar; lines in the order of names."""
    read_span(asked)
    view = YieldView(asked.by, asked.since, "name")
    board = load_board(view, timezone.now())
    lines, following = cut_lines(board.lines, asked)
    items = [describe_line(line) for line in lines]
    return describe_board(board) | {"items": items, "next": following}


def read_span(asked: Asked) -> timedelta:
    """The span of a question; raises a 422 Problem."""
    span = parse_span(asked.since)
    if span is None:
        raise make_invalid(
            "since", "give minutes, hours or days such as 90m, 6h or 7d, of 5m to 31d."
        )
    return span


def cut_lines(
    lines: Sequence[YieldLine], asked: Asked
) -> tuple[list[YieldLine], str | None]:
    """The page of these lines that is asked for, by name, and the cursor of the next."""
    after = [
        (place, line)
        for place, line in sorted(
            ((_find_place(line), line) for line in lines),
            key=lambda placed: placed[0],
        )
        if asked.cursor is None or place > _read_cursor(asked.cursor)
    ]
    cursors = ["/".join(place) for place, _ in after]
    page = cut_page([line for _, line in after], asked.limit, cursors)
    return page["items"], page["next"]


def _find_place(line: YieldLine) -> tuple[str, str]:
    """Where a line stands among all; two of one label are told apart by their keys."""
    return line.label, line.key


def _read_cursor(cursor: str) -> tuple[str, str]:
    """The place of the last line shown; a key never holds the slash, a model may."""
    label, _, key = cursor.rpartition("/")
    return label, key
